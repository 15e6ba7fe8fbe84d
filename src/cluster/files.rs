//! Nodes, Namespaces, Services and EndpointSlices from files: YAML documents, `List`s or JSON.

mod follow;
mod form;
mod json;
mod kind;
mod names;
mod source;
mod yaml;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

pub use self::follow::{Signature, follow};
pub use self::form::{Form, NameField};
use self::source::{Source, expand, read_text};
use super::store::{Resource, StoreRules, Writer};
use super::wire::{EndpointSlice, Namespace, Node, Service};

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
    /// Something in it is neither YAML nor JSON, or no Kubernetes object.
    #[error("{}:{line}: document {document}: {problem}", shown(path))]
    Content {
        /// The file.
        path: PathBuf,
        /// The line, from 1; that of an object is its first.
        line: u64,
        /// The document, from 1.
        document: usize,
        /// What is wrong there.
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

/// The objects of some files, in whatever form they are kept.
#[derive(Debug, Clone)]
pub struct ObjectsAs<N, S, E> {
    /// Nodes.
    pub nodes: Vec<N>,
    /// Namespaces, which are never shown whole.
    pub namespaces: Vec<Namespace<Box<str>>>,
    /// Services.
    pub services: Vec<S>,
    /// EndpointSlices.
    pub slices: Vec<E>,
}

/// Objects as they stand in the files, so that slices can be shown whole; they take several times the files' memory.
pub type Objects = ObjectsAs<Value, Value, Value>;

/// What is used of the objects.
pub type LeanObjects = ObjectsAs<Node<Box<str>>, Service<Box<str>>, EndpointSlice<Box<str>>>;

impl<N, S, E> Default for ObjectsAs<N, S, E> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            namespaces: Vec::new(),
            services: Vec::new(),
            slices: Vec::new(),
        }
    }
}

impl<N, S, E> ObjectsAs<N, S, E>
where
    N: Form<Node<Box<str>>>,
    S: Form<Service<Box<str>>>,
    E: Form<EndpointSlice<Box<str>>>,
{
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
    /// [`FileError::Content`].
    pub fn add_text(&mut self, path: &Path, text: &str) -> Result<(), FileError> {
        let source = Source { path, text };
        if text.trim_start().starts_with('{') {
            json::add(self, &source)
        } else {
            yaml::add(self, &source)
        }
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
        for node in self.nodes.iter().filter_map(Form::typed) {
            writer.apply_node(&node, now);
        }
        for namespace in &self.namespaces {
            writer.apply_namespace(namespace);
        }
        for service in self.services.iter().filter_map(Form::typed) {
            writer.apply_service(&service);
        }
        for slice in self.slices.iter().filter_map(Form::typed) {
            writer.apply_slice(&slice);
        }
        for resource in Resource::ALL {
            writer.finish(resource, now);
        }
    }
}

/// An EndpointSlice read from a document; wire types take any JSON object.
#[must_use]
pub fn typed_slice(value: &Value) -> Option<EndpointSlice<Box<str>>> {
    EndpointSlice::deserialize(value).ok()
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

    fn fault(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn a_mistake_is_told_once_with_its_file_document_and_line() {
        let yaml = "kind: ConfigMap\n---\nkind: Node\nmetadata: {name: n1\n";
        let told = fault(yaml);
        assert!(told.starts_with("cluster.yaml:4: document 2: "), "{told}");
        assert!(!told.contains("line") && !told.contains("column"), "{told}");
        assert_eq!(
            fault(
                "{\"kind\":\"Node\",\n \"metadata\":{\"name\":\"n1\"}}\n{\"kind\":\n \"Node\",,}"
            ),
            "cluster.yaml:4: document 2: key must be a string"
        );
    }

    #[test]
    fn an_object_that_is_none_is_told_with_its_first_line() {
        let told = "a Node without metadata.name";
        for (text, place) in [
            ("kind: Node\n", "1: document 1"),
            ("# Nodes.\n---\n# None.\n---\nkind: Node\n", "5: document 2"),
            (
                "kind: List\nitems:\n- kind: ConfigMap\n- kind: Node\n",
                "4: document 1",
            ),
            (
                "kind: NodeList\nitems:\n- metadata: {name: n1}\n- metadata: {}\n",
                "4: document 1",
            ),
            (
                "{\"kind\":\"ConfigMap\"}\n{\"kind\":\"List\",\"items\":[\n{\"kind\":\"Node\"}]}",
                "3: document 2",
            ),
        ] {
            assert_eq!(
                fault(text),
                format!("cluster.yaml:{place}: {told}"),
                "{text}"
            );
        }
        let no_object = "it is no Kubernetes object";
        assert_eq!(
            fault("kind: List\nitems:\n- x\n"),
            format!("cluster.yaml:3: document 1: {no_object}")
        );
        assert_eq!(
            fault("{\"kind\":\"List\",\"items\":[\n1]}"),
            format!("cluster.yaml:2: document 1: {no_object}")
        );
        assert_eq!(
            fault("a: 1\n"),
            "cluster.yaml:1: document 1: it has no kind, so it is no Kubernetes object"
        );
    }

    #[test]
    fn names_that_no_api_server_takes_are_refused() {
        let refused = |field: &str, text: &str| {
            let told = fault(text);
            let wanted = format!("cluster.yaml:1: document 1: the {field}");
            assert!(told.starts_with(&wanted), "{told}");
        };
        refused(
            "Node's metadata.name is \"a/b\", which",
            "kind: Node\nmetadata: {name: a/b}\n",
        );
        refused(
            "Node's metadata.name is no text",
            "kind: Node\nmetadata: {name: 5}\n",
        );
        refused(
            "Node's metadata.name is \"a\\nb\", which",
            "kind: Node\nmetadata: {name: \"a\\nb\"}\n",
        );
        refused(
            "Service's metadata.name is \"a.b\", which",
            "kind: Service\nmetadata: {name: a.b}\n",
        );
        refused(
            "Service's metadata.namespace is \"A\", which",
            "kind: Service\nmetadata: {name: a, namespace: A}\n",
        );
        refused(
            "EndpointSlice's label kubernetes.io/service-name is \"a/b\", which",
            "kind: EndpointSlice\nmetadata: {name: a, labels: {kubernetes.io/service-name: a/b}}\n",
        );
        assert!(read("kind: Node\nmetadata: {name: ip-10-0-0-1.eu-1.compute.internal}\n").is_ok());
    }

    #[test]
    fn an_object_without_a_namespace_is_in_the_one_called_default() {
        for namespace in ["", ", namespace: null", ", namespace: ''"] {
            let text = format!("kind: Service\nmetadata: {{name: web{namespace}}}\n");
            let cluster = read(&text)
                .unwrap()
                .load(StoreRules::default(), Timestamp::now())
                .cluster();
            assert_eq!(cluster.service_names(), ["default/web".into()], "{text}");
        }
    }

    #[test]
    fn whole_and_lean_objects_make_the_same_cluster() {
        let text = include_str!("../../examples/cluster.yaml");
        let mut whole = Objects::default();
        whole.add_text(Path::new("x"), text).unwrap();
        let mut lean = LeanObjects::default();
        lean.add_text(Path::new("x"), text).unwrap();
        let items = [&whole.nodes[..], &whole.services, &whole.slices].concat();
        let json = serde_json::json!({"items": items, "kind": "List"});
        let mut from_json = LeanObjects::default();
        from_json
            .add_text(Path::new("x"), &json.to_string())
            .unwrap();
        let known = |writer: Writer| {
            let cluster = writer.cluster();
            let names = cluster.service_names();
            let services: Vec<_> = names
                .iter()
                .map(|name| cluster.service(name).unwrap())
                .map(|state| {
                    (
                        state.service.clone(),
                        state.slices.iter().cloned().collect::<Vec<_>>(),
                    )
                })
                .collect();
            (cluster.capacity().capacity.clone(), names, services)
        };
        let now = Timestamp::now();
        let expected = known(whole.load(StoreRules::default(), now));
        assert!(expected.1.len() > 1 && expected.0.zones.len() > 1);
        assert_eq!(known(lean.load(StoreRules::default(), now)), expected);
        assert_eq!(known(from_json.load(StoreRules::default(), now)), expected);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Objects::read(&["no/such/file.yaml"])
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("no/such/file.yaml: "), "{error}");
    }
}
