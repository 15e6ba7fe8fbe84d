//! The controller of the binary: slices that nobody writes are resubmitted, people are notified why, and at rest nothing is
//! written. Each scene has a control plane of its own, since metrics and events count what is in the whole cluster.

mod ledger;
mod nodes;
mod opt_out;
mod replicas;
mod rollout;
mod scale;
mod stage;
mod way;
mod webhook_gone;

use futures::future::LocalBoxFuture;

scenes![play:
    scale::nodes_join_one_zone,
    nodes::a_node_loses_its_zone,
    nodes::new_nodes_and_a_freeze,
    replicas::leaders_come_and_go,
    webhook_gone::the_webhook_comes_back,
    opt_out::an_opt_out_strips_all,
    rollout::a_rollout_is_left_alone,
];

fn play(_: &str, scene: fn(()) -> LocalBoxFuture<'static, ()>) {
    crate::run(scene(()));
}
