//! The forms in which objects are kept: as they stand in the files, or lean.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::loose::Loose;
use crate::cluster::slice::SERVICE_NAME_LABEL;
use crate::cluster::wire::{EndpointSlice, Metadata, Namespace, Node, Service, Wire};

/// As the API server does for a client without a namespace of its own.
const DEFAULT_NAMESPACE: &str = "default";

/// A form in which an object of type `W` is kept.
pub trait Form<W: Wire + Clone>: DeserializeOwned {
    /// The object that a document's value is.
    ///
    /// # Errors
    /// That of a value which is no object.
    fn of(value: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(value)
    }
    /// The object with the fields that are used.
    fn typed(&self) -> Option<Cow<'_, W>>;
    /// A text of its metadata.
    fn metadata_text(&self, field: NameField) -> Loose<&str>;
    /// Puts it into the namespace `default`.
    fn put_in_default_namespace(&mut self);
    /// Forgets what is used of no object of this type.
    fn trim(&mut self) {}
}

/// A field that holds a name.
#[derive(Debug, Clone, Copy)]
pub enum NameField {
    /// `metadata.name`.
    Name,
    /// `metadata.namespace`.
    Namespace,
    /// The label of a slice that names its Service.
    ServiceName,
}

impl<W: Wire + Clone + DeserializeOwned> Form<W> for Value {
    fn of(value: Value) -> Result<Self, serde_json::Error> {
        Ok(value)
    }

    fn typed(&self) -> Option<Cow<'_, W>> {
        W::deserialize(self).ok().map(Cow::Owned)
    }

    fn metadata_text(&self, field: NameField) -> Loose<&str> {
        let metadata = self.get("metadata");
        let value = match field {
            NameField::Name => metadata.and_then(|m| m.get("name")),
            NameField::Namespace => metadata.and_then(|m| m.get("namespace")),
            NameField::ServiceName => {
                metadata.and_then(|m| m.get("labels")?.get(SERVICE_NAME_LABEL))
            }
        };
        match value {
            None | Some(Value::Null) => Loose::Absent,
            Some(Value::String(text)) => Loose::Value(text),
            Some(_) => Loose::Odd,
        }
    }

    fn put_in_default_namespace(&mut self) {
        if let Some(metadata) = self.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("namespace".into(), DEFAULT_NAMESPACE.into());
        }
    }

    /// The images of a node are most of it, and only slices are ever shown whole.
    fn trim(&mut self) {
        if W::KIND == EndpointSlice::<Box<str>>::KIND {
            return;
        }
        for (part, field) in [("metadata", "managedFields"), ("status", "images")] {
            if let Some(part) = self.get_mut(part).and_then(Value::as_object_mut) {
                part.remove(field);
            }
        }
    }
}

macro_rules! is_its_own_form {
    ($($type:ident),*) => {$(
        impl Form<Self> for $type<Box<str>> {
            fn typed(&self) -> Option<Cow<'_, Self>> {
                Some(Cow::Borrowed(self))
            }

            fn metadata_text(&self, field: NameField) -> Loose<&str> {
                metadata_text(&self.metadata, field)
            }

            fn put_in_default_namespace(&mut self) {
                if let Loose::Value(metadata) = &mut self.metadata {
                    metadata.namespace = Loose::Value(DEFAULT_NAMESPACE.into());
                }
            }
        }
    )*};
}

is_its_own_form!(Node, Namespace, Service, EndpointSlice);

fn metadata_text(metadata: &Loose<Metadata<Box<str>>>, field: NameField) -> Loose<&str> {
    let Some(metadata) = metadata.get() else {
        return Loose::Absent;
    };
    let text = match field {
        NameField::Name => &metadata.name,
        NameField::Namespace => &metadata.namespace,
        NameField::ServiceName => {
            return metadata
                .label(SERVICE_NAME_LABEL)
                .map_or(Loose::Absent, Loose::Value);
        }
    };
    match text {
        Loose::Absent => Loose::Absent,
        Loose::Value(text) => Loose::Value(text),
        Loose::Odd => Loose::Odd,
    }
}
