//! Notices as Events, and back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::transitions::{Notice, Subject};
use super::{ServiceSet, State};
use crate::cluster::slice::AddressType;

/// The Events' `reportingController`.
pub const CONTROLLER: &str = "zonewise.dev/controller";

/// How many of its kind for the object the Event is.
const NUMBER: &str = "zonewise.dev/transition";
/// [`State`] in text.
const STATE: &str = "zonewise.dev/state";
/// The type of the addresses, of a Service's Event.
const ADDRESS_TYPE: &str = "zonewise.dev/address-type";

/// The API server counts bytes of the note and of the instance's name, although it speaks of characters.
const MOST_NOTE_BYTES: usize = 1024;
const MOST_INSTANCE_BYTES: usize = 128;
const MOST_NAME_BYTES: usize = 253;
const HASH_BYTES: usize = 8;

/// An Event's reason on a Node: the word that the Services' reason has too.
const ON_NODES: &str = "InsufficientNodeInfo";

/// An Event of ours that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Posted {
    pub(super) subject: Subject,
    pub(super) number: u64,
    pub(super) state: State,
    pub(super) at: Timestamp,
}

impl Posted {
    /// Reads an Event that [`event`] made, and no other: whoever may write Events in one namespace has no say on objects
    /// elsewhere.
    pub(super) fn read(event: &Event) -> Option<Self> {
        if event.reporting_controller.as_deref() != Some(CONTROLLER) {
            return None;
        }
        let annotations = event.metadata.annotations.as_ref()?;
        let subject = read_subject(event.regarding.as_ref()?, annotations)?;
        if event.metadata.namespace.as_deref() != Some(subject.namespace_of_events()) {
            return None;
        }
        Some(Self {
            subject,
            number: annotations.get(NUMBER)?.parse().ok()?,
            state: read_state(annotations.get(STATE)?)?,
            at: event.event_time.as_ref().map_or(Timestamp::MIN, |at| at.0),
        })
    }
}

fn read_subject(
    regarding: &ObjectReference,
    annotations: &BTreeMap<String, String>,
) -> Option<Subject> {
    let name = regarding.name.as_deref()?.into();
    match regarding.kind.as_deref()? {
        "Node" => Some(Subject::Node(name)),
        "Service" => Some(Subject::Service(ServiceSet {
            namespace: regarding.namespace.as_deref()?.into(),
            name,
            uid: regarding.uid.as_deref()?.into(),
            address_type: read_address_type(annotations.get(ADDRESS_TYPE)?)?,
        })),
        _ => None,
    }
}

fn read_address_type(text: &str) -> Option<AddressType> {
    let all = [AddressType::Ipv4, AddressType::Ipv6];
    all.into_iter()
        .find(|address_type| address_type.word() == text)
}

fn state_text(state: &State) -> Cow<'static, str> {
    match state {
        State::Enabled => "Enabled".into(),
        State::Disabled(word) => format!("Disabled/{word}").into(),
        State::Mistaken(annotation) => format!("Mistaken/{annotation}").into(),
        State::Silent => "Silent".into(),
    }
}

fn read_state(text: &str) -> Option<State> {
    match text.split_once('/') {
        None if text == "Enabled" => Some(State::Enabled),
        Some(("Mistaken", annotation)) => Some(State::Mistaken(annotation.into())),
        Some(("Disabled", word)) => Some(State::Disabled(word.to_owned().into())),
        _ => None,
    }
}

/// The Event for a notice, from this replica.
pub(super) fn event(notice: &Notice, instance: &str) -> Event {
    let subject = &notice.subject;
    let telling = Telling::of(notice);
    let instance = if instance.is_empty() {
        "zonewise"
    } else {
        instance
    };
    Event {
        metadata: ObjectMeta {
            name: Some(name(notice)),
            namespace: Some(subject.namespace_of_events().to_owned()),
            annotations: Some(annotations(notice)),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(notice.at)),
        action: Some(telling.action.to_owned()),
        reason: Some(telling.reason.to_owned()),
        type_: Some(telling.kind.to_owned()),
        note: Some(note(notice)),
        regarding: Some(regarding(subject)),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(cut(instance, MOST_INSTANCE_BYTES).into_owned()),
        ..Event::default()
    }
}

struct Telling {
    kind: &'static str,
    reason: &'static str,
    action: &'static str,
}

impl Telling {
    fn of(notice: &Notice) -> Self {
        let (kind, reason, action) = match (&notice.subject, &notice.state) {
            (Subject::Node(_), _) => ("Warning", ON_NODES, "MeasureCapacity"),
            (Subject::Service(_), State::Enabled) => {
                ("Normal", "TopologyAwareHintsEnabled", "AddHints")
            }
            (Subject::Service(_), State::Mistaken(_)) => {
                ("Warning", "InvalidAnnotation", "KeepHints")
            }
            (Subject::Service(_), State::Disabled(_) | State::Silent) => {
                ("Warning", "TopologyAwareHintsDisabled", "RemoveHints")
            }
        };
        Self {
            kind,
            reason,
            action,
        }
    }
}

fn annotations(notice: &Notice) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::from([
        (NUMBER.to_owned(), notice.number.to_string()),
        (STATE.to_owned(), state_text(&notice.state).into_owned()),
    ]);
    if let Subject::Service(service) = &notice.subject {
        let address_type = service.address_type.word().to_owned();
        annotations.insert(ADDRESS_TYPE.to_owned(), address_type);
    }
    annotations
}

/// What `kubectl describe` looks for: a Service by its uid, a Node by its uid or, as kubelets have it, its name.
fn regarding(subject: &Subject) -> ObjectReference {
    let (kind, namespace, name, uid) = match subject {
        Subject::Node(name) => ("Node", None, name, name),
        Subject::Service(service) => (
            "Service",
            Some(service.namespace.to_string()),
            &service.name,
            &service.uid,
        ),
    };
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some(kind.to_owned()),
        namespace,
        name: Some(name.to_string()),
        uid: Some(uid.to_string()),
        ..ObjectReference::default()
    }
}

/// The address type stands first, so that no cut takes it away.
fn note(notice: &Notice) -> String {
    let note = match &notice.subject {
        Subject::Node(_) => Cow::Borrowed(notice.sentence.as_str()),
        Subject::Service(service) => {
            let address_type = service.address_type.word();
            format!("{address_type}: {}", notice.sentence).into()
        }
    };
    cut(&note, MOST_NOTE_BYTES).into_owned()
}

/// The same for every replica that tells the same, and never the same for two transitions of one object.
pub(super) fn name(notice: &Notice) -> String {
    const MOST_PREFIX_BYTES: usize = MOST_NAME_BYTES - 1 - 2 * HASH_BYTES;
    let object = notice.subject.name();
    let prefix = &object[..object.floor_char_boundary(MOST_PREFIX_BYTES)];
    let mut name = prefix.trim_end_matches(['.', '-']).to_owned();
    name.push('.');
    for byte in &hash(notice)[..HASH_BYTES] {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

fn hash(notice: &Notice) -> [u8; 32] {
    let (kind, uid, address_type) = match &notice.subject {
        Subject::Node(name) => ("Node", name, ""),
        Subject::Service(service) => ("Service", &service.uid, service.address_type.word()),
    };
    let (number, state) = (notice.number.to_string(), state_text(&notice.state));
    // None of these holds the separator: names and uids are from the API server, which lets no NUL pass.
    let text = [kind, uid, address_type, &number, &state].join("\0");
    let mut hash = [0; 32];
    hash.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref());
    hash
}

/// As much of a text as fits, with an ellipsis where something is missing.
fn cut(text: &str, most_bytes: usize) -> Cow<'_, str> {
    const ELLIPSIS: &str = "…";
    if text.len() <= most_bytes {
        return text.into();
    }
    let end = text.floor_char_boundary(most_bytes - ELLIPSIS.len());
    format!("{}{ELLIPSIS}", &text[..end]).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::transitions::tests::same_cases;
    use super::*;

    fn service(name: &str) -> Subject {
        Subject::Service(ServiceSet {
            namespace: "shop".into(),
            name: name.into(),
            uid: "6c9a2d5e".into(),
            address_type: AddressType::Ipv4,
        })
    }

    fn notice(subject: Subject, number: u64, state: State, sentence: &str) -> Notice {
        Notice {
            subject,
            number,
            state,
            sentence: sentence.to_owned(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    fn is_subdomain(name: &str) -> bool {
        let is_label = |label: &str| {
            let edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_alphanumeric());
            edge(label.bytes().next())
                && edge(label.bytes().last())
                && label
                    .bytes()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
        };
        name.len() <= MOST_NAME_BYTES && name.split('.').all(is_label)
    }

    #[test]
    fn names_are_those_of_every_build() {
        let disabled = State::Disabled("NoZoneSpecified".into());
        assert_eq!(
            name(&notice(service("web"), 3, disabled, "")),
            "web.9562f3d69d82950f"
        );
    }

    #[test]
    fn a_long_name_is_cut_where_a_name_may_end() {
        let long = format!("{}.{}", "a".repeat(235), "b".repeat(17));
        assert_eq!(long.len(), MOST_NAME_BYTES);
        let name = name(&notice(Subject::Node(long.into()), 1, State::Enabled, ""));
        assert!(is_subdomain(&name), "{name}");
        assert!(name.starts_with(&format!("{}.", "a".repeat(235))), "{name}");
    }

    #[test]
    fn a_note_keeps_its_address_type_and_is_cut_between_characters() {
        let longest = "é".repeat((MOST_NOTE_BYTES - "IPv4: ".len()) / 2);
        let whole = note(&notice(service("web"), 1, State::Enabled, &longest));
        assert_eq!(whole, format!("IPv4: {longest}"));
        let cut = note(&notice(
            service("web"),
            1,
            State::Enabled,
            &format!("{longest}é"),
        ));
        assert_eq!(
            (cut.len(), cut.starts_with("IPv4: éé"), cut.ends_with("é…")),
            (1023, true, true)
        );
    }

    #[test]
    fn an_event_elsewhere_than_its_object_is_not_ours() {
        let mut event = event(&notice(service("web"), 1, State::Enabled, ""), "z-0");
        assert!(Posted::read(&event).is_some());
        event.metadata.namespace = Some("other".to_owned());
        assert_eq!(Posted::read(&event), None);
    }

    /// A name of labels, as long as names may be.
    fn an_object_name() -> impl Strategy<Value = String> {
        let label = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?";
        let labels = prop::collection::vec(label, 1..=4);
        labels.prop_filter_map("it is too long for a name", |labels| {
            Some(labels.join(".")).filter(|name| name.len() <= MOST_NAME_BYTES)
        })
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn every_name_is_valid(object in an_object_name(), number: u64) {
            let subject = Subject::Node(object.into());
            let name = name(&notice(subject, number, State::Enabled, ""));
            prop_assert!(is_subdomain(&name), "{name}");
        }

        #[test]
        fn every_cut_fits(text in "\\PC{0,60}", most in 3_usize..100) {
            let cut = cut(&text, most);
            prop_assert!(cut.len() <= most);
            prop_assert_eq!(text.len() <= most, *cut == text);
        }

        #[test]
        fn what_was_posted_is_read_again(number: u64, word in "[A-Za-z+]{1,20}", is_node: bool) {
            let subject = if is_node { Subject::Node("n1".into()) } else { service("web") };
            let state = State::Disabled(word.into());
            let event = event(&notice(subject.clone(), number, state.clone(), "x"), "z-0");
            let at = Timestamp::UNIX_EPOCH;
            let posted = Posted { subject, number, state, at };
            prop_assert_eq!(Posted::read(&event), Some(posted));
        }
    }
}
