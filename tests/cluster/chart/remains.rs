//! What there is of a release.

use std::collections::BTreeSet;

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{ApiGroup, Discovery, Scope, verbs};

use super::helm::Release;

/// Everything in its namespace, and what belongs to the cluster and names it.
pub async fn remains(client: &Client, release: &Release) -> BTreeSet<String> {
    let discovery = Discovery::new(client.clone())
        .run()
        .await
        .expect("the API server tells its kinds");
    let kinds = discovery.groups().flat_map(ApiGroup::recommended_resources);
    let mut remains = BTreeSet::new();
    for (resource, capabilities) in kinds {
        if !capabilities.supports_operation(verbs::LIST) {
            continue;
        }
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Namespaced => {
                Api::namespaced_with(client.clone(), &release.namespace, &resource)
            }
            Scope::Cluster => Api::all_with(client.clone(), &resource),
        };
        let found = api
            .list(&ListParams::default())
            .await
            .expect("objects are listed");
        let names = found
            .items
            .into_iter()
            .filter_map(|object| object.metadata.name);
        let ours = names.filter(|name| match capabilities.scope {
            Scope::Namespaced => true,
            Scope::Cluster => name.contains(&release.name),
        });
        remains.extend(ours.map(|name| format!("{} {name}", resource.kind)));
    }
    let always = ["ServiceAccount default", "ConfigMap kube-root-ca.crt"];
    remains.retain(|name| {
        !always.contains(&name.as_str())
            && !name.starts_with("Event ")
            && !name.starts_with("Namespace ")
    });
    remains
}
