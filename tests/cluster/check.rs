//! `zonewise check` and `zonewise strip`: what they report of a zonewise that works and of one that does not, and what is stored
//! afterwards. Each scene has a control plane of its own, since `check` reads the whole cluster.

mod checks;
mod command;
mod strips;

use futures::future::LocalBoxFuture;

use crate::support::world::World;

scenes![play:
    checks::check_finds_all_is_well,
    checks::check_names_a_node_without_a_zone,
    checks::check_names_missing_permissions,
    checks::check_explains_selectors,
    checks::check_refuses_failure_policy_fail,
    checks::check_sees_a_service_without_endpoints,
    checks::check_sees_another_ca,
    checks::check_sees_that_nobody_listens,
    checks::check_sees_no_configuration,
    checks::check_without_a_cluster,
    strips::strip_while_active,
    strips::strip_once_off,
    strips::strip_beside_other_writers,
    strips::strip_of_services_that_change,
    strips::strip_of_what_can_not_be_written,
];

fn play(_: &str, scene: for<'a> fn(&'a World) -> LocalBoxFuture<'a, ()>) {
    crate::run(async { scene(&World::start().await).await });
}
