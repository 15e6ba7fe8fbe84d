//! The AdmissionReview, borrowed from the request's bytes.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cluster::loose::{Loose, Text};
use crate::cluster::wire::EndpointSlice;

/// Why a body is no review. The sentence goes to whoever sent it.
#[derive(Debug, thiserror::Error)]
pub enum BadReview {
    /// It is not JSON, or a field has the wrong type.
    #[error("the body is no AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    /// It has no request.
    #[error(
        "the AdmissionReview has no request; this endpoint answers reviews that an API server sends"
    )]
    NoRequest,
    /// The request can't be answered.
    #[error("the request of the AdmissionReview has no uid, so there is nothing to answer to")]
    NoUid,
}

/// `AdmissionReview` of admission.k8s.io/v1, as it is asked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReview<'a> {
    #[serde(borrow, default)]
    api_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    request: Option<Request<'a>>,
}

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request<'a> {
    #[serde(borrow, default)]
    uid: Option<Text<'a>>,
    #[serde(borrow, default)]
    kind: Option<GroupVersionKind<'a>>,
    #[serde(borrow, default)]
    operation: Option<Text<'a>>,
    #[serde(borrow, default)]
    namespace: Option<Text<'a>>,
    #[serde(borrow, default)]
    sub_resource: Option<Text<'a>>,
    #[serde(default)]
    dry_run: Option<bool>,
    /// The object as it is about to be written.
    #[serde(borrow, default)]
    pub object: Loose<EndpointSlice<Text<'a>>>,
    /// The object as it is stored.
    #[serde(borrow, default)]
    pub old_object: Loose<EndpointSlice<Text<'a>>>,
}

#[derive(Debug, Deserialize)]
struct GroupVersionKind<'a> {
    #[serde(borrow, default)]
    group: Option<Text<'a>>,
    #[serde(borrow, default)]
    version: Option<Text<'a>>,
    #[serde(borrow, default)]
    kind: Option<Text<'a>>,
}

/// What is being done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// It is new.
    Create,
    /// It is there.
    Update,
    /// Anything else, none of which is ours.
    Other,
}

impl Operation {
    /// Its word in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Other => "OTHER",
        }
    }
}

fn text<'a>(text: Option<&'a Text<'_>>) -> &'a str {
    text.map(AsRef::as_ref).unwrap_or_default()
}

/// The version of reviews that is answered when one does not say.
const V1: &str = "admission.k8s.io/v1";

/// Reads a review: its version, which the answer repeats, and what is asked.
///
/// # Errors
/// [`BadReview`] for what is not one.
pub fn parse(body: &[u8]) -> Result<(String, Request<'_>), BadReview> {
    let review: AdmissionReview<'_> = serde_json::from_slice(body)?;
    let request = review.request.ok_or(BadReview::NoRequest)?;
    if text(request.uid.as_ref()).is_empty() {
        return Err(BadReview::NoUid);
    }
    let api_version = text(review.api_version.as_ref());
    Ok((
        if api_version.is_empty() {
            V1
        } else {
            api_version
        }
        .to_owned(),
        request,
    ))
}

impl Request<'_> {
    /// The uid that the answer repeats.
    #[must_use]
    pub fn uid(&self) -> &str {
        text(self.uid.as_ref())
    }

    /// Whether nothing will be stored.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.dry_run.unwrap_or(false)
    }

    /// What is being done.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match text(self.operation.as_ref()) {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            _ => Operation::Other,
        }
    }

    /// The namespace of the request, which stands even where the object has none yet.
    #[must_use]
    pub fn namespace(&self) -> &str {
        text(self.namespace.as_ref())
    }

    /// The slice that is created or updated, where the request is about a discovery.k8s.io/v1 EndpointSlice.
    #[must_use]
    pub fn slice(&self) -> Option<&EndpointSlice<Text<'_>>> {
        let kind = self.kind.as_ref()?;
        let is_slice = text(kind.group.as_ref()) == "discovery.k8s.io"
            && text(kind.version.as_ref()) == "v1"
            && text(kind.kind.as_ref()) == "EndpointSlice";
        let whole = text(self.sub_resource.as_ref()).is_empty();
        if !is_slice || !whole || self.operation() == Operation::Other {
            return None;
        }
        self.object.get()
    }
}

/// The JSON of `metadata.managedFields` of the stored object, if putting it back takes nothing from anybody: the lists
/// as sent and as stored must differ in nothing but times and `annotation`, and so must the metadata that the patch
/// does not look at. Somebody who begins to manage a field, as server-side apply does, must find that stored.
///
/// Read anew from the body: it is long, and few requests need it.
#[must_use]
pub fn stored_managed_fields(body: &[u8], annotation: &str) -> Option<String> {
    let review: Raw<RawRequest<'_>> = serde_json::from_slice(body).ok()?;
    let (object, old) = (
        review.request.object.metadata,
        review.request.old_object.metadata,
    );
    let text = |value: Option<&RawValue>| value.map(|value| value.get().to_owned());
    let same = text(object.owner_references) == text(old.owner_references)
        && text(object.finalizers) == text(old.finalizers)
        && text(object.deletion_timestamp) == text(old.deletion_timestamp)
        && managers(object.managed_fields, annotation) == managers(old.managed_fields, annotation);
    text(old.managed_fields.filter(|_| same))
}

/// Who manages what, without times and without `annotation`.
fn managers(managed_fields: Option<&RawValue>, annotation: &str) -> Option<Vec<Value>> {
    let mut entries: Vec<Value> = serde_json::from_str(managed_fields?.get()).ok()?;
    for entry in &mut entries {
        entry.as_object_mut()?.remove("time");
        let Some(metadata) = entry
            .pointer_mut("/fieldsV1/f:metadata")
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        if let Some(annotations) = metadata
            .get_mut("f:annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(&format!("f:{annotation}"));
            if annotations.keys().all(|key| key == ".") {
                metadata.remove("f:annotations");
            }
        }
    }
    Some(entries)
}

#[derive(Deserialize)]
struct Raw<T> {
    request: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRequest<'a> {
    #[serde(borrow)]
    object: RawObject<'a>,
    #[serde(borrow)]
    old_object: RawObject<'a>,
}

#[derive(Deserialize)]
struct RawObject<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata<'a> {
    #[serde(borrow, default)]
    managed_fields: Option<&'a RawValue>,
    #[serde(borrow, default)]
    owner_references: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finalizers: Option<&'a RawValue>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<&'a RawValue>,
}

/// `AdmissionReview` of admission.k8s.io/v1, as it is answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredReview<'a> {
    api_version: &'a str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<&'a str>,
}

/// The answer that allows the request, with a JSON patch (RFC 6902) where there is one.
#[must_use]
pub fn allow(api_version: &str, uid: &str, patch: Option<&[u8]>) -> Vec<u8> {
    use base64::Engine as _;
    let patch = patch.map(|patch| base64::engine::general_purpose::STANDARD.encode(patch));
    let review = AnsweredReview {
        api_version,
        kind: "AdmissionReview",
        response: Response {
            uid,
            allowed: true,
            patch_type: patch.is_some().then_some("JSONPatch"),
            patch: patch.as_deref(),
        },
    };
    serde_json::to_vec(&review).expect("texts always serialize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_review_is_told_so() {
        let sentence = |body: &str| parse(body.as_bytes()).unwrap_err().to_string();
        assert!(sentence("{").starts_with("the body is no AdmissionReview: "));
        assert!(sentence("{}").contains("no request"));
        assert!(sentence(r#"{"request":{"operation":"CREATE"}}"#).contains("no uid"));
    }

    #[test]
    fn only_slices_that_are_written_are_slices() {
        let slice = |kind: &str, operation: &str| {
            let body = format!(
                r#"{{"request":{{"uid":"u","kind":{{"group":"discovery.k8s.io","version":"v1","kind":"{kind}"}},
                    "operation":"{operation}","object":{{"metadata":{{"name":"x"}}}}}}}}"#
            );
            parse(body.as_bytes()).unwrap().1.slice().is_some()
        };
        assert!(slice("EndpointSlice", "CREATE") && slice("EndpointSlice", "UPDATE"));
        assert!(!slice("Service", "CREATE") && !slice("EndpointSlice", "DELETE"));
    }

    #[test]
    fn managed_fields_come_back_only_where_that_takes_nothing_from_anybody() {
        let entry = |manager: &str, time: &str, annotations: &str| {
            format!(
                r#"{{"manager":"{manager}","time":"{time}","fieldsV1":{{"f:metadata":{{{annotations}"f:labels":{{}}}}}}}}"#
            )
        };
        let with = r#""f:annotations":{".":{},"f:trigger":{}},"#;
        let body = |owner: &str, sent: &str, stored: &str| {
            format!(
                r#"{{"request":{{"object":{{"metadata":{{"ownerReferences":[{owner}],"managedFields":[{sent}]}}}},
                    "oldObject":{{"metadata":{{"ownerReferences":[1],"managedFields":[{stored}]}}}}}}}}"#
            )
        };
        let stored = entry("controller", "1", with);
        let ask = |owner: &str, sent: &str| {
            stored_managed_fields(body(owner, sent, &stored).as_bytes(), "trigger")
        };
        let sent = entry("controller", "2", "");
        assert_eq!(ask("1", &sent), Some(format!("[{stored}]")));
        assert_eq!(ask("2", &sent), None, "another owner");
        let alice = format!("{sent},{}", entry("alice", "2", ""));
        assert_eq!(ask("1", &alice), None, "another manager");
    }

    #[test]
    fn an_answer_repeats_uid_and_version() {
        let answer: serde_json::Value =
            serde_json::from_slice(&allow("admission.k8s.io/v1", "u\"1", Some(b"[]"))).unwrap();
        assert_eq!(
            answer,
            serde_json::json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": "u\"1", "allowed": true, "patchType": "JSONPatch", "patch": "W10="}})
        );
    }
}
