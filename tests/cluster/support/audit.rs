//! The API server's audit log, as far as it tells of writes of EndpointSlices.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Mutex;

use serde::Deserialize;

const ENDPOINT_SLICE_CONTROLLER: &str =
    "system:serviceaccount:kube-system:endpointslice-controller";

/// A write of an EndpointSlice.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Write {
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    object_ref: ObjectRef,
    response_status: Status,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
struct User {
    username: String,
}

#[derive(Debug, Clone, Deserialize)]
struct ObjectRef {
    resource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Status {
    code: u16,
    #[serde(default)]
    message: String,
}

impl Write {
    /// Who wrote: the name alone of a service account that a test plays.
    #[must_use]
    pub fn by(&self) -> &str {
        let user = self.impersonated_user.as_ref().unwrap_or(&self.user);
        user.username.rsplit(':').next().unwrap_or_default()
    }

    /// The verb: `create`, `update`, `patch` or `delete`.
    #[must_use]
    pub fn verb(&self) -> &str {
        &self.verb
    }

    /// The slice, `namespace/name`.
    #[must_use]
    pub fn slice(&self) -> String {
        format!("{}/{}", self.object_ref.namespace, self.object_ref.name)
    }

    /// The status that the API server answered with.
    #[must_use]
    pub fn code(&self) -> u16 {
        self.response_status.code
    }

    /// Whether the API server refused it, but for a conflict and for an object that is gone: those belong to the
    /// controllers' daily work. A JSON patch of another version than the stored one is such a conflict.
    fn is_refused(&self) -> bool {
        let code = self.response_status.code;
        let is_other_version = self.verb == "patch" && code == 422;
        code >= 400 && code != 404 && code != 409 && !is_other_version
    }

    /// Which webhook the API server did without, as the audit log says it.
    fn failed_open(&self) -> Option<&str> {
        let mut annotations = self.annotations.iter();
        let found = annotations.find(|(key, _)| key.starts_with("failed-open."));
        found.map(|(_, value)| value.as_str())
    }

    /// What is wrong with it.
    fn fault(&self) -> Option<String> {
        let without = self.failed_open();
        let without = without.map(|webhook| format!("{self}, without {webhook}"));
        without.or_else(|| self.is_refused().then(|| self.to_string()))
    }

    /// Whether it is by the service account `zonewise` of another namespace.
    fn is_by_leader_beside(&self, namespace: &str) -> bool {
        let user = self.impersonated_user.as_ref().unwrap_or(&self.user);
        let account = user.username.strip_prefix("system:serviceaccount:");
        let account = account.and_then(|account| account.strip_suffix(":zonewise"));
        account.is_some_and(|account| account != namespace)
    }

    fn is_update_by_controller(&self, namespace: &str, name: &str) -> bool {
        self.verb == "update"
            && self.user.username == ENDPOINT_SLICE_CONTROLLER
            && self.object_ref.namespace == namespace
            && self.object_ref.name == name
            && self.response_status.code < 300
    }
}

impl std::fmt::Display for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            verb,
            user,
            object_ref,
            response_status,
            ..
        } = self;
        let (namespace, name) = (&object_ref.namespace, &object_ref.name);
        let (code, message) = (response_status.code, &response_status.message);
        write!(
            f,
            "{verb} of {namespace}/{name} by {}: {code} {message}",
            user.username
        )
    }
}

/// The log, read as far as it was written.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    read: Mutex<(u64, Vec<Write>)>,
}

impl AuditLog {
    /// Of a control plane.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self {
            path,
            read: Mutex::default(),
        }
    }

    /// How often the EndpointSlice controller updated a slice, whether or not that changed anything.
    #[must_use]
    pub fn updates_by_controller(&self, namespace: &str, slice: &str) -> usize {
        self.look(|writes| {
            writes
                .iter()
                .filter(|write| write.is_update_by_controller(namespace, slice))
                .count()
        })
    }

    /// What should never be, in a namespace or anywhere: writes that were refused and writes that went past the webhook. Leaders
    /// of other scenes do not count: they may resubmit a slice whose webhook its own scene stopped.
    #[must_use]
    pub fn faults(&self, namespace: Option<&str>) -> Vec<String> {
        self.look(|writes| {
            let ours = writes.iter().filter(|write| {
                namespace.is_none_or(|namespace| {
                    write.object_ref.namespace == namespace && !write.is_by_leader_beside(namespace)
                })
            });
            ours.filter_map(Write::fault).collect()
        })
    }

    /// All entries whose text has this part.
    pub fn entries_with(&self, part: &str) -> Vec<serde_json::Value> {
        let text = self.text();
        let lines = text.lines().filter(|line| line.contains(part));
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The whole log.
    pub fn text(&self) -> String {
        std::fs::read_to_string(&self.path).expect("the audit log is there")
    }

    /// The writes from the one numbered `mark` on.
    #[must_use]
    pub fn writes_from(&self, mark: usize) -> Vec<Write> {
        self.look(|writes| writes[mark..].to_vec())
    }

    /// How many writes there were.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.look(Vec::len)
    }

    fn look<T>(&self, at: impl FnOnce(&Vec<Write>) -> T) -> T {
        let mut read = self
            .read
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (place, writes) = &mut *read;
        let mut file = File::open(&self.path).expect("the audit log is there");
        file.seek(SeekFrom::Start(*place))
            .expect("the audit log only grows");
        let mut text = String::new();
        file.read_to_string(&mut text)
            .expect("the audit log is text");
        // The last line may still be on its way.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        writes.extend(text[..whole].lines().filter_map(slice_write));
        *place += whole as u64;
        at(writes)
    }
}

fn slice_write(line: &str) -> Option<Write> {
    if !line.contains(r#""resource":"endpointslices""#) {
        return None;
    }
    let write: Write = serde_json::from_str(line).ok()?;
    let is_write = ["create", "update", "patch", "delete"].contains(&write.verb.as_str());
    (is_write && write.object_ref.resource == "endpointslices").then_some(write)
}
