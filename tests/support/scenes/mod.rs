//! The scenes of tests/control_plane.rs. Each has a namespace of its own and asserts on what the API server stored.

pub mod capacity;
pub mod endpoints;
pub mod heuristics;
pub mod opt_in;
pub mod writes;

/// The CPUs of the zones while no scene has added a node.
const EQUAL: [u32; 3] = [4, 4, 4];

/// Nine pods, 4, 4 and 1 in the zones: of three equal zones each must get 3.
const UNEVEN_PODS: [(&str, usize); 3] = [("node-a", 4), ("node-b", 4), ("node-c", 1)];
