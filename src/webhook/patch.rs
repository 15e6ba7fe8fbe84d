//! The JSON patch: only hints of this slice, only where they differ, and the trigger time where nothing else changed.

use std::collections::HashMap;
use std::io::Write as _;

use crate::cluster::loose::{Loose, WireText};
use crate::cluster::wire::{Endpoint, EndpointSlice, HintName, Hints};

/// The annotation that the EndpointSlice controller changes with each of its writes.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

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
pub fn build<T: WireText>(
    object: &EndpointSlice<T>,
    old: Option<&EndpointSlice<T>>,
    wanted: &[Wanted<'_, T>],
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
        patch.restore_trigger_time(object, old);
    }
    patch.finish()
}

/// Whether endpoints, ports and labels are those that are stored once the hints are as wanted.
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
        && wanted.iter().enumerate().all(same)
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

    fn restore_trigger_time<T: WireText>(
        &mut self,
        object: &EndpointSlice<T>,
        old: &EndpointSlice<T>,
    ) {
        const PATH: &str =
            "/metadata/annotations/endpoints.kubernetes.io~1last-change-trigger-time";
        let annotation = |slice: &EndpointSlice<T>| {
            Some(slice.metadata.get()?.annotation(TRIGGER_TIME)?.to_owned())
        };
        let has_annotations = object
            .metadata
            .get()
            .is_some_and(|metadata| metadata.annotations.get().is_some());
        match (annotation(object), annotation(old)) {
            (sent, stored) if sent == stored => {}
            (Some(_), None) => {
                self.operation("remove", PATH);
                self.end();
            }
            (_, Some(stored)) if has_annotations => {
                self.operation("add", PATH);
                self.text.extend_from_slice(br#","value":"#);
                self.string(&stored);
                self.end();
            }
            // Without any annotation there is no object for the patch to add to; the write is left as it is.
            _ => {}
        }
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
            text(build(&slice(object), None, &[wanted]))
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
        let patch = text(build(&object, None, &[Wanted::Zone("a")]));
        assert_eq!(
            patch,
            r#"[{"op":"replace","path":"/endpoints/0/hints","value":{"forZones":[{"name":"a"}]}}]"#
        );
    }

    #[test]
    fn the_trigger_time_is_put_back_when_nothing_else_changes() {
        let with = |time: &str, endpoints: &str| {
            slice(&format!(
                r#"{{"metadata":{{"annotations":{{"{TRIGGER_TIME}":"{time}"}}}},{}}}"#,
                &endpoints[1..endpoints.len() - 1]
            ))
        };
        let patch = text(build(
            &with("2", BARE),
            Some(&with("1", HINTED)),
            &[Wanted::Zone("a")],
        ));
        assert!(patch.contains(r#""path":"/metadata/annotations/endpoints.kubernetes.io~1last-change-trigger-time","value":"1""#));
        let patch = text(build(
            &with("2", BARE),
            Some(&with("1", HINTED)),
            &[Wanted::Zone("b")],
        ));
        assert!(!patch.contains("trigger-time"), "{patch}");
        let without = slice(HINTED);
        let patch = text(build(
            &with("2", HINTED),
            Some(&without),
            &[Wanted::Zone("a")],
        ));
        assert_eq!(
            patch,
            r#"[{"op":"remove","path":"/metadata/annotations/endpoints.kubernetes.io~1last-change-trigger-time"}]"#
        );
    }

    #[test]
    fn stored_hints_come_back_only_when_they_make_the_slice_complete() {
        let stored = slice(HINTED);
        let object = slice(BARE);
        let wanted = stored_hints(&object, Some(&stored)).unwrap();
        assert!(
            text(build(&object, Some(&stored), &wanted)).contains(r#""forZones":[{"name":"a"}]"#)
        );
        let two = slice(r#"{"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]}]}"#);
        assert!(stored_hints(&two, Some(&stored)).is_none());
        let another_pod =
            slice(r#"{"endpoints":[{"addresses":["10.0.0.1"],"targetRef":{"uid":"x"}}]}"#);
        assert!(stored_hints(&another_pod, Some(&stored)).is_none());
        assert!(stored_hints(&object, None).is_none());
    }
}
