//! The JSON patch: only hints of this slice, only where they differ, and the trigger time where nothing else changed.

use std::collections::HashMap;
use std::io::Write as _;

use crate::cluster::loose::{Loose, Pairs, WireText};
use crate::cluster::wire::{Endpoint, EndpointSlice, HintName, Hints};

/// The annotation that the EndpointSlice controller changes with each of its writes.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

const TRIGGER_TIME_PATH: &str =
    "/metadata/annotations/endpoints.kubernetes.io~1last-change-trigger-time";

/// The hints that an endpoint is to have.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a, T> {
    /// None.
    Nothing,
    /// One zone and no node.
    Zone(&'a str),
    /// Those that are stored.
    Stored(&'a Hints<T>),
    /// Those that it is sent with.
    AsSent,
}

impl<T: WireText> Wanted<'_, T> {
    /// Whether `hints` are already so.
    fn is_met_by(&self, hints: &Loose<Hints<T>>) -> bool {
        match self {
            Self::AsSent => true,
            Self::Nothing => matches!(hints, Loose::Absent),
            Self::Zone(zone) => hints.get().is_some_and(|hints| {
                let [only] = hints.for_zones.items() else {
                    return false;
                };
                name(only) == Some(zone) && hints.for_nodes.items().is_empty()
            }),
            Self::Stored(stored) => hints.get() == Some(stored),
        }
    }
}

fn name<T: WireText>(hint: &Loose<HintName<T>>) -> Option<&str> {
    hint.get()?.name.text()
}

/// The hints that are stored, for each endpoint that is still ready and still the same, if that leaves every ready
/// endpoint with a zone hint; nothing otherwise.
pub fn stored_hints<'a, T: WireText>(
    object: &EndpointSlice<T>,
    old: Option<&'a EndpointSlice<T>>,
) -> Option<Vec<Wanted<'a, T>>> {
    let old: HashMap<_, _> = old?
        .endpoints
        .items()
        .iter()
        .filter_map(|e| Some((identity(e.get()?)?, e.get()?)))
        .collect();
    let wanted = |endpoint: &Loose<Endpoint<T>>| {
        let Some(endpoint) = endpoint.get().filter(|endpoint| endpoint.is_ready()) else {
            return Some(Wanted::AsSent);
        };
        // The lookup key borrows from the new object, so its lifetime must not leak into the map's.
        let stored = old.get(&identity(endpoint)?)?.hints.get()?;
        (!stored.for_zones.items().is_empty()).then_some(Wanted::Stored(stored))
    };
    object.endpoints.items().iter().map(wanted).collect()
}

/// Address and uid: another pod on the same address is another endpoint.
fn identity<T: WireText>(endpoint: &Endpoint<T>) -> Option<(&str, &str)> {
    let uid = endpoint
        .target_ref
        .get()
        .and_then(|target| target.uid.text());
    Some((endpoint.address()?, uid.unwrap_or_default()))
}

/// The patch that gives the endpoints of `object` what is `wanted`, in their order; nothing where nothing changes.
///
/// `stored_managed_fields` is the JSON of `metadata.managedFields` as stored, and is asked for only where it is needed.
pub fn build<T: WireText>(
    object: &EndpointSlice<T>,
    old: Option<&EndpointSlice<T>>,
    wanted: &[Wanted<'_, T>],
    stored_managed_fields: impl FnOnce() -> Option<String>,
) -> Option<Vec<u8>> {
    let mut patch = Patch::default();
    for (index, (endpoint, wanted)) in object.endpoints.items().iter().zip(wanted).enumerate() {
        let Some(endpoint) = endpoint.get() else {
            continue;
        };
        if !wanted.is_met_by(&endpoint.hints) {
            patch.set_hints(index, &endpoint.hints, wanted);
        }
    }
    if let Some(old) = old.filter(|old| changes_nothing_else(object, old, wanted)) {
        patch.restore_trigger_time(object, old, stored_managed_fields);
    }
    patch.finish()
}

fn annotations<T: WireText>(slice: &EndpointSlice<T>) -> Option<&Pairs<T>> {
    slice.metadata.get()?.annotations.get()
}

/// Whether endpoints, ports, labels and all annotations but the trigger time are those that are stored, once the hints
/// are as wanted.
fn changes_nothing_else<T: WireText>(
    object: &EndpointSlice<T>,
    old: &EndpointSlice<T>,
    wanted: &[Wanted<'_, T>],
) -> bool {
    let (new_endpoints, old_endpoints) = (object.endpoints.items(), old.endpoints.items());
    let labels =
        |slice: &EndpointSlice<T>| slice.metadata.get().and_then(|m| m.labels.get()).cloned();
    let same = |(place, wanted): (usize, &Wanted<'_, T>)| {
        let (Some(new), Some(old)) = (new_endpoints[place].get(), old_endpoints[place].get())
        else {
            return false;
        };
        let hints = match wanted {
            Wanted::AsSent => new.hints == old.hints,
            wanted => wanted.is_met_by(&old.hints),
        };
        hints && new.equals_but_for_hints(old)
    };
    new_endpoints.len() == old_endpoints.len()
        && object.ports == old.ports
        && labels(object) == labels(old)
        && other_annotations(object) == other_annotations(old)
        && wanted.iter().enumerate().all(same)
}

fn other_annotations<T: WireText>(slice: &EndpointSlice<T>) -> Vec<(&str, Option<&str>)> {
    let all = annotations(slice).into_iter().flat_map(Pairs::iter);
    all.filter(|(key, _)| *key != TRIGGER_TIME).collect()
}

/// Operations as they are written; JSON text, since types for them cost more than all else together.
#[derive(Default)]
struct Patch {
    text: Vec<u8>,
}

impl Patch {
    fn operation(&mut self, op: &str, path: impl std::fmt::Display) {
        self.text
            .push(if self.text.is_empty() { b'[' } else { b',' });
        write!(self.text, r#"{{"op":"{op}","path":"{path}""#).expect("memory takes all writes");
    }

    fn end(&mut self) {
        self.text.push(b'}');
    }

    fn string(&mut self, text: &str) {
        serde_json::to_writer(&mut self.text, text).expect("memory takes all writes");
    }

    fn set_hints<T: WireText>(
        &mut self,
        index: usize,
        sent: &Loose<Hints<T>>,
        wanted: &Wanted<'_, T>,
    ) {
        let path = format_args!("/endpoints/{index}/hints");
        let op = if matches!(sent, Loose::Absent) {
            "add"
        } else {
            "replace"
        };
        match wanted {
            Wanted::AsSent => {}
            Wanted::Nothing => {
                self.operation("remove", path);
                self.end();
            }
            Wanted::Zone(zone) => {
                self.operation(op, path);
                self.text
                    .extend_from_slice(br#","value":{"forZones":[{"name":"#);
                self.string(zone);
                self.text.extend_from_slice(b"}]}");
                self.end();
            }
            Wanted::Stored(stored) => {
                self.operation(op, path);
                self.text.extend_from_slice(br#","value":{"#);
                self.names("forZones", stored.for_zones.items());
                if !stored.for_nodes.items().is_empty() {
                    self.text.push(b',');
                    self.names("forNodes", stored.for_nodes.items());
                }
                self.text.push(b'}');
                self.end();
            }
        }
    }

    fn names<T: WireText>(&mut self, field: &str, names: &[Loose<HintName<T>>]) {
        write!(self.text, r#""{field}":["#).expect("memory takes all writes");
        for (i, hint) in names.iter().filter_map(name).enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(self.text, r#"{comma}{{"name":"#).expect("memory takes all writes");
            self.string(hint);
            self.text.push(b'}');
        }
        self.text.push(b']');
    }

    /// Makes the trigger time what is stored. Where that brings the annotation back or takes it away, the record of
    /// who manages which field must be that of the stored object too: the API server worked it out before it asked.
    fn restore_trigger_time<T: WireText>(
        &mut self,
        object: &EndpointSlice<T>,
        old: &EndpointSlice<T>,
        stored_managed_fields: impl FnOnce() -> Option<String>,
    ) {
        let sent = annotations(object).and_then(|annotations| annotations.get(TRIGGER_TIME));
        let stored = annotations(old).and_then(|annotations| annotations.get(TRIGGER_TIME));
        if sent == stored {
            return;
        }
        if sent.is_none() || stored.is_none() {
            let Some(managed_fields) = stored_managed_fields() else {
                return;
            };
            self.operation("add", "/metadata/managedFields");
            self.text.extend_from_slice(br#","value":"#);
            self.text.extend_from_slice(managed_fields.as_bytes());
            self.end();
        }
        match stored {
            None => self.operation("remove", TRIGGER_TIME_PATH),
            Some(time) if annotations(object).is_some() => {
                self.operation("add", TRIGGER_TIME_PATH);
                self.text.extend_from_slice(br#","value":"#);
                self.string(time);
            }
            Some(time) => {
                self.operation("add", "/metadata/annotations");
                write!(self.text, r#","value":{{"{TRIGGER_TIME}":"#)
                    .expect("memory takes all writes");
                self.string(time);
                self.text.push(b'}');
            }
        }
        self.end();
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        if self.text.is_empty() {
            return None;
        }
        self.text.push(b']');
        Some(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Slice = EndpointSlice<Box<str>>;

    fn slice(json: &str) -> Slice {
        serde_json::from_str(json).unwrap()
    }

    fn text(patch: Option<Vec<u8>>) -> String {
        patch
            .map(|patch| String::from_utf8(patch).unwrap())
            .unwrap_or_default()
    }

    const BARE: &str = r#"{"endpoints":[{"addresses":["10.0.0.1"]}]}"#;
    const HINTED: &str =
        r#"{"endpoints":[{"addresses":["10.0.0.1"],"hints":{"forZones":[{"name":"a"}]}}]}"#;
    const EMPTY: &str = r#"{"endpoints":[{"addresses":["10.0.0.1"],"hints":{}}]}"#;

    #[test]
    fn only_what_differs_is_patched() {
        let patch = |object: &str, wanted: Wanted<'_, Box<str>>| {
            text(build(&slice(object), None, &[wanted], || None))
        };
        assert_eq!(
            patch(BARE, Wanted::Zone("a")),
            r#"[{"op":"add","path":"/endpoints/0/hints","value":{"forZones":[{"name":"a"}]}}]"#
        );
        assert_eq!(
            patch(HINTED, Wanted::Zone("b")),
            r#"[{"op":"replace","path":"/endpoints/0/hints","value":{"forZones":[{"name":"b"}]}}]"#
        );
        assert_eq!(patch(HINTED, Wanted::Zone("a")), "");
        assert_eq!(patch(BARE, Wanted::Nothing), "");
        assert_eq!(
            patch(EMPTY, Wanted::Nothing),
            r#"[{"op":"remove","path":"/endpoints/0/hints"}]"#
        );
    }

    #[test]
    fn node_hints_do_not_stay_beside_a_zone_hint() {
        let object = slice(
            r#"{"endpoints":[{"addresses":["10.0.0.1"],"hints":{"forZones":[{"name":"a"}],"forNodes":[{"name":"n"}]}}]}"#,
        );
        let patch = text(build(&object, None, &[Wanted::Zone("a")], || None));
        assert_eq!(
            patch,
            r#"[{"op":"replace","path":"/endpoints/0/hints","value":{"forZones":[{"name":"a"}]}}]"#
        );
    }

    fn with_annotations(annotations: &str, endpoints: &str) -> Slice {
        let endpoints = &endpoints[1..endpoints.len() - 1];
        slice(&format!(
            r#"{{"metadata":{{"annotations":{annotations}}},{endpoints}}}"#
        ))
    }

    /// The patch on a slice that is sent without hints and stored with one for zone a, when `zone` is wanted.
    fn restored(sent: &str, stored: &str, zone: &str) -> String {
        let (object, old) = (
            with_annotations(sent, BARE),
            with_annotations(stored, HINTED),
        );
        let managed = || Some(r#"[{"manager":"m"}]"#.to_owned());
        text(build(&object, Some(&old), &[Wanted::Zone(zone)], managed))
    }

    const ONE: &str = r#"{"endpoints.kubernetes.io/last-change-trigger-time":"1"}"#;
    const TWO: &str = r#"{"endpoints.kubernetes.io/last-change-trigger-time":"2"}"#;

    #[test]
    fn the_trigger_time_is_put_back_when_nothing_else_changes() {
        let patch = restored(TWO, ONE, "a");
        let operation = format!(r#"{{"op":"add","path":"{TRIGGER_TIME_PATH}","value":"1"}}"#);
        assert!(patch.contains(&operation), "{patch}");
        assert!(!patch.contains("managedFields"), "{patch}");
        let other_hint = restored(TWO, ONE, "b");
        assert!(!other_hint.contains("trigger-time"), "{other_hint}");
        let other_annotation = restored(r#"{"x":"y"}"#, ONE, "a");
        assert!(
            !other_annotation.contains("trigger-time"),
            "{other_annotation}"
        );
    }

    #[test]
    fn a_trigger_time_that_comes_back_or_goes_takes_its_manager_along() {
        const MANAGED: &str =
            r#"{"op":"add","path":"/metadata/managedFields","value":[{"manager":"m"}]}"#;
        let back = restored("null", ONE, "a");
        let operation = format!(r#"{{"op":"add","path":"/metadata/annotations","value":{ONE}}}"#);
        assert!(
            back.contains(&operation) && back.contains(MANAGED),
            "{back}"
        );
        let gone = restored(ONE, "{}", "a");
        let operation = format!(r#"{{"op":"remove","path":"{TRIGGER_TIME_PATH}"}}"#);
        assert!(
            gone.contains(&operation) && gone.contains(MANAGED),
            "{gone}"
        );
    }

    #[test]
    fn stored_hints_come_back_only_when_they_make_the_slice_complete() {
        let stored = slice(HINTED);
        let object = slice(BARE);
        let wanted = stored_hints(&object, Some(&stored)).unwrap();
        assert!(
            text(build(&object, Some(&stored), &wanted, || None))
                .contains(r#""forZones":[{"name":"a"}]"#)
        );
        let two = slice(r#"{"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]}]}"#);
        assert!(stored_hints(&two, Some(&stored)).is_none());
        let another_pod =
            slice(r#"{"endpoints":[{"addresses":["10.0.0.1"],"targetRef":{"uid":"x"}}]}"#);
        assert!(stored_hints(&another_pod, Some(&stored)).is_none());
        assert!(stored_hints(&object, None).is_none());
    }
}
