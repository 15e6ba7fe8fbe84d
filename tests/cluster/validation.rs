//! People who write wrong annotations and hints, before a real API server that calls zonewise: what they are warned of, what is
//! refused, and that programs never see any of it.

mod breaker;
mod conditions;
mod namespaces;
mod services;
mod slices;
mod stage;

use futures::future::LocalBoxFuture;

use crate::support::world::World;
use stage::Stage;

scenes![play:
    services::a_misspelt_annotation,
    services::a_service_that_gets_hints,
    services::a_misspelt_annotation_enforced,
    namespaces::a_wrong_annotation,
    namespaces::a_wrong_annotation_enforced,
    conditions::what_is_not_annotated_or_hinted_is_not_sent,
    slices::hints_by_hand_are_replaced,
    slices::a_partial_hint_where_zonewise_observes,
    slices::another_webhook_breaks_a_hint,
    slices::hints_by_hand_that_overload_enforced,
    slices::the_controller_is_not_asked_about_enforced,
    slices::a_replica_that_knows_nothing_yet,
];

fn play(name: &str, scene: for<'a> fn(&'a Stage<'a>) -> LocalBoxFuture<'a, ()>) {
    crate::run(async {
        let world = World::shared().await;
        let stage = Stage::set(&world, name).await;
        scene(&stage).await;
        assert_eq!(stage.failed_open().await, Vec::<String>::new());
    });
}
