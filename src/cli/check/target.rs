//! Where the API server calls: a Service with its endpoints, or a URL.

use std::collections::HashSet;

use k8s_openapi::api::admissionregistration::v1::{ServiceReference, WebhookClientConfig};
use k8s_openapi::api::core::v1::Service;

use super::line::{Line, Thing};
use super::probe::Readyz;
use super::served::Address;
use crate::cli::api::{Api, Refusal, SLICES, collection};
use crate::cluster::slice::SERVICE_NAME_LABEL;
use crate::cluster::wire::EndpointSlice;
use crate::webhook::MUTATE_PATH;
use crate::words;

const PORT: i32 = 443;

/// Where the API server calls.
pub enum Target {
    Service(ServiceReference),
    Url(String),
    Nowhere,
}

impl Target {
    pub fn of(config: &WebhookClientConfig) -> Self {
        match (&config.service, &config.url) {
            (Some(service), _) => Self::Service(service.clone()),
            (None, Some(url)) => Self::Url(url.clone()),
            (None, None) => Self::Nowhere,
        }
    }

    /// The host and port to which TLS is spoken.
    pub fn address(&self) -> Option<Address> {
        match self {
            Self::Service(service) => {
                let port = u16::try_from(service.port.unwrap_or(PORT)).ok()?;
                Some((format!("{}.{}.svc", service.name, service.namespace), port))
            }
            Self::Url(url) => {
                let url: hyper::Uri = url.parse().ok()?;
                let host = url.host()?.trim_matches(['[', ']']).to_owned();
                Some((host, url.port_u16().unwrap_or(443)))
            }
            Self::Nowhere => None,
        }
    }

    /// The path that is asked for.
    pub fn path(&self) -> Option<String> {
        match self {
            Self::Service(service) => Some(service.path.as_deref().unwrap_or("/").to_owned()),
            Self::Url(url) => Some(url.parse::<hyper::Uri>().ok()?.path().to_owned()),
            Self::Nowhere => None,
        }
    }

    /// What is to be told, and whether there are ready endpoints, where that can be known.
    pub async fn look(&self, api: &Api) -> (Line, Option<bool>) {
        match self {
            Self::Service(service) => look_at_service(api, service).await,
            Self::Url(url) => {
                let message = format!("{url}; what is behind a URL only the probe tells");
                (Line::ok(Thing::Service, message), None)
            }
            Self::Nowhere => {
                let line = Line::failure(
                    Thing::Service,
                    "clientConfig has neither a service nor a url",
                    "apply the configuration of the chart or of docs/serving.md again",
                );
                (line, None)
            }
        }
    }

    /// Asks `/readyz` by way of the API server, which looks at no certificate then.
    pub async fn readyz(&self, api: &Api) -> Option<Readyz> {
        let Self::Service(service) = self else {
            return None;
        };
        let (name, namespace) = (&service.name, &service.namespace);
        let port = service.port.unwrap_or(PORT);
        let path =
            format!("/api/v1/namespaces/{namespace}/services/https:{name}:{port}/proxy/readyz");
        Some(match api.get_text(&path).await {
            Ok(_) => Readyz::Ready,
            Err(Refusal::Forbidden(_)) => Readyz::Forbidden,
            Err(refusal) => Readyz::of(&refusal.to_string()),
        })
    }
}

async fn look_at_service(api: &Api, reference: &ServiceReference) -> (Line, Option<bool>) {
    let (name, namespace) = (&reference.name, &reference.namespace);
    let there = format!("{namespace}/{name}");
    let object = api
        .get::<Service>(&collection("/api/v1", Some(namespace), "services"), name)
        .await;
    let service = match object {
        Ok(service) => service,
        Err(Refusal::NotFound(_)) => {
            let line = Line::failure(
                Thing::Service,
                format!("the Service {there}, which the webhook configuration names, is not there"),
                "install the chart again, or give clientConfig.service the right name and namespace",
            );
            return (line, Some(false));
        }
        Err(refusal) => {
            let needs = format!("get the Service {name} in namespace {namespace}");
            return (Line::not_looked_at(Thing::Service, &refusal, &needs), None);
        }
    };
    if let Some(line) = misdirected(reference, &service, &there) {
        return (line, None);
    }
    match ready_endpoints(api, reference).await {
        Ok(0) => {
            let line = Line::failure(
                Thing::Service,
                format!("the Service {there} has no ready endpoint"),
                "see why the pods are not there or not ready: kubectl -n NAMESPACE get pods, and their log",
            );
            (line, Some(false))
        }
        Ok(ready) => {
            let ready = words::count(ready, "ready endpoint");
            let line = Line::ok(Thing::Service, format!("the Service {there} has {ready}"));
            (line, Some(true))
        }
        Err(refusal) => {
            let needs = format!("list endpointslices in namespace {namespace}");
            (Line::not_looked_at(Thing::Service, &refusal, &needs), None)
        }
    }
}

/// What is wrong with the port or path that is called.
fn misdirected(reference: &ServiceReference, service: &Service, there: &str) -> Option<Line> {
    let wanted = reference.port.unwrap_or(PORT);
    let ports = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten());
    let ports: Vec<i32> = ports.map(|port| port.port).collect();
    if !ports.contains(&wanted) {
        let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        return Some(Line::failure(
            Thing::Service,
            format!(
                "the webhook configuration calls port {wanted} of the Service {there}, which has {}",
                words::first(&ports)
            ),
            "give clientConfig.service.port the Service's port that leads to the webhook port",
        ));
    }
    let path = reference.path.as_deref().unwrap_or("/");
    (path != MUTATE_PATH).then(|| {
        Line::failure(
            Thing::Service,
            format!("the webhook configuration calls the path {path} of the Service {there}, where nobody answers"),
            "set clientConfig.service.path: /mutate",
        )
    })
}

async fn ready_endpoints(api: &Api, service: &ServiceReference) -> Result<usize, Refusal> {
    let path = collection(SLICES, Some(&service.namespace), "endpointslices");
    let labels = format!("{SERVICE_NAME_LABEL}={}", service.name);
    // A pod of two address families stands in two slices.
    let mut behind: HashSet<String> = HashSet::new();
    api.list(&path, Some(&labels), |slice: EndpointSlice<Box<str>>| {
        let endpoints = slice.endpoints.items().iter().filter_map(|e| e.get());
        let ready = endpoints.filter(|endpoint| endpoint.is_ready());
        behind.extend(ready.filter_map(|endpoint| {
            let uid = endpoint.target_ref.get().and_then(|t| t.uid.text());
            uid.or_else(|| endpoint.address()).map(str::to_owned)
        }));
    })
    .await?;
    Ok(behind.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::check::line::Status;

    #[test]
    fn the_address_is_what_the_certificate_must_name() {
        let address = |config| Target::of(&serde_json::from_value(config).unwrap()).address();
        let service = json!({"service": {"name": "zonewise", "namespace": "z"}});
        assert_eq!(address(service), Some(("zonewise.z.svc".into(), 443)));
        let url = |url: &str| address(json!({"url": url}));
        assert_eq!(url("https://h:8443/mutate"), Some(("h".into(), 8443)));
        assert_eq!(url("https://[::1]/mutate"), Some(("::1".into(), 443)));
        assert_eq!(address(json!({})), None);
    }

    #[test]
    fn a_wrong_port_or_path_is_told() {
        let service: Service =
            serde_json::from_value(json!({"spec": {"ports": [{"port": 443}]}})).unwrap();
        let told = |reference| {
            let reference = serde_json::from_value(reference).unwrap();
            misdirected(&reference, &service, "z/zonewise").map(|line| (line.status, line.message))
        };
        let good = json!({"name": "zonewise", "namespace": "z", "path": "/mutate"});
        assert_eq!(told(good), None);
        let (status, message) =
            told(json!({"name": "zonewise", "namespace": "z", "port": 8443})).unwrap();
        assert_eq!(status, Status::Failure);
        assert!(
            message.contains("calls port 8443") && message.ends_with("has 443"),
            "{message}"
        );
        let (_, message) = told(json!({"name": "zonewise", "namespace": "z"})).unwrap();
        assert!(message.contains("calls the path /"), "{message}");
    }
}
