//! Objects that stand in a file as JSON.

use serde_json::value::RawValue;

use super::form::Form;
use super::kind::{KindRole, NO_OBJECT, kind_of_items, without_items};
use super::names;
use super::source::Source;
use super::{FileError, ObjectsAs};
use crate::cluster::loose::Loose;
use crate::cluster::wire::{EndpointSlice, Node, Service, Wire};

/// One after the other, as `kubectl get -o json` and its like write them.
pub(super) fn add<N, S, E>(
    objects: &mut ObjectsAs<N, S, E>,
    source: &Source<'_>,
) -> Result<(), FileError>
where
    N: Form<Node<Box<str>>>,
    S: Form<Service<Box<str>>>,
    E: Form<EndpointSlice<Box<str>>>,
{
    let documents = serde_json::Deserializer::from_str(source.text).into_iter::<&RawValue>();
    for (before, object) in documents.enumerate() {
        let document = before + 1;
        let object = object.map_err(|error| source.no_json(document, source.text, &error))?;
        let raw = Raw {
            source,
            document,
            json: object.get(),
        };
        add_raw(objects, raw, "")?;
    }
    Ok(())
}

/// An item of a typed list need not say its kind.
fn add_raw<N, S, E>(
    objects: &mut ObjectsAs<N, S, E>,
    raw: Raw<'_>,
    kind_of_item: &str,
) -> Result<(), FileError>
where
    N: Form<Node<Box<str>>>,
    S: Form<Service<Box<str>>>,
    E: Form<EndpointSlice<Box<str>>>,
{
    if raw.json == "null" {
        return Ok(());
    }
    if !raw.json.starts_with('{') {
        return Err(raw.fault(NO_OBJECT.to_owned()));
    }
    let header: Header<'_> = raw.parse(raw.json)?;
    let kind = header.kind.text().unwrap_or(kind_of_item);
    let role = KindRole::of(kind, header.api_version.text());
    match role.map_err(|problem| raw.fault(problem))? {
        KindRole::Node => objects.nodes.push(raw.object()?),
        KindRole::Namespace => objects.namespaces.push(raw.object()?),
        KindRole::Service => objects.services.push(raw.object()?),
        KindRole::Slice => objects.slices.push(raw.object()?),
        KindRole::List => {
            let items = header
                .items
                .map(RawValue::get)
                .filter(|items| items.starts_with('['));
            let items = items.ok_or_else(|| raw.fault(without_items(kind)))?;
            for item in raw.parse::<Vec<&RawValue>>(items)? {
                let item = Raw {
                    json: item.get(),
                    ..raw
                };
                add_raw(objects, item, kind_of_items(kind))?;
            }
        }
        KindRole::Other => {}
    }
    Ok(())
}

/// An object's text, and where it stands.
#[derive(Clone, Copy)]
struct Raw<'a> {
    source: &'a Source<'a>,
    document: usize,
    json: &'a str,
}

impl<'a> Raw<'a> {
    fn fault(&self, problem: String) -> FileError {
        let line = self.source.line_of(self.json);
        self.source.fault(line, self.document, problem)
    }

    /// `part` is the object's text or stands in it.
    fn parse<T: serde::Deserialize<'a>>(&self, part: &'a str) -> Result<T, FileError> {
        serde_json::from_str(part).map_err(|error| self.source.no_json(self.document, part, &error))
    }

    fn object<W: Wire + Clone, F: Form<W>>(&self) -> Result<F, FileError> {
        names::checked(self.parse(self.json)?).map_err(|problem| self.fault(problem))
    }
}

/// What has to be known of a JSON object before the rest of it is.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    #[serde(default)]
    kind: Loose<Box<str>>,
    #[serde(default)]
    api_version: Loose<Box<str>>,
    #[serde(borrow, default)]
    items: Option<&'a RawValue>,
}
