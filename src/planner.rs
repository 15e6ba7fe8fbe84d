//! What is decided, and nothing else: no I/O, no async, no clock, no Kubernetes crate.
//!
//! One file a rule, each by the name that the rule has in the documentation:
//!
//! | file | rule |
//! |---|---|
//! | [`quantity`] | how much CPU a text such as `3920m` is |
//! | [`capacity`] | each zone's share of CPU, and which nodes keep it from being known |
//! | [`allocation`] | how many endpoints a zone needs under the overload threshold |
//! | [`auto`] | heuristic Auto: which zone gives endpoints to which |
//! | [`plan`] | from endpoints with zones to endpoints with hints |
//! | [`heuristic`] | which ways to plan there are |
//! | [`keep`] | plans that keep hints, and when they give way to fresh ones |
//! | [`guarantee`] | whether every zone has its minimum |
//! | [`counts`] | counts by zone, fractions |
//! | [`overlap`] | heuristic Overlap: endpoints that serve several zones |
//! | [`prefer_zone`] | heuristic PreferZone: own zones alone |
//! | [`kube_proxy`] | what kube-proxy in a zone does with the hints |
//! | [`reason`] | why there are no hints, in a word and in a sentence |
//! | [`zoneless`] | ready endpoints of no known zone, why, and what to do |
//! | [`zone_set`] | the zones that one endpoint is hinted for |
//! | [`zone_weights`] | weights that a person gives zones |
//! | [`decimal`] | decimals as whole millionths |
//!
//! Zones are numbered in the order of their names, so every tie that goes "by name" is a tie by number here.

pub mod allocation;
pub mod auto;
pub mod capacity;
pub mod counts;
pub mod decimal;
pub mod guarantee;
pub mod heuristic;
pub mod keep;
pub mod kube_proxy;
pub mod overlap;
pub mod plan;
pub mod prefer_zone;
pub mod quantity;
pub mod reason;
pub mod zone_set;
pub mod zone_weights;
pub mod zoneless;
