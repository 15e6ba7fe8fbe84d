//! A real Kubernetes control plane with zonewise in the way of its EndpointSlices.
//!
//! A [`plane::Plane`] is a control plane; a [`world::World`] has zonewise on one and registers the webhook; a
//! [`scene::Scene`] is a namespace in it, with short words for what tests do and see there.

pub mod audit;
pub mod control_plane;
#[path = "../../support/dice.rs"]
#[allow(dead_code, reason = "the tests of the library use the rest")]
pub mod dice;
pub mod endpoint;
#[path = "../../support/for_all.rs"]
#[allow(dead_code, reason = "the tests of the library use the rest")]
pub mod for_all;
#[path = "../../support/http.rs"]
pub mod http;
pub mod kube_proxy;
#[path = "../../support/leader.rs"]
#[allow(
    dead_code,
    reason = "the tests with a scripted API server use the rest"
)]
pub mod leader;
#[path = "../../support/metrics.rs"]
pub mod metrics;
pub mod objects;
pub mod plane;
#[path = "../../support/port.rs"]
#[allow(
    dead_code,
    reason = "the tests with a scripted API server use the rest"
)]
pub mod port;
#[path = "../../support/program.rs"]
pub mod program;
pub mod proxy;
pub mod replica;
pub mod scene;
pub mod slices;
#[path = "../../support/wait.rs"]
pub mod wait;
pub mod webhook;
pub mod world;
