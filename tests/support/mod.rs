//! A real Kubernetes control plane with zonewise in the way of its EndpointSlices.
//!
//! [`world::World`] starts both and registers the webhook; a [`scene::Scene`] is a namespace in it, with short words for
//! what tests do and see there.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod audit;
pub mod control_plane;
pub mod endpoint;
pub mod for_all;
pub mod http;
pub mod kube_proxy;
pub mod leader;
pub mod metrics;
pub mod objects;
pub mod port;
pub mod program;
pub mod proxy;
pub mod replica;
pub mod scene;
pub mod slices;
pub mod wait;
pub mod webhook;
pub mod world;
