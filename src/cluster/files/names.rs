//! Names as API servers take them.

use super::form::{Form, NameField};
use crate::cluster::loose::Loose;
use crate::cluster::slice::SERVICE_NAME_LABEL;
use crate::cluster::wire::Wire;

/// An object with the names that an API server would take, in a namespace if its kind is in one.
pub(super) fn checked<W: Wire + Clone, F: Form<W>>(mut object: F) -> Result<F, String> {
    let kind = W::KIND;
    let name = object.metadata_text(NameField::Name);
    if matches!(name, Loose::Absent | Loose::Value("")) {
        let article = if kind.starts_with('E') { "an" } else { "a" };
        return Err(format!("{article} {kind} without metadata.name"));
    }
    let is_name = if matches!(kind, "Service" | "Namespace") {
        is_label
    } else {
        is_subdomain
    };
    check(kind, "metadata.name", &name, is_name)?;
    if !matches!(kind, "Node" | "Namespace") {
        match object.metadata_text(NameField::Namespace) {
            Loose::Absent | Loose::Value("") => object.put_in_default_namespace(),
            namespace => check(kind, "metadata.namespace", &namespace, is_label)?,
        }
    }
    let service = object.metadata_text(NameField::ServiceName);
    if let Loose::Value(_) = service {
        let field = format!("label {SERVICE_NAME_LABEL}");
        check(kind, &field, &service, is_label_value)?;
    }
    object.trim();
    Ok(object)
}

fn check(
    kind: &str,
    field: &str,
    name: &Loose<&str>,
    is_name: fn(&str) -> bool,
) -> Result<(), String> {
    match name {
        Loose::Value(name) if is_name(name) => Ok(()),
        Loose::Value(name) => Err(format!(
            "the {kind}'s {field} is {name:?}, which no API server takes for a name"
        )),
        Loose::Absent | Loose::Odd => Err(format!("the {kind}'s {field} is no text")),
    }
}

/// RFC 1123: small letters and digits, with hyphens between them, of at most 63.
fn is_label(name: &str) -> bool {
    name.len() <= 63 && is_part(name)
}

/// RFC 1123: labels with dots between them, of at most 253.
fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_part)
}

/// The empty text, or letters and digits with hyphens, dots and underscores between them, of at most 63.
fn is_label_value(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|&byte| inner(byte))
        && is_end(bytes.first())
        && is_end(bytes.last())
}

fn is_part(part: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
}
