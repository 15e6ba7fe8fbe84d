//! The JSON patch: only hints of this slice, only where they differ, and the trigger time where nothing else changed.

use std::collections::HashSet;
use std::io::Write as _;

use super::json;
use super::stored::StoredEndpoints;
use crate::cluster::loose::{Loose, Pairs, WireText};
use crate::cluster::wire::{Endpoint, EndpointSlice, HintName, Hints};
use crate::planner::capacity::Zone;
use crate::planner::zone_set::ZoneSet;

/// The annotation that the EndpointSlice controller changes with each of its writes.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

const TRIGGER_TIME_PATH: &str =
    "/metadata/annotations/endpoints.kubernetes.io~1last-change-trigger-time";

/// The hints that an endpoint is to have.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a, T> {
    /// None.
    Nothing,
    /// Zones and no node.
    Zones(ZoneNames<'a>),
    /// These.
    Exactly(&'a Hints<T>),
}

/// Zones of a hint, with their names; at least one.
#[derive(Debug, Clone, Copy)]
pub struct ZoneNames<'a> {
    /// Their numbers.
    pub zones: ZoneSet,
    /// All zones, by their numbers.
    pub known: &'a [Zone],
}

impl ZoneNames<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        let numbers = self.zones.zones().iter();
        numbers.map(|zone| &*self.known[usize::from(*zone)].name)
    }
}

impl<T: WireText> Wanted<'_, T> {
    /// Whether `hints` are already so.
    fn is_met_by(&self, hints: &Loose<Hints<T>>) -> bool {
        match self {
            Self::Nothing => matches!(hints, Loose::Absent),
            Self::Zones(zones) => hints.get().is_some_and(|hints| {
                let stored = hints.for_zones.items().iter().map(name);
                stored.eq(zones.names().map(Some)) && hints.for_nodes.items().is_empty()
            }),
            Self::Exactly(wanted) => hints.get() == Some(wanted),
        }
    }
}

fn name<T: WireText>(hint: &Loose<HintName<T>>) -> Option<&str> {
    hint.get()?.name.text()
}

/// What endpoints have where no decision is possible: the hints that are stored for the same endpoints, else those that they
/// are sent with. Either only if that leaves every ready endpoint with a zone hint; else none has any.
pub fn kept_hints<'a, T: WireText>(
    object: &'a EndpointSlice<T>,
    old: Option<&'a EndpointSlice<T>>,
) -> Vec<Wanted<'a, T>> {
    let old = StoredEndpoints::of(old);
    let stored = |place, endpoint| {
        old.before(place, endpoint)
            .filter(|stored| has_names(stored))
    };
    let sent = |_, endpoint| Some(endpoint);
    let kept = complete(object, stored).or_else(|| complete(object, sent));
    kept.unwrap_or_else(|| {
        let endpoints = object.endpoints.items().iter();
        endpoints.map(|_| Wanted::Nothing).collect()
    })
}

/// The zone hints that `source` gives, if it has some for every ready endpoint. One that is not ready keeps its own only if
/// ready ones name the same zones, and else has those of the first ready one.
fn complete<'a, T: WireText>(
    object: &'a EndpointSlice<T>,
    source: impl Fn(usize, &'a Endpoint<T>) -> Option<&'a Endpoint<T>>,
) -> Option<Vec<Wanted<'a, T>>> {
    let endpoints = || object.endpoints.items().iter().map(Loose::get).enumerate();
    let hints_of = |(place, endpoint): (usize, Option<&'a Endpoint<T>>)| {
        let source = source(place, endpoint?).filter(|source| is_hinted(source));
        source.and_then(|source| source.hints.get())
    };
    let is_ready = |endpoint: Option<&Endpoint<T>>| endpoint.is_some_and(Endpoint::is_ready);
    let ready = endpoints().filter(|(_, endpoint)| is_ready(*endpoint));
    let ready: Vec<&Hints<T>> = ready.map(hints_of).collect::<Option<_>>()?;
    let zones = |hints: &'a Hints<T>| hints.for_zones.items().iter().filter_map(name);
    let named: HashSet<&str> = ready.iter().copied().flat_map(zones).collect();
    let wanted = |(place, endpoint): (usize, Option<&'a Endpoint<T>>)| {
        let hints = hints_of((place, endpoint))
            .filter(|hints| is_ready(endpoint) || zones(hints).all(|zone| named.contains(zone)));
        let hints = hints.or(ready.first().copied().filter(|_| endpoint.is_some()));
        hints.map_or(Wanted::Nothing, Wanted::Exactly)
    };
    Some(endpoints().map(wanted).collect())
}

/// Whether no name is longer than any zone's or node's. Longer ones are stored nowhere, and duplicates of an endpoint would
/// repeat them in the patch.
fn has_names<T: WireText>(endpoint: &Endpoint<T>) -> bool {
    const LONGEST: usize = 253;
    let Some(hints) = endpoint.hints.get() else {
        return true;
    };
    let zones = hints.for_zones.items().iter();
    let mut names = zones.chain(hints.for_nodes.items());
    names.all(|hint| name(hint).is_none_or(|name| name.len() <= LONGEST))
}

fn is_hinted<T: WireText>(endpoint: &Endpoint<T>) -> bool {
    endpoint.zone_hints().next().is_some()
}

/// That a write changes nothing but hints, the trigger time, and the times of managedFields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle<'a> {
    /// The JSON of `metadata.managedFields` as stored.
    pub managed_fields: Option<&'a str>,
}

/// The patch that gives the endpoints of `object` what is `wanted`, in their order; nothing where nothing changes.
///
/// Whether the write is idle is asked only where the trigger time changes and the hints that are stored are as wanted.
pub fn build<'a, T: WireText>(
    object: &EndpointSlice<T>,
    old: Option<&EndpointSlice<T>>,
    wanted: &[Wanted<'_, T>],
    idle: impl FnOnce() -> Option<Idle<'a>>,
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
    if let Some(old) = old
        && trigger_time(object) != trigger_time(old)
        && is_stored(object, old, wanted)
        && let Some(idle) = idle()
    {
        patch.restore_trigger_time(object, old, idle);
    }
    patch.finish()
}

fn annotations<T: WireText>(slice: &EndpointSlice<T>) -> Option<&Pairs<T>> {
    slice.metadata.get()?.annotations.get()
}

fn trigger_time<T: WireText>(slice: &EndpointSlice<T>) -> Option<&str> {
    annotations(slice)?.get(TRIGGER_TIME)
}

/// Whether the endpoints of `old`, in their order, have what those of `object` are to have.
fn is_stored<T: WireText>(
    object: &EndpointSlice<T>,
    old: &EndpointSlice<T>,
    wanted: &[Wanted<'_, T>],
) -> bool {
    let (sent, stored) = (object.endpoints.items(), old.endpoints.items());
    let has = |(place, wanted): (usize, &Wanted<'_, T>)| {
        let stored = stored[place].get().filter(|_| sent[place].get().is_some());
        stored.is_some_and(|stored| wanted.is_met_by(&stored.hints))
    };
    sent.len() == stored.len() && wanted.iter().enumerate().all(has)
}

/// Operations as they are written; JSON text, since types for them cost more than all else together.
#[derive(Default)]
struct Patch {
    text: Vec<u8>,
}

impl Patch {
    fn write(&mut self, json: &str) {
        self.text.extend_from_slice(json.as_bytes());
    }

    fn string(&mut self, text: &str) {
        json::write_string(&mut self.text, text);
    }

    fn begin(&mut self, op: &str) {
        self.write(if self.text.is_empty() { "[" } else { "," });
        self.write(r#"{"op":""#);
        self.write(op);
        self.write(r#"","path":""#);
    }

    /// An operation but for its end; where it has a value, that is written next.
    fn operation(&mut self, op: &str, path: &str) {
        self.begin(op);
        self.write(path);
        self.write(if op == "remove" {
            "\""
        } else {
            r#"","value":"#
        });
    }

    fn hints_operation(&mut self, op: &str, index: usize) {
        self.begin(op);
        write!(self.text, "/endpoints/{index}/hints\"").expect("memory takes all writes");
    }

    fn end(&mut self) {
        self.text.push(b'}');
    }

    fn set_hints<T: WireText>(
        &mut self,
        index: usize,
        sent: &Loose<Hints<T>>,
        wanted: &Wanted<'_, T>,
    ) {
        let op = match wanted {
            Wanted::Nothing => "remove",
            Wanted::Zones(_) | Wanted::Exactly(_) if matches!(sent, Loose::Absent) => "add",
            Wanted::Zones(_) | Wanted::Exactly(_) => "replace",
        };
        self.hints_operation(op, index);
        match wanted {
            Wanted::Nothing => {}
            Wanted::Zones(zones) => {
                self.write(r#","value":{"forZones":["#);
                self.names(zones.names());
                self.write("]}");
            }
            Wanted::Exactly(stored) => {
                self.write(r#","value":{"forZones":["#);
                self.names(stored.for_zones.items().iter().filter_map(name));
                if !stored.for_nodes.items().is_empty() {
                    self.write(r#"],"forNodes":["#);
                    self.names(stored.for_nodes.items().iter().filter_map(name));
                }
                self.write("]}");
            }
        }
        self.end();
    }

    fn names<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        for (place, hint) in names.enumerate() {
            self.write(if place == 0 {
                r#"{"name":"#
            } else {
                r#",{"name":"#
            });
            self.string(hint);
            self.end();
        }
    }

    /// Makes the trigger time what is stored. Where that brings the annotation back or takes it away, the record of
    /// who manages which field must be that of the stored object too: the API server worked it out before it asked.
    fn restore_trigger_time<T: WireText>(
        &mut self,
        object: &EndpointSlice<T>,
        old: &EndpointSlice<T>,
        idle: Idle<'_>,
    ) {
        let stored = trigger_time(old);
        if (trigger_time(object).is_none() || stored.is_none())
            && let Some(managed_fields) = idle.managed_fields
        {
            self.operation("add", "/metadata/managedFields");
            self.write(managed_fields);
            self.end();
        }
        match stored {
            None => self.operation("remove", TRIGGER_TIME_PATH),
            Some(time) if annotations(object).is_some() => {
                self.operation("add", TRIGGER_TIME_PATH);
                self.string(time);
            }
            Some(time) => {
                self.operation("add", "/metadata/annotations");
                self.text.push(b'{');
                self.string(TRIGGER_TIME);
                self.text.push(b':');
                self.string(time);
                self.end();
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
    use std::sync::LazyLock;

    use serde_json::{Value, json};

    use super::*;
    use crate::planner::quantity::Millicores;

    type Slice = EndpointSlice<Box<str>>;

    fn slice(json: &str) -> Slice {
        serde_json::from_str(json).unwrap()
    }

    fn text(patch: Option<Vec<u8>>) -> String {
        patch
            .map(|patch| String::from_utf8(patch).unwrap())
            .unwrap_or_default()
    }

    /// Zones a, b and c, of which one is wanted.
    fn zone(name: &str) -> Wanted<'static, Box<str>> {
        static KNOWN: LazyLock<Vec<Zone>> = LazyLock::new(|| {
            let zone = |name: &str| Zone {
                name: name.into(),
                cpu: Millicores(1),
                nodes: 1,
            };
            ["a", "b", "c"].map(zone).to_vec()
        });
        let number = KNOWN
            .iter()
            .zip(0u16..)
            .find(|(zone, _)| *zone.name == *name);
        Wanted::Zones(ZoneNames {
            zones: ZoneSet::one(number.unwrap().1),
            known: &KNOWN,
        })
    }

    #[test]
    fn a_hint_for_several_zones_is_written_in_their_order_and_known_again() {
        let Wanted::Zones(mut zones) = zone("c") else {
            unreachable!()
        };
        zones.zones.insert(0);
        let patch = text(build(&slice(BARE), None, &[Wanted::Zones(zones)], || None));
        assert_eq!(
            patch,
            r#"[{"op":"add","path":"/endpoints/0/hints","value":{"forZones":[{"name":"a"},{"name":"c"}]}}]"#
        );
        let hinted = BARE.replace(
            "]}]}",
            r#"],"hints":{"forZones":[{"name":"a"},{"name":"c"}]}}]}"#,
        );
        assert_eq!(
            text(build(
                &slice(&hinted),
                None,
                &[Wanted::Zones(zones)],
                || None
            )),
            ""
        );
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
            patch(BARE, zone("a")),
            r#"[{"op":"add","path":"/endpoints/0/hints","value":{"forZones":[{"name":"a"}]}}]"#
        );
        assert_eq!(
            patch(HINTED, zone("b")),
            r#"[{"op":"replace","path":"/endpoints/0/hints","value":{"forZones":[{"name":"b"}]}}]"#
        );
        assert_eq!(patch(HINTED, zone("a")), "");
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
        let patch = text(build(&object, None, &[zone("a")], || None));
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
        restored_with(Some(r#"[{"manager":"m"}]"#), sent, stored, zone)
    }

    fn restored_with(
        managed_fields: Option<&str>,
        sent: &str,
        stored: &str,
        wanted: &str,
    ) -> String {
        let (object, old) = (
            with_annotations(sent, BARE),
            with_annotations(stored, HINTED),
        );
        let idle = Idle { managed_fields };
        text(build(&object, Some(&old), &[zone(wanted)], || Some(idle)))
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
        let (object, old) = (with_annotations(TWO, BARE), with_annotations(ONE, HINTED));
        let busy = text(build(&object, Some(&old), &[zone("a")], || None));
        assert!(!busy.contains("trigger-time"), "{busy}");
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
    fn a_trigger_time_comes_back_where_nobody_manages_fields() {
        let back = restored_with(None, "{}", ONE, "a");
        let operation = format!(r#"{{"op":"add","path":"{TRIGGER_TIME_PATH}","value":"1"}}"#);
        assert!(back.contains(&operation), "{back}");
        assert!(!back.contains("managedFields"), "{back}");
    }

    /// Endpoints with an address, a condition `ready` and the zones that they are hinted for.
    fn endpoints(endpoints: &[(u8, bool, &[&str])]) -> Slice {
        let zones = |zones: &[&str]| {
            let names: Vec<_> = zones.iter().map(|zone| json!({"name": zone})).collect();
            json!({"forZones": names})
        };
        let endpoint = |(address, ready, hints): &(u8, bool, &[&str])| {
            json!({"addresses": [format!("10.0.0.{address}")], "conditions": {"ready": ready},
                "targetRef": {"uid": address.to_string()}, "hints": zones(hints)})
        };
        let endpoints: Vec<_> = endpoints.iter().map(endpoint).collect();
        slice(&json!({"endpoints": endpoints}).to_string())
    }

    /// The place and zone of each hint that is set, and the place of each that is removed.
    fn kept(object: &Slice, old: Option<&Slice>) -> Vec<String> {
        let patch = text(build(object, old, &kept_hints(object, old), || None));
        let operations: Vec<Value> = serde_json::from_str(&patch).unwrap_or_default();
        let tell = |operation: &Value| {
            let place = operation["path"]
                .as_str()
                .unwrap()
                .replace("/endpoints/", "");
            let zone = operation["value"]["forZones"][0]["name"].as_str();
            zone.map_or_else(|| format!("-{place}"), |zone| format!("{place} {zone}"))
        };
        operations.iter().map(tell).collect()
    }

    #[test]
    fn hints_that_are_stored_come_back_where_they_make_the_slice_complete() {
        let stored = endpoints(&[(1, true, &["a"]), (2, true, &["b"])]);
        let moved = endpoints(&[(2, true, &[]), (1, true, &["c"])]);
        assert_eq!(kept(&moved, Some(&stored)), ["0/hints b", "1/hints a"]);
        let grown = slice(
            r#"{"endpoints":[{"addresses":["10.0.0.1"],"targetRef":{"uid":"1"}},{"addresses":["10.0.0.3"]}]}"#,
        );
        assert!(kept(&grown, Some(&stored)).is_empty());
        let another_pod = slice(r#"{"endpoints":[{"addresses":["10.0.0.1"]}]}"#);
        assert!(kept(&another_pod, Some(&stored)).is_empty());
        assert!(kept(&another_pod, None).is_empty());
    }

    #[test]
    fn hints_that_no_api_server_stores_are_not_repeated_for_every_copy() {
        let stored = |length| endpoints(&[(1, true, &[&"a".repeat(length)])]);
        let copies = endpoints(&[(1, true, &[]), (1, true, &[])]);
        assert_eq!(kept(&copies, Some(&stored(253))).len(), 2);
        assert_eq!(kept(&copies, Some(&stored(254))), ["-0/hints", "-1/hints"]);
    }

    #[test]
    fn hints_that_are_sent_stay_where_they_are_complete_and_those_stored_are_not() {
        let sent = endpoints(&[(1, true, &["a"]), (2, true, &["b"])]);
        assert!(kept(&sent, None).is_empty());
        assert!(kept(&sent, Some(&endpoints(&[(1, true, &["b"])]))).is_empty());
        let partly = endpoints(&[(1, true, &["a"]), (2, true, &[])]);
        assert_eq!(kept(&partly, None), ["-0/hints", "-1/hints"]);
    }

    #[test]
    fn an_endpoint_that_is_not_ready_keeps_only_zones_that_a_ready_one_names() {
        let sent = |hints| endpoints(&[(1, true, &["a"]), (3, true, &["b"]), (2, false, hints)]);
        for (hints, patch) in [
            (&["b"][..], &[][..]),
            (&["c"], &["2/hints a"]),
            (&["b", "c"], &["2/hints a"]),
            (&[], &["2/hints a"]),
        ] {
            assert_eq!(kept(&sent(hints), None), patch, "{hints:?}");
            assert_eq!(kept(&sent(hints), Some(&sent(hints))), patch, "{hints:?}");
        }
        let none_ready = endpoints(&[(1, false, &["a"])]);
        assert_eq!(kept(&none_ready, Some(&none_ready)), ["-0/hints"]);
    }
}
