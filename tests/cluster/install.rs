//! An installation from its first minute to its last: the chart by the real helm on the real control plane, and zonewise
//! in processes that have what the chart's pods have, with the permissions of the chart's ServiceAccounts.
//!
//! Only the kubelet is missing: KWOK plays it for the API server, and the test starts a process for each pod. Its arguments
//! and variables are the pod's; its addresses are on loopback, where the webhook configuration is told to call.
//!
//! Needs helm 4 (`make chart-tools`).

mod hangs;
mod helm_test;
mod hints;
mod installation;
mod life;
mod permissions;
mod pods;
mod site;

use std::time::Instant;

use crate::support::world::say;
use permissions::Account;
use site::Site;

#[test]
fn an_installation_lives_and_leaves_nothing() {
    crate::run(lives_and_leaves_nothing());
}

async fn lives_and_leaves_nothing() {
    let mut last = Instant::now();
    let mut done = |what: &str| {
        say(&format!("{what}: {:.1?}", last.elapsed()));
        last = Instant::now();
    };
    let mut site = Site::start().await;
    done("the control plane is there");
    installation::installs(&mut site).await;
    done("installed, and hints appear");
    let checker = helm_test::passes(&site).await;
    done("helm test passes");
    hangs::processes_stop_dead(&site).await;
    done("processes that were stopped dead cost no write, and all is mended");
    hangs::the_port_is_a_black_hole(&site).await;
    done("nor does a port that is a black hole");
    life::upgrades_and_rolls_back(&mut site).await;
    done("upgraded twice and rolled back");
    let zonewise = Account::read(&site, "zonewise").await;
    permissions::are_used_and_suffice(&site, &zonewise, &[], &[]);
    let (refusals, unused) = (&helm_test::NOT_LOOKED_AT, &helm_test::NO_CILIUM);
    permissions::are_used_and_suffice(&site, &checker, refusals, unused);
    done("permissions are used and suffice");
    life::is_off_and_on_again(&mut site).await;
    done("off, stripped and on again");
    life::is_uninstalled(&mut site).await;
    done("uninstalled");
}
