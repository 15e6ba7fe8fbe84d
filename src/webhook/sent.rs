//! EndpointSlices as a request brings them: the fields that are used, as wire types, and the text of the rest.
//!
//! No list is held that is longer than the API allows: where one is, its field is odd, as one of another type is.

use std::borrow::Cow;

use super::json::{Reader, Result};
use super::managers;
use super::patch::{Idle, TRIGGER_TIME};
use crate::cluster::loose::{Loose, Pairs, Text};
use crate::cluster::wire::{
    Conditions, Endpoint, EndpointSlice, HintName, Hints, Metadata, Port, TargetRef,
};

// What Kubernetes 1.37 validates slices by (pkg/apis/discovery/validation).
const MOST_ENDPOINTS: usize = 1000;
const MOST_PORTS: usize = 20_000;
const MOST_ADDRESSES: usize = 100;
const MOST_HINTS: usize = 8;

/// Labels or annotations. Kubernetes sets no number, but all keys and values of annotations may have 256 KiB.
const MOST_PAIRS: usize = 10_000;

/// Members of a slice, or of its metadata, that are compared by their text. There are about half a dozen of each.
const MOST_MEMBERS: usize = 64;

/// A slice that a request brings.
#[derive(Debug, Default)]
pub struct SentSlice<'a> {
    /// What is used of it.
    pub slice: Loose<EndpointSlice<Text<'a>>>,
    rest: Rest<'a>,
}

/// A slice's text, apart from what may differ between one that is sent and one that is stored if nothing changes.
#[derive(Debug, Default)]
struct Rest<'a> {
    managed_fields: Option<&'a str>,
    endpoints: Vec<HintsApart<'a>>,
    /// Those of the slice except metadata and endpoints.
    members: Members<'a>,
    /// Those of its metadata except annotations, managedFields, generation and resourceVersion.
    metadata: Members<'a>,
}

/// Members of an object, each with its key.
#[derive(Debug, Default)]
struct Members<'a> {
    texts: Vec<&'a str>,
    has_more: bool,
}

impl<'a> Members<'a> {
    fn note(&mut self, member: &'a str) {
        if self.texts.len() < MOST_MEMBERS {
            self.texts.push(member);
        } else {
            self.has_more = true;
        }
    }

    fn equal(&self, other: &Self) -> bool {
        !self.has_more && !other.has_more && self.texts == other.texts
    }
}

/// An endpoint's text before and behind its hints; empty where that can't be told.
#[derive(Debug, Default, Clone, Copy)]
struct HintsApart<'a> {
    before: &'a str,
    behind: &'a str,
    /// What the endpoint took from the reader's allowance.
    cost: usize,
}

impl<'a> HintsApart<'a> {
    /// `text` is the endpoint's, `hints` are the bounds of the member with its hints.
    fn new(text: &'a str, hints: Option<(usize, usize)>, cost: usize) -> Self {
        let (begin, end) = hints.unwrap_or((text.len() - 1, text.len() - 1));
        let before = text[..begin].trim_ascii_end();
        let before = before.strip_suffix(',').unwrap_or(before);
        if before == "{" {
            return Self::default();
        }
        Self {
            before,
            behind: &text[end..],
            cost,
        }
    }

    fn is_known(&self) -> bool {
        !self.before.is_empty()
    }

    /// Whether all but the hints is before them, and what comes next begins the same way.
    fn is_next(&self, reader: &Reader<'_>) -> bool {
        self.is_known() && self.behind == "}" && reader.goes_on_with(self.before)
    }

    fn equals(&self, other: &Self) -> bool {
        let length = |apart: &Self| apart.before.len() + apart.behind.len();
        let bytes = |apart: &Self| apart.before.bytes().chain(apart.behind.bytes());
        self.is_known()
            && length(self) == length(other)
            && if self.before.len() == other.before.len() {
                self.before == other.before && self.behind == other.behind
            } else {
                bytes(self).eq(bytes(other))
            }
    }
}

impl<'a> SentSlice<'a> {
    /// Reads a slice. Endpoints that are in `other` too, at the same place, are not read twice.
    ///
    /// # Errors
    /// Where there is no value.
    pub fn read(reader: &mut Reader<'a>, other: &Self) -> Result<Self> {
        let mut rest = Rest::default();
        let slice = record(reader, |reader, slice: &mut EndpointSlice<_>, key| {
            let start = reader.member();
            match key {
                "metadata" => {
                    slice.metadata = metadata(reader, &mut rest)?;
                    return Ok(());
                }
                "endpoints" => {
                    slice.endpoints = endpoints(reader, &mut rest.endpoints, other)?;
                    return Ok(());
                }
                "addressType" => slice.address_type = text(reader)?,
                "ports" => slice.ports = list(reader, MOST_PORTS, port)?,
                _ => reader.skip()?,
            }
            rest.members.note(reader.since(start));
            Ok(())
        })?;
        Ok(Self { slice, rest })
    }

    /// Whether storing this in place of `stored` changes nothing but hints, the trigger time and what goes with it.
    ///
    /// Texts are compared, not values: an API server writes both in one way.
    #[must_use]
    pub fn idle(&self, stored: &Self) -> Option<Idle<'a>> {
        let (rest, stored_rest) = (&self.rest, &stored.rest);
        // Where the annotation only changes, whoever begins to manage it must find that stored, and the value too.
        let only_changes = self.has_trigger_time() && stored.has_trigger_time();
        let taken_along = (!only_changes).then_some(TRIGGER_TIME);
        let same_managers = match (rest.managed_fields, stored_rest.managed_fields) {
            (Some(sent), Some(stored)) => managers::agree(sent, stored, taken_along),
            (sent, stored) => sent == stored,
        };
        let idle = rest.members.equal(&stored_rest.members)
            && rest.metadata.equal(&stored_rest.metadata)
            && self.has_endpoints_of(stored)
            && self.other_annotations()? == stored.other_annotations()?
            && same_managers;
        idle.then_some(Idle {
            managed_fields: stored_rest.managed_fields,
        })
    }

    /// Whether it has the endpoints of `stored`, and other hints on them.
    #[must_use]
    pub fn changes_only_hints_of(&self, stored: &Self) -> bool {
        let hints = |sent: &Self| {
            let endpoints = sent.slice.get().map(|slice| slice.endpoints.items());
            let endpoints = endpoints.unwrap_or_default().iter();
            endpoints
                .map(|endpoint| endpoint.get().map(|endpoint| endpoint.hints.clone()))
                .collect::<Vec<_>>()
        };
        self.has_endpoints_of(stored) && hints(self) != hints(stored)
    }

    fn has_endpoints_of(&self, stored: &Self) -> bool {
        let odd = |slice: &Self| {
            slice
                .slice
                .get()
                .is_none_or(|slice| slice.endpoints.is_odd())
        };
        let (ours, theirs) = (&self.rest.endpoints, &stored.rest.endpoints);
        !odd(self)
            && !odd(stored)
            && ours.len() == theirs.len()
            && ours
                .iter()
                .zip(theirs)
                .all(|(one, other)| one.equals(other))
    }

    fn has_trigger_time(&self) -> bool {
        let metadata = self.slice.get().and_then(|slice| slice.metadata.get());
        let annotations = metadata.and_then(|metadata| metadata.annotations.get());
        annotations.is_some_and(|annotations| annotations.has(TRIGGER_TIME))
    }

    /// All annotations but the trigger time; nothing where any is odd.
    fn other_annotations(&self) -> Option<Vec<(&str, Option<&str>)>> {
        let annotations = &self.slice.get()?.metadata.get()?.annotations;
        if annotations.is_odd() || annotations.get().is_some_and(Pairs::has_odd) {
            return None;
        }
        let all = annotations.get().into_iter().flat_map(Pairs::iter);
        Some(all.filter(|(key, _)| *key != TRIGGER_TIME).collect())
    }
}

fn metadata<'a>(reader: &mut Reader<'a>, rest: &mut Rest<'a>) -> Result<Loose<Metadata<Text<'a>>>> {
    rest.managed_fields = None;
    record(reader, |reader, metadata: &mut Metadata<_>, key| {
        let start = reader.member();
        match key {
            "managedFields" => {
                rest.managed_fields = raw(reader)?;
                return Ok(());
            }
            "annotations" => {
                metadata.annotations = pairs(reader)?;
                return Ok(());
            }
            "resourceVersion" => {
                metadata.resource_version = text(reader)?;
                return Ok(());
            }
            "generation" => return reader.skip(),
            "name" => metadata.name = text(reader)?,
            "namespace" => metadata.namespace = text(reader)?,
            "uid" => metadata.uid = text(reader)?,
            "creationTimestamp" => metadata.creation_timestamp = text(reader)?,
            "deletionTimestamp" => metadata.deletion_timestamp = text(reader)?,
            "labels" => metadata.labels = pairs(reader)?,
            _ => reader.skip()?,
        }
        rest.metadata.note(reader.since(start));
        Ok(())
    })
}

type Endpoints<'a> = Loose<Vec<Loose<Endpoint<Text<'a>>>>>;

fn endpoints<'a>(
    reader: &mut Reader<'a>,
    parts: &mut Vec<HintsApart<'a>>,
    other: &SentSlice<'a>,
) -> Result<Endpoints<'a>> {
    parts.clear();
    let twins = other
        .slice
        .get()
        .map_or(&[][..], |slice| slice.endpoints.items());
    let mut conditions = LastConditions::default();
    list(reader, MOST_ENDPOINTS, |reader| {
        let place = parts.len();
        let twin = twins.get(place).and_then(Loose::get);
        let twin = twin.zip(other.rest.endpoints.get(place));
        endpoint(reader, parts, twin, &mut conditions)
    })
}

/// Reads an endpoint, and notes its text among `parts`. `twin` is another one, which it may repeat.
fn endpoint<'a>(
    reader: &mut Reader<'a>,
    parts: &mut Vec<HintsApart<'a>>,
    twin: Option<(&Endpoint<Text<'a>>, &HintsApart<'a>)>,
    last_conditions: &mut LastConditions<'a>,
) -> Result<Loose<Endpoint<Text<'a>>>> {
    if reader.peek()? != b'{' {
        parts.push(HintsApart::default());
        return absent_or_odd(reader);
    }
    let (start, allowance) = (reader.at(), reader.allowance());
    let twin = twin.filter(|(_, parts)| parts.is_next(reader) && reader.afford(parts.cost));
    let mut endpoint = twin.map_or_else(Endpoint::default, |(twin, _)| twin.without_hints());
    let mut places = HintPlaces::Nowhere;
    let member = |reader: &mut Reader<'a>, key: Cow<'a, str>| {
        match &*key {
            "addresses" => endpoint.addresses = list(reader, MOST_ADDRESSES, text)?,
            "conditions" => endpoint.conditions = last_conditions.read(reader)?,
            "targetRef" => endpoint.target_ref = target_ref(reader)?,
            "nodeName" => endpoint.node_name = text(reader)?,
            "zone" => endpoint.zone = text(reader)?,
            "hints" => {
                let begin = reader.member();
                endpoint.hints = hints(reader)?;
                places = places.and(begin - start, reader.at() - start);
            }
            _ => reader.skip()?,
        }
        Ok(())
    };
    match twin {
        Some((_, parts)) => reader.object_after(parts.before, member)?,
        None => reader.object(member)?,
    }
    let (text, cost) = (reader.since(start), allowance - reader.allowance());
    parts.push(match places {
        HintPlaces::Nowhere => HintsApart::new(text, None, cost),
        HintPlaces::At(begin, end) => HintsApart::new(text, Some((begin, end)), cost),
        HintPlaces::Several => HintsApart::default(),
    });
    Ok(Loose::Value(endpoint))
}

/// Where in an endpoint its hints stand.
#[derive(Clone, Copy)]
enum HintPlaces {
    Nowhere,
    At(usize, usize),
    Several,
}

impl HintPlaces {
    fn and(self, begin: usize, end: usize) -> Self {
        match self {
            Self::Nowhere => Self::At(begin, end),
            Self::At(..) | Self::Several => Self::Several,
        }
    }
}

/// The conditions of the endpoint before, and their text: most endpoints have the same.
#[derive(Default)]
struct LastConditions<'a> {
    text: &'a str,
    conditions: Loose<Conditions<Text<'a>>>,
}

impl<'a> LastConditions<'a> {
    fn read(&mut self, reader: &mut Reader<'a>) -> Result<Loose<Conditions<Text<'a>>>> {
        reader.peek()?;
        if self.text.is_empty() || !reader.repeat(self.text) {
            let start = reader.at();
            self.conditions = conditions(reader)?;
            self.text = reader.since(start);
        }
        Ok(self.conditions.clone())
    }
}

fn conditions<'a>(reader: &mut Reader<'a>) -> Result<Loose<Conditions<Text<'a>>>> {
    record(reader, |reader, conditions: &mut Conditions<_>, key| {
        match key {
            "ready" => conditions.ready = flag(reader)?,
            "serving" => conditions.serving = flag(reader)?,
            "terminating" => conditions.terminating = flag(reader)?,
            _ => reader.skip()?,
        }
        Ok(())
    })
}

fn target_ref<'a>(reader: &mut Reader<'a>) -> Result<Loose<TargetRef<Text<'a>>>> {
    record(reader, |reader, target: &mut TargetRef<_>, key| {
        match key {
            "uid" => target.uid = text(reader)?,
            _ => reader.skip()?,
        }
        Ok(())
    })
}

fn hints<'a>(reader: &mut Reader<'a>) -> Result<Loose<Hints<Text<'a>>>> {
    record(reader, |reader, hints: &mut Hints<_>, key| {
        match key {
            "forZones" => hints.for_zones = list(reader, MOST_HINTS, hint_name)?,
            "forNodes" => hints.for_nodes = list(reader, MOST_HINTS, hint_name)?,
            _ => reader.skip()?,
        }
        Ok(())
    })
}

fn hint_name<'a>(reader: &mut Reader<'a>) -> Result<Loose<HintName<Text<'a>>>> {
    record(reader, |reader, hint: &mut HintName<_>, key| {
        match key {
            "name" => hint.name = text(reader)?,
            _ => reader.skip()?,
        }
        Ok(())
    })
}

fn port<'a>(reader: &mut Reader<'a>) -> Result<Loose<Port<Text<'a>>>> {
    record(reader, |reader, port: &mut Port<_>, key| {
        match key {
            "name" => port.name = text(reader)?,
            "protocol" => port.protocol = text(reader)?,
            "port" => port.port = integer(reader)?,
            _ => reader.skip()?,
        }
        Ok(())
    })
}

/// Reads an object's members, of which the last counts where one stands twice.
#[inline]
fn record<'a, T: Default>(
    reader: &mut Reader<'a>,
    mut member: impl FnMut(&mut Reader<'a>, &mut T, &str) -> Result<()>,
) -> Result<Loose<T>> {
    if reader.peek()? != b'{' {
        return absent_or_odd(reader);
    }
    let mut record = T::default();
    reader.object(|reader, key| member(reader, &mut record, &key))?;
    Ok(Loose::Value(record))
}

/// Reads a list; one that has more than `most` items, or more than may be held, is odd.
#[inline]
fn list<'a, T>(
    reader: &mut Reader<'a>,
    most: usize,
    mut item: impl FnMut(&mut Reader<'a>) -> Result<Loose<T>>,
) -> Result<Loose<Vec<Loose<T>>>> {
    if reader.peek()? != b'[' {
        return absent_or_odd(reader);
    }
    let mut items = Some(Vec::new());
    reader.list(|reader| {
        items.take_if(|items| items.len() == most || !reader.afford(size_of::<Loose<T>>()));
        let Some(items) = &mut items else {
            return reader.skip();
        };
        items.push(item(reader)?);
        Ok(())
    })?;
    Ok(items.map_or(Loose::Odd, Loose::Value))
}

/// The same for an object from texts to texts.
fn pairs<'a>(reader: &mut Reader<'a>) -> Result<Loose<Pairs<Text<'a>>>> {
    const PAIR: usize = size_of::<(Text<'_>, Loose<Text<'_>>)>();
    if reader.peek()? != b'{' {
        return absent_or_odd(reader);
    }
    let mut pairs = Some(Vec::new());
    reader.object(|reader, key| {
        pairs.take_if(|pairs| pairs.len() == MOST_PAIRS || !reader.afford(PAIR));
        let Some(pairs) = &mut pairs else {
            return reader.skip();
        };
        pairs.push((Text(key), text(reader)?));
        Ok(())
    })?;
    Ok(pairs.map_or(Loose::Odd, |pairs| Loose::Value(pairs.into())))
}

#[inline]
fn text<'a>(reader: &mut Reader<'a>) -> Result<Loose<Text<'a>>> {
    if reader.peek()? != b'"' {
        return absent_or_odd(reader);
    }
    let text = reader.string()?;
    Ok(text.map_or(Loose::Odd, |text| Loose::Value(Text(text))))
}

#[inline]
fn flag(reader: &mut Reader<'_>) -> Result<Loose<bool>> {
    match reader.peek()? {
        b't' | b'f' => reader.bool().map(Loose::Value),
        _ => absent_or_odd(reader),
    }
}

fn integer(reader: &mut Reader<'_>) -> Result<Loose<i64>> {
    if !matches!(reader.peek()?, b'-' | b'0'..=b'9') {
        return absent_or_odd(reader);
    }
    let number = reader.number()?;
    // A minus before zero makes a fraction for serde_json, which reads what is watched.
    let integer = number.parse().ok().filter(|_| number != "-0");
    Ok(integer.map_or(Loose::Odd, Loose::Value))
}

/// Reads `null`, or a value that is not of the type that it should be.
fn absent_or_odd<T>(reader: &mut Reader<'_>) -> Result<Loose<T>> {
    if reader.peek()? == b'n' {
        reader.null()?;
        return Ok(Loose::Absent);
    }
    reader.skip()?;
    Ok(Loose::Odd)
}

/// The text of a value that is not `null`.
fn raw<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a str>> {
    let there = reader.peek()? != b'n';
    let start = reader.at();
    reader.skip()?;
    Ok(there.then(|| reader.since(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::wire::Wire as _;

    fn read(json: &str) -> SentSlice<'_> {
        SentSlice::read(&mut Reader::new(json), &SentSlice::default()).unwrap()
    }

    /// Reads `stored` after `sent` from one text.
    fn read_both<'a>(reader: &mut Reader<'a>) -> (SentSlice<'a>, SentSlice<'a>) {
        let mut slices = Vec::new();
        reader
            .list(|reader| {
                let none = SentSlice::default();
                let slice = SentSlice::read(reader, slices.last().unwrap_or(&none))?;
                slices.push(slice);
                Ok(())
            })
            .unwrap();
        let stored = slices.pop().unwrap();
        (slices.pop().unwrap(), stored)
    }

    fn is_idle(sent: &str, stored: &str) -> bool {
        let text = format!("[{sent},{stored}]");
        let (sent, stored) = read_both(&mut Reader::new(&text));
        sent.idle(&stored).is_some()
    }

    #[test]
    fn lists_are_held_up_to_what_the_api_allows() {
        let repeated = |item: &str, times: usize| vec![item; times].join(",");
        let odd = |field: &str, item: &str, times: usize| {
            let json = format!(r#"{{"{field}":[{}]}}"#, repeated(item, times));
            read(&json).slice.get().unwrap().odd_field()
        };
        assert_eq!(
            odd("endpoints", r#"{"addresses":[]}"#, MOST_ENDPOINTS),
            None
        );
        assert_eq!(
            odd("endpoints", "{}", MOST_ENDPOINTS + 1),
            Some("endpoints")
        );
        assert_eq!(odd("ports", "{}", MOST_PORTS), None);
        assert_eq!(odd("ports", "{}", MOST_PORTS + 1), Some("ports"));
        let endpoint = |field: String| {
            let json = format!(r#"{{"endpoints":[{{"addresses":[],{field}}}]}}"#);
            read(&json).slice.get().unwrap().odd_field()
        };
        let addresses = |times| endpoint(format!(r#""addresses":[{}]"#, repeated("\"a\"", times)));
        assert_eq!(addresses(MOST_ADDRESSES), None);
        assert_eq!(addresses(MOST_ADDRESSES + 1), Some("endpoints.addresses"));
        let hints = |times| {
            endpoint(format!(
                r#""hints":{{"forZones":[{}]}}"#,
                repeated("{}", times)
            ))
        };
        assert_eq!(hints(MOST_HINTS), None);
        assert_eq!(hints(MOST_HINTS + 1), Some("endpoints.hints.forZones"));
        let labels = |times| {
            let json = format!(
                r#"{{"metadata":{{"labels":{{{}}}}}}}"#,
                repeated("\"a\":\"b\"", times)
            );
            read(&json).slice.get().unwrap().odd_field()
        };
        assert_eq!(labels(MOST_PAIRS), None);
        assert_eq!(labels(MOST_PAIRS + 1), Some("metadata.labels"));
    }

    #[test]
    fn what_is_beyond_a_limit_must_be_json_too() {
        let json = format!(
            r#"{{"endpoints":[{}{{]}}]}}"#,
            "{},".repeat(2 * MOST_ENDPOINTS)
        );
        assert!(SentSlice::read(&mut Reader::new(&json), &SentSlice::default()).is_err());
    }

    #[test]
    fn all_lists_together_are_bounded_too() {
        let addresses = vec!["0"; MOST_ADDRESSES].join(",");
        let endpoint = format!(r#"{{"addresses":[{addresses}]}}"#);
        let slice = format!(
            r#"{{"endpoints":[{}]}}"#,
            vec![endpoint; MOST_ENDPOINTS].join(",")
        );
        let text = format!("[{}]", [&*slice; 8].join(","));
        let mut reader = Reader::new(&text);
        let mut odd = Vec::new();
        let mut last = SentSlice::default();
        reader
            .list(|reader| {
                last = SentSlice::read(reader, &last)?;
                let endpoints = &last.slice.get().unwrap().endpoints;
                let whole = |e: &Loose<Endpoint<_>>| e.get().is_some_and(|e| !e.addresses.is_odd());
                odd.push(endpoints.items().is_empty() || !endpoints.items().iter().all(whole));
                Ok(())
            })
            .unwrap();
        assert_eq!(odd[..2], [false, false]);
        assert!(odd[7]);
    }

    const ENDPOINT: &str =
        r#"{"addresses":["10.0.0.1"],"targetRef":{"name":"a","uid":"1"},"weight":1"#;

    #[test]
    fn an_endpoint_that_stands_in_both_slices_is_read_as_if_it_did_not() {
        for (sent, stored) in [
            (
                format!("{ENDPOINT}}}"),
                format!(r#"{ENDPOINT},"hints":{{"forZones":[{{"name":"a"}}]}}}}"#),
            ),
            (
                format!(r#"{ENDPOINT},"hints":{{}}}}"#),
                format!("{ENDPOINT}}}"),
            ),
            (
                format!(r#"{ENDPOINT},"hints":{{}},"zone":"a"}}"#),
                format!("{ENDPOINT}}}"),
            ),
            (format!("{ENDPOINT}}}"), format!("{ENDPOINT}2}}")),
            (
                format!("{ENDPOINT}}}"),
                format!(r#"{ENDPOINT},"addresses":["10.0.0.2"]}}"#),
            ),
            (r#"{"hints":{}}"#.to_owned(), "{}".to_owned()),
        ] {
            let slice = |endpoint: &str| format!(r#"{{"endpoints":[{endpoint}]}}"#);
            let (sent, stored) = (slice(&sent), slice(&stored));
            let text = format!("[{sent},{stored}]");
            let (_, beside) = read_both(&mut Reader::new(&text));
            assert_eq!(beside.slice, read(&stored).slice, "{text}");
        }
        let broken = r#"[{"endpoints":[{"hints":{}}]},{"endpoints":[{,"zone":"a"}]}]"#;
        let mut reader = Reader::new(broken);
        let none = SentSlice::default();
        let mut sent = SentSlice::default();
        let read = reader.list(|reader| {
            sent = SentSlice::read(
                reader,
                if sent.slice.get().is_some() {
                    &sent
                } else {
                    &none
                },
            )?;
            Ok(())
        });
        assert!(read.is_err());
    }

    fn slice(metadata: &str, endpoints: &str, more: &str) -> String {
        format!(r#"{{"metadata":{{"name":"web"{metadata}}},"endpoints":[{endpoints}]{more}}}"#)
    }

    fn idle(sent: [&str; 3], stored: [&str; 3]) -> bool {
        let of = |[metadata, endpoints, more]: [&str; 3]| slice(metadata, endpoints, more);
        is_idle(&of(sent), &of(stored))
    }

    #[test]
    fn a_write_is_idle_whatever_hints_trigger_time_and_managed_times_it_has() {
        let bare = format!("{ENDPOINT}}}");
        let hinted = format!(r#"{ENDPOINT},"hints":{{"forZones":[{{"name":"a"}}]}}}}"#);
        let metadata = |time: &str, version: &str| {
            format!(
                r#","resourceVersion":"{version}","generation":{version},
                "annotations":{{"a":"b","{TRIGGER_TIME}":"{time}"}},"managedFields":[{{"manager":"m","time":"{time}"}}]"#
            )
        };
        let (sent, stored) = (metadata("2", "7"), metadata("1", "6"));
        assert!(idle([&sent, &bare, ""], [&stored, &hinted, ""]));
        assert!(idle([&sent, &hinted, ""], [&stored, &bare, ""]));
        assert!(idle(["", "", ""], ["", "", ""]), "no endpoints");
        let sorted = r#"{"addresses":["10.0.0.1"],"hints":{},"zone":"a"}"#;
        let without = r#"{"addresses":["10.0.0.1"],"zone":"a"}"#;
        assert!(idle(["", without, ""], ["", sorted, ""]));
        assert!(idle(["", sorted, ""], ["", without, ""]));
    }

    #[test]
    fn a_write_that_changes_anything_else_is_not_idle() {
        let bare = format!("{ENDPOINT}}}");
        let busy = |metadata: &str, endpoints: &str, more: &str| {
            let stored = [
                r#","labels":{"a":"b"},"annotations":{"c":"d"}"#,
                &bare,
                r#","ports":[]"#,
            ];
            let metadata = if metadata.is_empty() {
                stored[0]
            } else {
                metadata
            };
            let endpoints = if endpoints.is_empty() {
                stored[1]
            } else {
                endpoints
            };
            let more = if more.is_empty() { stored[2] } else { more };
            !idle([metadata, endpoints, more], stored)
        };
        assert!(!busy("", "", ""));
        for metadata in [
            r#","labels":{"a":"c"},"annotations":{"c":"d"}"#,
            r#","labels":{"a":"b"},"annotations":{"c":"e"}"#,
            r#","labels":{"a":"b"},"annotations":{"c":"d"},"ownerReferences":[]"#,
            r#","labels":{"a":"b"},"annotations":{"c":"d"},"managedFields":[{"manager":"m"}]"#,
            r#","labels":{"a":"b"},"annotations":{"c":1}"#,
            r#","labels":{"a":"b"},"annotations":[]"#,
        ] {
            assert!(busy(metadata, "", ""), "{metadata}");
        }
        for endpoint in [
            r#"{"addresses":["10.0.0.1"],"targetRef":{"name":"b","uid":"1"},"weight":1}"#,
            r#"{"addresses":["10.0.0.1"],"targetRef":{"name":"a","uid":"1"},"weight":2}"#,
            r#"{"addresses":["10.0.0.1"],"targetRef":{"name":"a","uid":"1"},"weight":1,"hostname":"h"}"#,
            r#"{"addresses":["10.0.0.1"],"targetRef":{"name":"a","uid":"1"}}"#,
            &format!("{bare},{bare}"),
            "7",
        ] {
            assert!(busy("", endpoint, ""), "{endpoint}");
        }
        for more in [
            r#","ports":[{}]"#,
            r#","ports":[],"addressType":"IPv4""#,
            r#","ports":[],"x":1"#,
        ] {
            assert!(busy("", "", more), "{more}");
        }
        assert!(
            !idle(["", "7", ""], ["", "7", ""]),
            "odd endpoints are never known to be the same"
        );
    }

    #[test]
    fn a_member_of_the_slice_is_none_of_its_metadata() {
        let member = r#""zones":["a"]"#;
        let inside = format!(r#"{{"metadata":{{{member}}},"endpoints":[]}}"#);
        let outside = format!(r#"{{"metadata":{{}},{member},"endpoints":[]}}"#);
        assert!(is_idle(&inside, &inside) && is_idle(&outside, &outside));
        assert!(!is_idle(&inside, &outside) && !is_idle(&outside, &inside));
    }

    #[test]
    fn a_write_with_more_members_than_are_compared_is_not_idle() {
        let members = |count| r#","m":1"#.repeat(count);
        assert!(idle([&members(60), "", ""], [&members(60), "", ""]));
        assert!(!idle([&members(65), "", ""], [&members(65), "", ""]));
    }
}
