//! Certificates that renew themselves: replicas of the binary with the permissions that the documentation states and no
//! other. Each scene has a namespace, a service account and webhook configurations of its own.

mod beginning;
mod bundles;
mod clients;
mod healing;
mod load;
mod rotation;
mod stage;

use futures::future::LocalBoxFuture;

use stage::Stage;

scenes![play:
    beginning::five_replicas_make_one_secret,
    beginning::a_replica_waits_until_it_is_trusted,
    beginning::other_names_get_another_certificate_of_the_same_ca,
    healing::the_secret_is_repaired_whatever_becomes_of_it,
    healing::everything_has_expired,
    healing::another_secret_takes_over_without_a_gap,
    bundles::ca_bundles_are_put_back,
    bundles::ca_bundles_are_put_back_less_and_less_often,
    bundles::ca_bundles_beside_files_are_only_read,
    rotation::rotations_under_load,
    rotation::files_swapped_under_load,
];

fn play(name: &str, scene: for<'s> fn(&'s Stage) -> LocalBoxFuture<'s, ()>) {
    crate::run(async {
        let stage = Stage::start(name).await;
        scene(&stage).await;
        assert_eq!(stage.refused(), Vec::<String>::new());
    });
}
