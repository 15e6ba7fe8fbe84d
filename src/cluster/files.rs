//! Nodes, Services and EndpointSlices from files: YAML documents, `List`s or JSON.

use std::borrow::Cow;
use std::fmt;
use std::io::Read as _;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::loose::{Loose, Shape, Shaped};
use super::slice::SERVICE_NAME_LABEL;
use super::store::{Resource, StoreRules, Writer};
use super::wire::{EndpointSlice, Metadata, Node, Service, Wire};
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
            services: Vec::new(),
            slices: Vec::new(),
        }
    }
}

impl<N, S, E> ObjectsAs<N, S, E>
where
    N: Kept<Node<Box<str>>>,
    S: Kept<Service<Box<str>>>,
    E: Kept<EndpointSlice<Box<str>>>,
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
            self.add_json(&source)
        } else {
            self.add_yaml(&source)
        }
    }

    fn add_json(&mut self, source: &Source<'_>) -> Result<(), FileError> {
        let documents = serde_json::Deserializer::from_str(source.text).into_iter::<&RawValue>();
        for (before, object) in documents.enumerate() {
            let object = object.map_err(|error| source.no_json(before + 1, source.text, &error))?;
            self.add_raw(source, before + 1, object.get(), "")?;
        }
        Ok(())
    }

    /// Adds an object that stands in the source as JSON. An item of a typed list need not say its kind.
    fn add_raw(
        &mut self,
        source: &Source<'_>,
        document: usize,
        json: &str,
        kind_of_item: &str,
    ) -> Result<(), FileError> {
        let no_json = |error: serde_json::Error| source.no_json(document, json, &error);
        let fault = |problem| source.fault(source.line_of(json), document, problem);
        if json == "null" {
            return Ok(());
        }
        if !json.starts_with('{') {
            return Err(fault(NO_OBJECT.to_owned()));
        }
        let header: Header<'_> = serde_json::from_str(json).map_err(no_json)?;
        let kind = header.kind.text().unwrap_or(kind_of_item);
        match Role::of(kind, header.api_version.text()).map_err(fault)? {
            Role::Node => self
                .nodes
                .push(checked(serde_json::from_str(json).map_err(no_json)?).map_err(fault)?),
            Role::Service => self
                .services
                .push(checked(serde_json::from_str(json).map_err(no_json)?).map_err(fault)?),
            Role::Slice => self
                .slices
                .push(checked(serde_json::from_str(json).map_err(no_json)?).map_err(fault)?),
            Role::List => {
                let items = header
                    .items
                    .map(RawValue::get)
                    .filter(|items| items.starts_with('['));
                let items = items.ok_or_else(|| fault(without_items(kind)))?;
                let items: Vec<&RawValue> = serde_json::from_str(items).map_err(no_json)?;
                for item in items {
                    self.add_raw(source, document, item.get(), kind_of_items(kind))?;
                }
            }
            Role::Other => {}
        }
        Ok(())
    }

    fn add_yaml(&mut self, source: &Source<'_>) -> Result<(), FileError> {
        let documents: Vec<Spanned<Entry<N, S, E>>> =
            serde_saphyr::from_multiple_with_options(source.text, yaml_options())
                .map_err(|error| source.no_yaml(&error))?;
        documents
            .into_iter()
            .try_for_each(|document| self.add_entry(source, document, ""))
    }

    fn add_entry(
        &mut self,
        source: &Source<'_>,
        Spanned {
            value, referenced, ..
        }: Spanned<Entry<N, S, E>>,
        kind_of_item: &str,
    ) -> Result<(), FileError> {
        let line = referenced.line();
        let fault = |problem| source.fault(line, source.document_at(line), problem);
        let entry = match value {
            Entry::NoKind(object) => Entry::of(object, None, kind_of_item),
            entry => entry,
        };
        match entry {
            Entry::Node(node) => self.nodes.push(node),
            Entry::Service(service) => self.services.push(service),
            Entry::Slice(slice) => self.slices.push(slice),
            Entry::List(kind, items) => {
                for item in items {
                    self.add_entry(source, item, kind_of_items(&kind))?;
                }
            }
            Entry::Other => {}
            Entry::NoKind(_) => return Err(fault(NO_KIND.to_owned())),
            Entry::Fault(problem) => return Err(fault(problem)),
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
        for node in self.nodes.iter().filter_map(Kept::typed) {
            writer.apply_node(&node, now);
        }
        for service in self.services.iter().filter_map(Kept::typed) {
            writer.apply_service(&service);
        }
        for slice in self.slices.iter().filter_map(Kept::typed) {
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
    let mut seen = Seen {
        signature: read,
        told: None,
    };
    loop {
        let now = Timestamp::now();
        let due = writer
            .settle(now)
            .and_then(|at| Duration::try_from(at.duration_since(now)).ok());
        // Files may be large, or pipes that wait for their writer: no request waits with them.
        let from = paths.clone();
        let again = tokio::task::spawn_blocking(move || {
            seen.look_again(&from, LeanObjects::read, &mut writer);
            (seen, writer)
        });
        match again.await {
            Ok(back) => (seen, writer) = back,
            Err(error) => return tracing::error!(%error, "reading the files failed"),
        }
        tokio::select! {
            () = watch.changed() => {}
            () = tokio::time::sleep(due.unwrap_or(Duration::from_hours(1))) => {}
        }
    }
}

/// How the files were when they were last looked at.
#[derive(Debug)]
struct Seen {
    signature: Signature,
    /// The failure to read that was last told of, if they could not be read.
    told: Option<String>,
}

impl Seen {
    fn look_again(
        &mut self,
        paths: &[PathBuf],
        read: impl FnOnce(&[PathBuf]) -> Result<LeanObjects, FileError>,
        writer: &mut Writer,
    ) {
        let now_there = Signature::of(paths);
        if now_there == self.signature {
            self.told = None;
            return;
        }
        match read(paths) {
            Ok(objects) => {
                objects.apply(writer, Timestamp::now());
                tracing::info!("the files are read again");
                self.told = None;
            }
            Err(error) => {
                let told = self.told.replace(error.to_string());
                if told != self.told {
                    tracing::warn!(%error, "the files can't be read; what they said before stays");
                }
                // They may be the same when they can be read, so they have not been seen yet.
                if matches!(error, FileError::Read { .. }) {
                    return;
                }
            }
        }
        self.signature = now_there;
    }
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

/// An EndpointSlice read from a document; wire types take any JSON object.
#[must_use]
pub fn typed_slice(value: &Value) -> Option<EndpointSlice<Box<str>>> {
    EndpointSlice::deserialize(value).ok()
}

/// A form in which an object of type `W` is kept.
pub trait Kept<W: Wire + Clone>: DeserializeOwned {
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

impl<W: Wire + Clone + DeserializeOwned> Kept<W> for Value {
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

macro_rules! kept_as_is {
    ($($type:ident),*) => {$(
        impl Kept<Self> for $type<Box<str>> {
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

kept_as_is!(Node, Service, EndpointSlice);

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

/// As the API server does for a client without a namespace of its own.
const DEFAULT_NAMESPACE: &str = "default";

/// An object with the names that an API server would take, in a namespace if its kind is in one.
fn checked<W: Wire + Clone, K: Kept<W>>(mut object: K) -> Result<K, String> {
    let kind = W::KIND;
    let name = object.metadata_text(NameField::Name);
    if matches!(name, Loose::Absent | Loose::Value("")) {
        let article = if kind.starts_with('E') { "an" } else { "a" };
        return Err(format!("{article} {kind} without metadata.name"));
    }
    let is_name = if kind == "Service" {
        names::is_label
    } else {
        names::is_subdomain
    };
    names::check(kind, "metadata.name", &name, is_name)?;
    if kind != "Node" {
        match object.metadata_text(NameField::Namespace) {
            Loose::Absent | Loose::Value("") => object.put_in_default_namespace(),
            namespace => names::check(kind, "metadata.namespace", &namespace, names::is_label)?,
        }
    }
    let service = object.metadata_text(NameField::ServiceName);
    if let Loose::Value(_) = service {
        let field = format!("label {SERVICE_NAME_LABEL}");
        names::check(kind, &field, &service, names::is_label_value)?;
    }
    object.trim();
    Ok(object)
}

/// Names as API servers take them.
mod names {
    use super::Loose;

    pub fn check(
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
    pub fn is_label(name: &str) -> bool {
        name.len() <= 63 && is_part(name)
    }

    /// RFC 1123: labels with dots between them, of at most 253.
    pub fn is_subdomain(name: &str) -> bool {
        name.len() <= 253 && name.split('.').all(is_part)
    }

    /// The empty text, or letters and digits with hyphens, dots and underscores between them, of at most 63.
    pub fn is_label_value(value: &str) -> bool {
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
        !part.is_empty()
            && part.bytes().all(inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    }
}

const NO_OBJECT: &str = "it is no Kubernetes object";
const NO_KIND: &str = "it has no kind, so it is no Kubernetes object";

fn without_items(kind: &str) -> String {
    format!("a {kind} without a list of items")
}

fn kind_of_items(list: &str) -> &str {
    list.strip_suffix("List").unwrap_or_default()
}

/// What an object is to us.
#[derive(Debug, Clone, Copy)]
enum Role {
    Node,
    Service,
    Slice,
    List,
    Other,
}

impl Role {
    fn of(kind: &str, version: Option<&str>) -> Result<Self, String> {
        // Others have kinds of these names too, such as serving.knative.dev/v1 Services.
        let is = |ours: &str| version.is_none_or(|version| version == ours);
        Ok(match kind {
            "" => return Err(NO_KIND.to_owned()),
            "Node" if is("v1") => Self::Node,
            "Service" if is("v1") => Self::Service,
            "EndpointSlice" if is("discovery.k8s.io/v1") => Self::Slice,
            list if list.ends_with("List") => Self::List,
            _ => Self::Other,
        })
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

/// An object of a YAML document. Each is brought into its form as it comes, so that a long list is never there twice.
enum Entry<N, S, E> {
    Node(N),
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
    N: Kept<Node<Box<str>>>,
    S: Kept<Service<Box<str>>>,
    E: Kept<EndpointSlice<Box<str>>>,
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
        let role = Role::of(&kind, text("apiVersion").as_deref());
        let value = Value::Object(object);
        let entry = role.and_then(|role| {
            Ok(match role {
                Role::Node => Self::Node(kept(value)?),
                Role::Service => Self::Service(kept(value)?),
                Role::Slice => Self::Slice(kept(value)?),
                Role::List => match items {
                    Some(items) => Self::List(kind, items),
                    None => return Err(without_items(&kind)),
                },
                Role::Other => Self::Other,
            })
        });
        entry.unwrap_or_else(Self::Fault)
    }
}

fn kept<W: Wire + Clone, K: Kept<W>>(value: Value) -> Result<K, String> {
    checked(K::of(value).map_err(|error| error.to_string())?)
}

impl<'de, N, S, E> Deserialize<'de> for Entry<N, S, E>
where
    N: Kept<Node<Box<str>>>,
    S: Kept<Service<Box<str>>>,
    E: Kept<EndpointSlice<Box<str>>>,
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

/// A text and where it is from, for messages.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn fault(&self, line: u64, document: usize, problem: String) -> FileError {
        FileError::Content {
            path: self.path.to_owned(),
            line,
            document,
            problem,
        }
    }

    /// The fault that a parser found in `part` of the text.
    fn no_json(&self, document: usize, part: &str, error: &serde_json::Error) -> FileError {
        let line = self.line_of(part) + (error.line() as u64).saturating_sub(1);
        let position = format!(" at line {} column {}", error.line(), error.column());
        let told = error.to_string();
        let problem = told.strip_suffix(&position).unwrap_or(&told);
        self.fault(line, document, problem.to_owned())
    }

    fn no_yaml(&self, error: &serde_saphyr::Error) -> FileError {
        let (line, column) = error
            .location()
            .map_or((1, 1), |location| (location.line(), location.column()));
        let position = format!(" at line {line}, column {column}");
        let problem = error.to_string().replace(&position, "");
        self.fault(line, self.document_at(line), problem)
    }

    /// The line on which a part of the text begins.
    fn line_of(&self, part: &str) -> u64 {
        let before = part.as_ptr() as usize - self.text.as_ptr() as usize;
        let ends = self.text.as_bytes()[..before]
            .iter()
            .filter(|&&byte| byte == b'\n');
        ends.count() as u64 + 1
    }

    /// The number of the YAML document that a line is in.
    fn document_at(&self, line: u64) -> usize {
        let (mut document, mut begun) = (1, false);
        let lines = usize::try_from(line).unwrap_or(usize::MAX);
        for text in self.text.lines().take(lines) {
            if text == "---" || text.starts_with("--- ") {
                document += usize::from(begun);
                begun = true;
            } else if !text.trim_start().is_empty() && !text.starts_with(['#', '%']) {
                begun = true;
            }
        }
        document
    }
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
        let text = &String::from_utf8_lossy(before);
        let source = Source { path, text };
        source.fault(line, source.document_at(line), "not UTF-8 text".into())
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
    fn a_change_that_could_not_be_read_is_read_when_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("cluster.yaml")];
        std::fs::write(&paths[0], "kind: Service\nmetadata: {name: web}\n").unwrap();
        let mut writer = Writer::new(StoreRules::default());
        let mut seen = Seen {
            signature: Signature(Vec::new()),
            told: None,
        };
        for _ in 0..2 {
            let fails = |paths: &[PathBuf]| {
                Err(FileError::Read {
                    path: paths[0].clone(),
                    source: std::io::ErrorKind::Interrupted.into(),
                })
            };
            seen.look_again(&paths, fails, &mut writer);
            assert!(writer.cluster().service_names().is_empty());
        }
        seen.look_again(&paths, LeanObjects::read, &mut writer);
        assert_eq!(writer.cluster().service_names(), ["default/web".into()]);
        seen.look_again(&paths, |_| panic!("nothing changed"), &mut writer);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Objects::read(&["no/such/file.yaml"])
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("no/such/file.yaml: "), "{error}");
    }
}
