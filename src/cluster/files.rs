//! Nodes, Services and EndpointSlices from files: YAML documents, `List`s or JSON.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use super::store::{Resource, StoreRules, Writer};
use super::wire::{EndpointSlice, Node, Service};
use crate::file_watch::FileWatch;

/// The name that stands for standard input.
pub const STANDARD_INPUT: &str = "-";

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It can't be read.
    #[error("{}: {source}", shown(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is neither YAML nor JSON.
    #[error("{}:{line}: {problem}", shown(path))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong there.
        problem: String,
    },
    /// A document is no Kubernetes object.
    #[error("{}: document {document}: {problem}", shown(path))]
    Object {
        /// The file.
        path: PathBuf,
        /// The document, from 1.
        document: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Nothing of use is in any of them.
    #[error("{files}: no Node, Service or EndpointSlice in there")]
    Empty {
        /// The files, with commas.
        files: String,
    },
}

fn shown(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) {
        return "standard input".to_owned();
    }
    path.display().to_string()
}

/// The objects of some files, as they stand there.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// Nodes.
    pub nodes: Vec<Value>,
    /// Services.
    pub services: Vec<Value>,
    /// EndpointSlices.
    pub slices: Vec<Value>,
}

impl Objects {
    /// Reads files, folders (their `.yaml`, `.yml` and `.json` files, by name) and standard input (`-`).
    ///
    /// # Errors
    /// [`FileError`], which names the file and the place in it.
    pub fn read<P: AsRef<Path>>(paths: &[P]) -> Result<Self, FileError> {
        let mut objects = Self::default();
        for path in paths {
            for file in expand(path.as_ref())? {
                let text = read_text(&file)?;
                objects.add_text(&file, &text)?;
            }
        }
        if objects.nodes.is_empty() && objects.services.is_empty() && objects.slices.is_empty() {
            let files: Vec<String> = paths.iter().map(|path| shown(path.as_ref())).collect();
            return Err(FileError::Empty {
                files: files.join(", "),
            });
        }
        Ok(objects)
    }

    /// Adds the objects of a text; `path` is for messages.
    ///
    /// # Errors
    /// [`FileError::Syntax`] and [`FileError::Object`].
    pub fn add_text(&mut self, path: &Path, text: &str) -> Result<(), FileError> {
        for (document, value) in parse(path, text)?.into_iter().enumerate() {
            self.add(value).map_err(|problem| FileError::Object {
                path: path.to_owned(),
                document: document + 1,
                problem,
            })?;
        }
        Ok(())
    }

    fn add(&mut self, value: Value) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        let kind = value.get("kind").and_then(Value::as_str);
        let Some(kind) = kind else {
            return Err("it has no kind, so it is no Kubernetes object".into());
        };
        let version = value.get("apiVersion").and_then(Value::as_str);
        // Others have kinds of these names too, such as serving.knative.dev/v1 Services.
        let ours = match kind {
            "Node" | "Service" => version.is_none_or(|version| version == "v1"),
            "EndpointSlice" => version.is_none_or(|version| version == "discovery.k8s.io/v1"),
            _ => true,
        };
        match kind {
            _ if !ours => {}
            "Node" => self.nodes.push(named(value)?),
            "Service" => self.services.push(with_namespace(named(value)?)),
            "EndpointSlice" => self.slices.push(with_namespace(named(value)?)),
            _ if kind.ends_with("List") => {
                let Some(items) = value.get("items").and_then(Value::as_array) else {
                    return Err(format!("a {kind} without a list of items"));
                };
                let item_kind = kind.strip_suffix("List").unwrap_or_default();
                for item in items {
                    self.add(with_kind(item.clone(), item_kind))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A writer whose cluster holds these objects and nothing else.
    #[must_use]
    pub fn load(&self, rules: StoreRules, now: Timestamp) -> Writer {
        let mut writer = Writer::new(rules);
        self.apply(&mut writer, now);
        writer
    }

    /// Makes a cluster hold these objects and nothing else.
    pub fn apply(&self, writer: &mut Writer, now: Timestamp) {
        for resource in Resource::ALL {
            writer.begin(resource);
        }
        for node in self.nodes.iter().filter_map(typed_node) {
            writer.apply_node(&node, now);
        }
        for service in self.services.iter().filter_map(typed_service) {
            writer.apply_service(&service);
        }
        for slice in self.slices.iter().filter_map(typed_slice) {
            writer.apply_slice(&slice);
        }
        for resource in Resource::ALL {
            writer.finish(resource, now);
        }
    }
}

/// Takes in files again whenever they change, for as long as the process lives. What can't be read changes nothing.
pub async fn follow(paths: Vec<PathBuf>, read: Signature, mut writer: Writer) {
    let mut watch = FileWatch::new(&paths);
    let mut seen = read;
    loop {
        let now = Timestamp::now();
        let due = writer
            .settle(now)
            .and_then(|at| Duration::try_from(at.duration_since(now)).ok());
        // Files may be large, or pipes that wait for their writer: no request waits with them.
        let (from, before) = (paths.clone(), seen.clone());
        let again = tokio::task::spawn_blocking(move || take_in_changes(&from, before, writer));
        match again.await {
            Ok((back, now_seen)) => (writer, seen) = (back, now_seen),
            Err(error) => return tracing::error!(%error, "reading the files failed"),
        }
        tokio::select! {
            () = watch.changed() => {}
            () = tokio::time::sleep(due.unwrap_or(Duration::from_hours(1))) => {}
        }
    }
}

fn take_in_changes(paths: &[PathBuf], seen: Signature, mut writer: Writer) -> (Writer, Signature) {
    let now_there = Signature::of(paths);
    if now_there == seen {
        return (writer, seen);
    }
    match Objects::read(paths) {
        Ok(objects) => {
            objects.apply(&mut writer, Timestamp::now());
            tracing::info!("the files are read again");
        }
        Err(error) => {
            tracing::warn!(%error, "the files can't be read; what they said before stays");
        }
    }
    (writer, now_there)
}

/// What tells a changed file without reading it: its inode, length and time of change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature(Vec<(PathBuf, Option<FileState>)>);

/// Inode, length, and time of change in seconds and nanoseconds.
type FileState = (u64, u64, i64, i64);

impl Signature {
    /// That of the files that are there now.
    #[must_use]
    pub fn of(paths: &[PathBuf]) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let files = paths
            .iter()
            .flat_map(|path| expand(path).unwrap_or_else(|_| vec![path.clone()]));
        let signature = |file: PathBuf| {
            let metadata = std::fs::metadata(&file).ok();
            let signature = metadata.map(|m| (m.ino(), m.len(), m.ctime(), m.ctime_nsec()));
            (file, signature)
        };
        Self(files.map(signature).collect())
    }
}

fn typed_node(value: &Value) -> Option<Node<Box<str>>> {
    Node::deserialize(value).ok()
}

fn typed_service(value: &Value) -> Option<Service<Box<str>>> {
    Service::deserialize(value).ok()
}

/// An EndpointSlice read from a document; wire types take any JSON object.
#[must_use]
pub fn typed_slice(value: &Value) -> Option<EndpointSlice<Box<str>>> {
    EndpointSlice::deserialize(value).ok()
}

fn named(value: Value) -> Result<Value, String> {
    let name = value
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if name.is_empty() {
        let kind = value
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default();
        return Err(format!("a {kind} without metadata.name"));
    }
    Ok(value)
}

/// As the API server does for a client without a namespace of its own.
fn with_namespace(mut value: Value) -> Value {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata
            .entry("namespace")
            .or_insert_with(|| "default".into());
    }
    value
}

/// Items of a typed list, such as a `NodeList`, need not say their kind.
fn with_kind(mut value: Value, kind: &str) -> Value {
    if let (Some(object), false) = (value.as_object_mut(), kind.is_empty()) {
        object.entry("kind").or_insert_with(|| kind.into());
    }
    value
}

fn expand(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let error = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    if path == Path::new(STANDARD_INPUT) || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(error)? {
        let file = entry.map_err(error)?.path();
        let extension = file
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        if matches!(extension, "yaml" | "yml" | "json") && file.is_file() {
            files.push(file);
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn read_text(path: &Path) -> Result<String, FileError> {
    let error = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    if path == Path::new(STANDARD_INPUT) {
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(error)?;
    } else {
        bytes = std::fs::read(path).map_err(error)?;
    }
    String::from_utf8(bytes).map_err(|invalid| {
        let before = &invalid.as_bytes()[..invalid.utf8_error().valid_up_to()];
        let line = before.split(|&byte| byte == b'\n').count() as u64;
        FileError::Syntax {
            path: path.to_owned(),
            line,
            problem: "not UTF-8 text".into(),
        }
    })
}

fn parse(path: &Path, text: &str) -> Result<Vec<Value>, FileError> {
    let syntax = |line, problem| FileError::Syntax {
        path: path.to_owned(),
        line,
        problem,
    };
    if text.trim_start().starts_with('{') {
        let documents = serde_json::Deserializer::from_str(text)
            .into_iter()
            .collect::<Result<_, _>>();
        return documents
            .map_err(|error: serde_json::Error| syntax(error.line() as u64, error.to_string()));
    }
    serde_saphyr::from_multiple_with_options(text, yaml_options()).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        syntax(line, error.to_string())
    })
}

/// Files come from the user's own hand, and a large cluster has more nodes than the library's defaults allow. Limits on
/// aliases stay: no list of objects needs many.
fn yaml_options() -> serde_saphyr::Options {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Objects, FileError> {
        let mut objects = Objects::default();
        objects
            .add_text(Path::new("cluster.yaml"), text)
            .map(|()| objects)
    }

    #[test]
    fn yaml_documents_lists_and_json_are_the_same() {
        let node = "kind: Node\nmetadata: {name: n1}\n";
        assert_eq!(read(&format!("{node}---\n{node}")).unwrap().nodes.len(), 2);
        assert_eq!(
            read("kind: List\nitems:\n- {kind: Node, metadata: {name: n1}}\n")
                .unwrap()
                .nodes
                .len(),
            1
        );
        assert_eq!(
            read("kind: NodeList\nitems:\n- {metadata: {name: n1}}\n")
                .unwrap()
                .nodes
                .len(),
            1
        );
        assert_eq!(
            read(r#"{"kind":"Node","metadata":{"name":"n1"}}"#)
                .unwrap()
                .nodes
                .len(),
            1
        );
        assert_eq!(
            read("---\n# nothing\n---\nkind: ConfigMap\n")
                .unwrap()
                .nodes
                .len(),
            0
        );
    }

    #[test]
    fn kinds_of_other_groups_are_passed_over() {
        let core = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n";
        let knative = "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: web}\n";
        let objects = read(&format!("{core}---\n{knative}")).unwrap();
        assert_eq!(objects.services.len(), 1);
        assert_eq!(objects.services[0]["apiVersion"], "v1");
    }

    #[test]
    fn a_mistake_is_told_with_its_file_and_line() {
        let error = read("kind: Node\nmetadata: {name: n1\n")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cluster.yaml:"), "{error}");
        let error = read("{\"kind\":\n \"Node\",,}").unwrap_err().to_string();
        assert!(error.starts_with("cluster.yaml:2:"), "{error}");
        let error = read("kind: Node\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "cluster.yaml: document 1: a Node without metadata.name"
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Objects::read(&["no/such/file.yaml"])
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("no/such/file.yaml: "), "{error}");
    }
}
