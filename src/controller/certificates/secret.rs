//! The Secret, read and written by the API.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret as SecretKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{ApiResource, DynamicObject, GetParams, PostParams};
use serde_json::{Value, json};

use super::contents::Data;
use crate::controller::call::{Failed, call};
use crate::controller::owner;

/// Which Secret.
#[derive(Debug, Clone)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for SecretName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The Secret as it was read, whatever it holds.
#[derive(Debug, Clone)]
pub struct Secret(DynamicObject);

impl SecretName {
    fn requests(&self) -> kube::core::Request {
        kube::core::Request::new(format!("/api/v1/namespaces/{}/secrets", self.namespace))
    }

    /// Reads it; nothing where there is none.
    ///
    /// # Errors
    /// [`Failed`], but [`Failed::Absent`].
    pub async fn get(&self, client: &Client) -> Result<Option<Secret>, Failed> {
        let request = self.requests().get(&self.name, &GetParams::default());
        match call::<DynamicObject>(client, request).await {
            Ok(secret) => Ok(Some(Secret(secret))),
            Err(Failed::Absent) => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    /// Writes this in place of what was read, if it still is as it was then; makes the Secret where there was none.
    ///
    /// # Errors
    /// [`Failed::Conflict`] where somebody else wrote, made or deleted it meanwhile.
    pub async fn put(
        &self,
        client: &Client,
        read: Option<&Secret>,
        data: &Data,
        owner: Option<&OwnerReference>,
    ) -> Result<(), Failed> {
        let mut secret = read.map_or_else(|| self.empty(), |read| read.0.clone());
        let encode =
            |(key, value): (&String, &Vec<u8>)| (key.clone(), json!(STANDARD.encode(value)));
        secret.data["data"] = Value::Object(data.iter().map(encode).collect());
        if let Some(owner) = owner {
            owner::add_to(&mut secret.metadata, owner);
        }
        let bytes =
            serde_json::to_vec(&secret).map_err(|error| Failed::Other(error.to_string()))?;
        let parameters = PostParams::default();
        let request = match read {
            Some(_) => self.requests().replace(&self.name, &parameters, bytes),
            None => self.requests().create(&parameters, bytes),
        };
        match call::<DynamicObject>(client, request).await {
            Ok(_) => Ok(()),
            Err(Failed::Absent) if read.is_some() => Err(Failed::Conflict),
            Err(Failed::Absent) => Err(Failed::Other(format!(
                "see that the namespace {} is there (404)",
                self.namespace
            ))),
            Err(failed) => Err(failed),
        }
    }

    fn empty(&self) -> DynamicObject {
        let kind = ApiResource::erase::<SecretKind>(&());
        let secret = DynamicObject::new(&self.name, &kind).within(&self.namespace);
        secret.data(json!({"type": "Opaque"}))
    }
}

impl Secret {
    /// What it holds; what is no base64 is left out.
    #[must_use]
    pub fn data(&self) -> Data {
        let data = self.0.data["data"].as_object();
        let decode = |(key, value): (&String, &Value)| {
            let value = STANDARD.decode(value.as_str()?).ok()?;
            Some((key.clone(), value))
        };
        data.into_iter().flatten().filter_map(decode).collect()
    }

    /// Whether the API server refuses every change of what it holds.
    #[must_use]
    pub fn is_immutable(&self) -> bool {
        self.0.data["immutable"] == true
    }

    /// Whether it names this owner.
    #[must_use]
    pub fn is_owned_by(&self, owner: &OwnerReference) -> bool {
        owner::is_in(&self.0.metadata, owner)
    }
}
