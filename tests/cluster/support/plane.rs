//! Control planes: one that scenes share, and those that a scene has to itself.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, Weak};

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::Mutex;

use super::audit::AuditLog;
use super::control_plane::{ClientLimits, ControlPlane};
use super::world::create_first_nodes;

/// A value that tests have in common. It ends with the last test that uses it, as a static never does: processes would
/// outlive the tests.
pub struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(Mutex::const_new(Weak::new()))
    }

    /// The value, which is made if there is none.
    pub async fn get(&self, make: impl AsyncFnOnce() -> T) -> Arc<T> {
        let mut shared = self.0.lock().await;
        if let Some(value) = shared.upgrade() {
            return value;
        }
        let value = Arc::new(make().await);
        *shared = Arc::downgrade(&value);
        value
    }
}

/// A running control plane.
pub struct Plane {
    /// An administrator's client.
    pub client: Client,
    /// The API server's audit log.
    pub audit: AuditLog,
    running: ControlPlane,
}

impl Plane {
    /// The one that scenes share. It has the first six nodes, which no scene changes.
    pub async fn shared() -> Arc<Self> {
        static SHARED: Shared<Plane> = Shared::new();
        SHARED
            .get(async || {
                let plane = Self::start().await;
                create_first_nodes(&plane.client).await;
                plane
            })
            .await
    }

    /// Another one, with nothing in it.
    pub async fn start() -> Self {
        Self::start_with(ClientLimits::Usual, Vec::new()).await
    }

    /// The same with these client limits of the controllers and further arguments of the API server.
    pub async fn start_with(limits: ClientLimits, api_server: Vec<String>) -> Self {
        let start = move || ControlPlane::start(limits, &api_server);
        let control_plane = tokio::task::spawn_blocking(start).await;
        let control_plane = control_plane.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        Self {
            client: control_plane.client().await,
            audit: AuditLog::at(control_plane.ready.audit_log.clone()),
            running: control_plane,
        }
    }

    /// An administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.running.ready.kubeconfig
    }

    /// Writes a kubeconfig whose user impersonates `user`, for a process.
    pub fn impersonate(&self, user: &str, path: &Path) {
        let text = std::fs::read_to_string(self.kubeconfig()).expect("the kubeconfig can be read");
        let impersonating = format!("user: {{as: \"{user}\", token:");
        let changed = text.replace("user: {token:", &impersonating);
        assert_ne!(changed, text, "a kubeconfig with a token");
        std::fs::write(path, changed).expect("the kubeconfig can be written");
    }

    /// A client configuration that impersonates `user`, in these groups.
    pub async fn config_as(&self, user: &str, groups: &[&str]) -> kube::Config {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig());
        let kubeconfig = kubeconfig.expect("the kubeconfig can be read");
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.expect("the kubeconfig is complete");
        config.auth_info.impersonate = Some(user.to_owned());
        let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
        config.auth_info.impersonate_groups = (!groups.is_empty()).then_some(groups);
        config
    }
}
