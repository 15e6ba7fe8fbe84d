//! The controller of the binary: the leader resubmits slices that drifted, records Events, and writes nothing at rest. Each scene
//! has a control plane of its own, since metrics and Events count what is in the whole cluster.

mod ledger;
mod left_to_kubernetes;
mod nodes;
mod opt_out;
mod replicas;
mod rollout;
mod scale;
mod stage;
mod way;
mod webhook_gone;

scenes![
    scale::nodes_join_one_zone(),
    nodes::a_node_loses_its_zone(),
    nodes::new_nodes_and_a_freeze(),
    replicas::leaders_come_and_go(),
    webhook_gone::the_webhook_comes_back(),
    opt_out::an_opt_out_strips_all(),
    left_to_kubernetes::hints_do_not_outlive_the_opt_in(),
    rollout::a_rollout_is_left_alone(),
];
