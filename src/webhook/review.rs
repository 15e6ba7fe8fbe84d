//! The AdmissionReview, borrowed from the request's bytes.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::json::{self, Fault, Problem, Reader, Type};
use super::patch::Idle;
use super::person::{self, User};
use super::sent::SentSlice;
use crate::cluster::loose::{Loose, Text};
use crate::cluster::wire::EndpointSlice;

/// Why a body is no review. The sentence goes to whoever sent it.
#[derive(Debug, thiserror::Error)]
pub enum BadReview {
    /// It is not JSON, or a field has the wrong type.
    #[error("the body is no AdmissionReview: {0}")]
    Json(#[from] json::Error),
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
#[derive(Debug, Default)]
struct AdmissionReview<'a> {
    api_version: Cow<'a, str>,
    request: Option<Request<'a>>,
}

/// What is asked. A text that is absent is empty.
#[derive(Debug, Default)]
pub struct Request<'a> {
    api_version: Cow<'a, str>,
    uid: Cow<'a, str>,
    kind: GroupVersionKind<'a>,
    operation: Cow<'a, str>,
    namespace: Cow<'a, str>,
    sub_resource: Cow<'a, str>,
    dry_run: bool,
    /// Who sent it.
    pub user: User<'a>,
    /// The object as it is about to be written, read as a slice.
    pub object: SentSlice<'a>,
    /// The object as it is stored, read as a slice.
    pub old_object: SentSlice<'a>,
    /// The text of these two.
    texts: [&'a str; 2],
}

#[derive(Debug, Default)]
struct GroupVersionKind<'a> {
    group: Cow<'a, str>,
    version: Cow<'a, str>,
    kind: Cow<'a, str>,
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

/// The version of reviews that is answered when one does not say.
const V1: &str = "admission.k8s.io/v1";

/// Reads what is asked.
///
/// # Errors
/// [`BadReview`] for a body that asks nothing.
pub fn parse(body: &[u8]) -> Result<Request<'_>, BadReview> {
    let review = Reader::of_bytes(body).and_then(|mut reader| {
        let review = read_review(&mut reader)?;
        reader.end()?;
        Ok(review)
    });
    let AdmissionReview {
        api_version,
        request,
    } = review.map_err(|fault| fault.locate(body))?;
    let request = request.ok_or(BadReview::NoRequest)?;
    if request.uid.is_empty() {
        return Err(BadReview::NoUid);
    }
    Ok(Request {
        api_version,
        ..request
    })
}

fn read_review<'a>(reader: &mut Reader<'a>) -> json::Result<AdmissionReview<'a>> {
    let mut review = AdmissionReview::default();
    if reader.peek()? != b'{' {
        return Err(other_type(reader, "it", Type::Object));
    }
    reader.object(|reader, key| {
        match &*key {
            "apiVersion" => review.api_version = text(reader, "apiVersion")?,
            "request" => review.request = read_request(reader)?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(review)
}

fn read_request<'a>(reader: &mut Reader<'a>) -> json::Result<Option<Request<'a>>> {
    let mut request = Request::default();
    let there = object_or_null(reader, "request", |reader, key| {
        match key {
            "uid" => request.uid = text(reader, "request.uid")?,
            "kind" => request.kind = read_kind(reader)?,
            "operation" => request.operation = text(reader, "request.operation")?,
            "namespace" => request.namespace = text(reader, "request.namespace")?,
            "subResource" => request.sub_resource = text(reader, "request.subResource")?,
            "dryRun" => request.dry_run = flag(reader, "request.dryRun")?,
            "userInfo" => request.user = read_user(reader)?,
            "object" => {
                reader.peek()?;
                let start = reader.at();
                request.object = SentSlice::read(reader, &request.old_object)?;
                request.texts[0] = reader.since(start);
            }
            "oldObject" => {
                reader.peek()?;
                let start = reader.at();
                request.old_object = SentSlice::read(reader, &request.object)?;
                request.texts[1] = reader.since(start);
            }
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(there.then_some(request))
}

fn read_user<'a>(reader: &mut Reader<'a>) -> json::Result<User<'a>> {
    let mut user = User::default();
    object_or_null(reader, "request.userInfo", |reader, key| {
        match key {
            "username" => user.name = text(reader, "request.userInfo.username")?,
            "groups" => user.in_group_of_programs = person::read_groups(reader)?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(user)
}

fn read_kind<'a>(reader: &mut Reader<'a>) -> json::Result<GroupVersionKind<'a>> {
    let mut kind = GroupVersionKind::default();
    object_or_null(reader, "request.kind", |reader, key| {
        match key {
            "group" => kind.group = text(reader, "request.kind.group")?,
            "version" => kind.version = text(reader, "request.kind.version")?,
            "kind" => kind.kind = text(reader, "request.kind.kind")?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(kind)
}

/// Whether there is an object, all of whose members have been read.
fn object_or_null<'a>(
    reader: &mut Reader<'a>,
    name: &'static str,
    mut member: impl FnMut(&mut Reader<'a>, &str) -> json::Result<()>,
) -> json::Result<bool> {
    match reader.peek()? {
        b'{' => reader
            .object(|reader, key| member(reader, &key))
            .map(|()| true),
        b'n' => reader.null().map(|()| false),
        _ => Err(other_type(reader, name, Type::Object)),
    }
}

fn text<'a>(reader: &mut Reader<'a>, name: &'static str) -> json::Result<Cow<'a, str>> {
    match reader.peek()? {
        b'"' => reader.string()?.ok_or(reader.fault(Problem::Memory)),
        b'n' => reader.null().map(|()| Cow::default()),
        _ => Err(other_type(reader, name, Type::String)),
    }
}

fn flag(reader: &mut Reader<'_>, name: &'static str) -> json::Result<bool> {
    match reader.peek()? {
        b't' | b'f' => reader.bool(),
        b'n' => reader.null().map(|()| false),
        _ => Err(other_type(reader, name, Type::Bool)),
    }
}

/// That the next value has another type than it must have, or is none at all.
fn other_type(reader: &mut Reader<'_>, name: &'static str, wanted: Type) -> Fault {
    let fault = reader.fault(Problem::Type(name, wanted));
    reader.skip().err().unwrap_or(fault)
}

impl<'a> Request<'a> {
    /// The version of the review, which the answer repeats.
    #[must_use]
    pub fn api_version(&self) -> &str {
        if self.api_version.is_empty() {
            V1
        } else {
            &self.api_version
        }
    }

    /// The uid that the answer repeats.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether nothing will be stored.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// What is being done.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match &*self.operation {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            _ => Operation::Other,
        }
    }

    /// The namespace of the request, which stands even where the object has none yet.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The slice that is created or updated, where the request is about a discovery.k8s.io/v1 EndpointSlice.
    #[must_use]
    pub fn slice(&self) -> Option<&EndpointSlice<Text<'a>>> {
        let is_slice = self.writes("discovery.k8s.io", "EndpointSlice");
        self.object.slice.get().filter(|_| is_slice)
    }

    /// The texts of the object that is created or updated and of the stored one, if it is a v1 object of this `kind` in the
    /// core group.
    #[must_use]
    pub fn core(&self, kind: &str) -> Option<[&'a str; 2]> {
        self.writes("", kind).then_some(self.texts)
    }

    /// Whether it creates or updates an object of this kind, version v1.
    fn writes(&self, group: &str, kind: &str) -> bool {
        let whole = self.sub_resource.is_empty();
        self.is_about(group, kind) && whole && self.operation() != Operation::Other
    }

    fn is_about(&self, group: &str, kind: &str) -> bool {
        self.kind.group == group && self.kind.version == "v1" && self.kind.kind == kind
    }

    /// The object's `namespace/name`, or a Namespace's name. The name is empty where it is yet to be generated.
    #[must_use]
    pub fn object_name(&self) -> String {
        let metadata = self
            .object
            .slice
            .get()
            .and_then(|object| object.metadata.get());
        let name = metadata.and_then(|metadata| metadata.name.text());
        let name = name.unwrap_or_default();
        // The API server gives a Namespace's own name as the namespace of the request.
        if self.is_about("", "Namespace") {
            return name.to_owned();
        }
        format!("{}/{name}", self.namespace)
    }

    /// Whether the object is being deleted.
    #[must_use]
    pub fn is_of_deleted(&self) -> bool {
        let metadata = self
            .object
            .slice
            .get()
            .and_then(|object| object.metadata.get());
        metadata.is_some_and(|metadata| metadata.deletion_timestamp != Loose::Absent)
    }

    /// The slice that is stored.
    #[must_use]
    pub fn stored(&self) -> Option<&EndpointSlice<Text<'a>>> {
        self.old_object.slice.get()
    }

    /// See [`SentSlice::idle`].
    #[must_use]
    pub fn idle(&self) -> Option<Idle<'a>> {
        self.object.idle(&self.old_object)
    }
}

/// The answer that allows the request, with a JSON patch (RFC 6902) and warnings where there are any.
#[must_use]
pub fn allow(request: &Request<'_>, patch: Option<&[u8]>, warnings: &[String]) -> Vec<u8> {
    let length = patch.map_or(0, |patch| patch.len().div_ceil(3) * 4);
    let mut answer = begin(request, length);
    answer.extend_from_slice(br#","allowed":true"#);
    if let Some(patch) = patch {
        answer.extend_from_slice(br#","patchType":"JSONPatch","patch":""#);
        let start = answer.len();
        answer.resize(start + length, 0);
        BASE64
            .encode_slice(patch, &mut answer[start..])
            .expect("base64 has four bytes for each three");
        answer.push(b'"');
    }
    end(answer, warnings)
}

/// The answer that refuses the request, with a sentence and warnings where there are any.
#[must_use]
pub fn deny(request: &Request<'_>, message: &str, warnings: &[String]) -> Vec<u8> {
    let mut answer = begin(request, message.len());
    let refused = br#","allowed":false,"status":{"code":403,"reason":"Forbidden","message":"#;
    answer.extend_from_slice(refused);
    json::write_string(&mut answer, message);
    answer.push(b'}');
    end(answer, warnings)
}

/// An answer up to what it says, with room for so many bytes of that.
fn begin(request: &Request<'_>, length: usize) -> Vec<u8> {
    const ROOM: usize = 256;
    let mut answer = Vec::with_capacity(ROOM + length);
    answer.extend_from_slice(br#"{"apiVersion":"#);
    json::write_string(&mut answer, request.api_version());
    answer.extend_from_slice(br#","kind":"AdmissionReview","response":{"uid":"#);
    json::write_string(&mut answer, request.uid());
    answer
}

fn end(mut answer: Vec<u8>, warnings: &[String]) -> Vec<u8> {
    if !warnings.is_empty() {
        answer.extend_from_slice(br#","warnings":"#);
        for (place, warning) in warnings.iter().enumerate() {
            answer.push(if place == 0 { b'[' } else { b',' });
            json::write_string(&mut answer, warning);
        }
        answer.push(b']');
    }
    answer.extend_from_slice(b"}}");
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(body: &str) -> String {
        parse(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_review_is_told_so() {
        assert!(sentence("{").starts_with("the body is no AdmissionReview: EOF"));
        assert!(sentence("[]").ends_with("it is not an object at line 1 column 1"));
        assert!(sentence("{}").contains("no request"));
        assert!(sentence(r#"{"request":null}"#).contains("no request"));
        assert!(sentence(r#"{"request":{"operation":"CREATE"}}"#).contains("no uid"));
        assert!(sentence(r#"{"request":{"uid":null}}"#).contains("no uid"));
    }

    #[test]
    fn a_field_of_another_type_is_named() {
        for (request, told) in [
            (
                r#"{"uid":7}"#,
                "request.uid is not a string at line 1 column 19",
            ),
            (r#"{"kind":[]}"#, "request.kind is not an object"),
            (
                r#"{"kind":{"group":1}}"#,
                "request.kind.group is not a string",
            ),
            (r#"{"operation":{}}"#, "request.operation is not a string"),
            (r#"{"dryRun":"yes"}"#, "request.dryRun is not true or false"),
            ("7", "request is not an object"),
        ] {
            let sentence = sentence(&format!(r#"{{"request":{request}}}"#));
            assert!(sentence.contains(told), "{sentence}");
        }
        let invalid = sentence(r#"{"request":{"uid":[01]}}"#);
        assert!(invalid.contains("invalid number"), "{invalid}");
    }

    #[test]
    fn no_sentence_repeats_the_body() {
        let long = "x".repeat(100_000);
        for body in [
            format!(r#"{{"request":{{"uid":["{long}"]}}}}"#),
            format!(r#"{{"request":"{long}"}}"#),
            format!(r#"{{"{long}":{long}}}"#),
            long.clone(),
            format!("\"{long}\""),
        ] {
            assert!(sentence(&body).len() < 200);
        }
    }

    #[test]
    fn of_a_key_that_stands_twice_the_last_counts() {
        let body = r#"{"request":{"uid":"1","uid":"2","dryRun":true,"dryRun":null,
            "object":{"addressType":"IPv4"},"object":{"addressType":"IPv6"}}}"#;
        let request = parse(body.as_bytes()).unwrap();
        assert_eq!(request.uid(), "2");
        assert!(!request.is_dry_run());
        let slice = request.object.slice.get().unwrap();
        assert_eq!(slice.address_type.text(), Some("IPv6"));
    }

    #[test]
    fn only_slices_that_are_written_are_slices() {
        let slice = |kind: &str, operation: &str| {
            let body = format!(
                r#"{{"request":{{"uid":"u","kind":{{"group":"discovery.k8s.io","version":"v1","kind":"{kind}"}},
                    "operation":"{operation}","object":{{"metadata":{{"name":"x"}}}}}}}}"#
            );
            parse(body.as_bytes()).unwrap().slice().is_some()
        };
        assert!(slice("EndpointSlice", "CREATE") && slice("EndpointSlice", "UPDATE"));
        assert!(!slice("Service", "CREATE") && !slice("EndpointSlice", "DELETE"));
    }

    #[test]
    fn an_answer_repeats_uid_and_version() {
        let answer = |body: &str, patch: Option<&[u8]>, warnings: &[&str]| -> serde_json::Value {
            let request = parse(body.as_bytes()).unwrap();
            let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
            serde_json::from_slice(&allow(&request, patch, &warnings)).unwrap()
        };
        assert_eq!(
            answer(r#"{"request":{"uid":"u\"\u00011"}}"#, Some(b"[]"), &[]),
            serde_json::json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": "u\"\u{1}1", "allowed": true, "patchType": "JSONPatch", "patch": "W10="}})
        );
        assert_eq!(
            answer(
                r#"{"apiVersion":"v9","request":{"uid":"é"}}"#,
                None,
                &["a \"b\"", "c"]
            ),
            serde_json::json!({"apiVersion": "v9", "kind": "AdmissionReview",
                "response": {"uid": "é", "allowed": true, "warnings": ["a \"b\"", "c"]}})
        );
    }

    #[test]
    fn a_refusal_says_why() {
        let request = parse(br#"{"request":{"uid":"1"}}"#).unwrap();
        let denied = deny(&request, "no \"x\"", &["and y".to_owned()]);
        let denied: serde_json::Value = serde_json::from_slice(&denied).unwrap();
        assert_eq!(
            denied["response"],
            serde_json::json!({"uid": "1", "allowed": false, "warnings": ["and y"],
                "status": {"code": 403, "reason": "Forbidden", "message": "no \"x\""}})
        );
    }

    #[test]
    fn texts_are_of_the_kind_that_is_wanted_and_of_no_part_of_one() {
        let written = |kind: &str, part: &str| {
            format!(
                r#"{{"request":{{"uid":"u","kind":{{"version":"v1","kind":"{kind}"}},"subResource":"{part}",
                    "operation":"UPDATE","namespace":"shop","object": {{"metadata":{{"name":"web"}}}} ,"oldObject":null}}}}"#
            )
        };
        let object = r#"{"metadata":{"name":"web"}}"#;
        for (kind, name) in [("Service", "shop/web"), ("Namespace", "web")] {
            let body = written(kind, "");
            let request = parse(body.as_bytes()).unwrap();
            assert_eq!(request.core(kind), Some([object, "null"]));
            assert_eq!(request.core("Pod"), None);
            assert_eq!(request.object_name(), name);
            let body = written(kind, "status");
            assert_eq!(parse(body.as_bytes()).unwrap().core(kind), None);
        }
    }
}
