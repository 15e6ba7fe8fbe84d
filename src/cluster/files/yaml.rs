//! Objects that stand in a file as YAML documents.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::form::Form;
use super::kind::{KindRole, NO_KIND, NO_OBJECT, kind_of_items, without_items};
use super::names;
use super::source::Source;
use super::{FileError, ObjectsAs};
use crate::cluster::loose::{Loose, Shape, Shaped};
use crate::cluster::wire::{EndpointSlice, Namespace, Node, Service, Wire};

pub(super) fn add<N, S, E>(
    objects: &mut ObjectsAs<N, S, E>,
    source: &Source<'_>,
) -> Result<(), FileError>
where
    N: Form<Node<Box<str>>>,
    S: Form<Service<Box<str>>>,
    E: Form<EndpointSlice<Box<str>>>,
{
    let documents: Vec<Spanned<Entry<N, S, E>>> =
        serde_saphyr::from_multiple_with_options(source.text, options())
            .map_err(|error| source.no_yaml(&error))?;
    documents
        .into_iter()
        .try_for_each(|document| add_entry(objects, source, document, ""))
}

fn add_entry<N, S, E>(
    objects: &mut ObjectsAs<N, S, E>,
    source: &Source<'_>,
    entry: Spanned<Entry<N, S, E>>,
    kind_of_item: &str,
) -> Result<(), FileError>
where
    N: Form<Node<Box<str>>>,
    S: Form<Service<Box<str>>>,
    E: Form<EndpointSlice<Box<str>>>,
{
    let line = entry.referenced.line();
    let fault = |problem| source.fault(line, source.document_at(line), problem);
    let entry = match entry.value {
        Entry::NoKind(object) => Entry::of(object, None, kind_of_item),
        entry => entry,
    };
    match entry {
        Entry::Node(node) => objects.nodes.push(node),
        Entry::Namespace(namespace) => objects.namespaces.push(namespace),
        Entry::Service(service) => objects.services.push(service),
        Entry::Slice(slice) => objects.slices.push(slice),
        Entry::List(kind, items) => {
            for item in items {
                add_entry(objects, source, item, kind_of_items(&kind))?;
            }
        }
        Entry::Other => {}
        Entry::NoKind(_) => return Err(fault(NO_KIND.to_owned())),
        Entry::Fault(problem) => return Err(fault(problem)),
    }
    Ok(())
}

/// Files come from the user's own hand, and a large cluster has more nodes than the library's defaults allow. Limits on
/// aliases stay: no list of objects needs many.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
        with_snippet: false,
    }
}

/// An object of a YAML document. Each is brought into its form as it comes, so that a long list is never there twice.
enum Entry<N, S, E> {
    Node(N),
    Namespace(Namespace<Box<str>>),
    Service(S),
    Slice(E),
    List(String, Vec<Spanned<Self>>),
    Other,
    /// To be understood by the list that it stands in.
    NoKind(Map<String, Value>),
    Fault(String),
}

impl<N, S, E> Entry<N, S, E>
where
    N: Form<Node<Box<str>>>,
    S: Form<Service<Box<str>>>,
    E: Form<EndpointSlice<Box<str>>>,
{
    fn of(
        object: Map<String, Value>,
        items: Option<Vec<Spanned<Self>>>,
        kind_of_item: &str,
    ) -> Self {
        let text = |field: &str| object.get(field).and_then(Value::as_str).map(str::to_owned);
        let kind = text("kind").unwrap_or_else(|| kind_of_item.to_owned());
        if kind.is_empty() {
            return Self::NoKind(object);
        }
        let role = KindRole::of(&kind, text("apiVersion").as_deref());
        let value = Value::Object(object);
        let entry = role.and_then(|role| {
            Ok(match role {
                KindRole::Node => Self::Node(form(value)?),
                KindRole::Namespace => Self::Namespace(form(value)?),
                KindRole::Service => Self::Service(form(value)?),
                KindRole::Slice => Self::Slice(form(value)?),
                KindRole::List => match items {
                    Some(items) => Self::List(kind, items),
                    None => return Err(without_items(&kind)),
                },
                KindRole::Other => Self::Other,
            })
        });
        entry.unwrap_or_else(Self::Fault)
    }
}

fn form<W: Wire + Clone, F: Form<W>>(value: Value) -> Result<F, String> {
    names::checked(F::of(value).map_err(|error| error.to_string())?)
}

impl<'de, N, S, E> Deserialize<'de> for Entry<N, S, E>
where
    N: Form<Node<Box<str>>>,
    S: Form<Service<Box<str>>>,
    E: Form<EndpointSlice<Box<str>>>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = Loose::<Fields<Self>>::deserialize(deserializer)?;
        Ok(match node {
            Loose::Value(Fields { object, items }) => Self::of(object, items, ""),
            Loose::Absent => Self::Other,
            Loose::Odd => Self::Fault(NO_OBJECT.to_owned()),
        })
    }
}

/// The fields of an object, and the items of a list by themselves.
struct Fields<I> {
    object: Map<String, Value>,
    items: Option<Vec<Spanned<I>>>,
}

impl<I> Shaped for Fields<I> {
    const SHAPE: Shape = Shape::Map;
}

impl<'de, I: Deserialize<'de>> Deserialize<'de> for Fields<I> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor<I>(PhantomData<I>);
        impl<'de, I: Deserialize<'de>> Visitor<'de> for FieldsVisitor<I> {
            type Value = Fields<I>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut object, mut items) = (Map::new(), None);
                while let Some(key) = map.next_key::<String>()? {
                    if key == "items" {
                        items = match map.next_value()? {
                            Loose::Value(entries) => Some(entries),
                            Loose::Absent | Loose::Odd => None,
                        };
                    } else {
                        object.insert(key, map.next_value()?);
                    }
                }
                Ok(Fields { object, items })
            }
        }
        deserializer.deserialize_map(FieldsVisitor(PhantomData))
    }
}
