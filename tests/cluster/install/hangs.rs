//! A webhook that hangs.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use socket2::{Domain, Socket, Type};

use super::hints;
use super::site::Site;
use crate::support::slices;
use crate::support::wait::eventually;

/// The time-out of the chart's mutating webhook. Writes here have no hints, so they do not wait for the validating one.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The rest of a write, on a machine that has other things to do. The first write takes hints away and waits for both webhooks.
const SLACK: Duration = Duration::from_secs(2);

/// Both processes take connections and never answer.
pub async fn processes_stop_dead(site: &Site) {
    for replica in site.pods.running() {
        replica.signal("STOP");
    }
    let before = renewals(site).await;
    hints::add_pods(site, "near", "node-c", 3).await;
    let mut turn = 0;
    eventually("the API server renews its Lease meanwhile", async || {
        turn += 1;
        writes_go_by(site, turn).await;
        let now = renewals(site).await;
        (now != before).then_some(()).ok_or(now)
    })
    .await;
    eventually("the new endpoints are stored meanwhile", async || {
        let near = hints::slices_of(site, "near").await;
        let is_stored = slices::ready_count(&near) == 12;
        is_stored
            .then_some(())
            .ok_or_else(|| slices::describe(&near))
    })
    .await;
    for replica in site.pods.running() {
        replica.signal("CONT");
    }
    hints::is_in_order(site, [4, 4, 4]).await;
    for replica in site.pods.running() {
        replica.until_ready().await;
    }
}

/// Nobody answers at the port, not even to say that nobody is there.
pub async fn the_port_is_a_black_hole(site: &Site) {
    let hole = BlackHole::new();
    site.call(&format!("https://127.0.0.1:{}/mutate", hole.port))
        .await;
    // The API server hears of it a moment later.
    eventually("the webhook is away", async || {
        slices::unhinted(&[hints::write(site, 0).await])
    })
    .await;
    for turn in 1..=3 {
        writes_go_by(site, turn).await;
    }
    site.call(&site.url()).await;
    hints::is_in_order(site, [4, 4, 4]).await;
}

/// A write is stored in time, having waited for the webhook in vain.
async fn writes_go_by(site: &Site, turn: usize) {
    let started = Instant::now();
    let written = hints::write(site, turn).await;
    let took = started.elapsed();
    assert!(took < TIMEOUT + SLACK, "a write took {took:?}");
    assert!(
        took > TIMEOUT * 9 / 10,
        "the webhook does not hang: {took:?}"
    );
    assert_eq!(slices::unhinted(&[written]), Ok(()));
}

/// When the Leases of the control plane were renewed last.
async fn renewals(site: &Site) -> String {
    let leases: Api<Lease> = Api::namespaced(site.client.clone(), "kube-system");
    let leases = leases.list(&ListParams::default()).await;
    let leases = leases.expect("Leases are listed").items;
    assert!(!leases.is_empty(), "the API server has no Lease");
    let renewed = leases
        .into_iter()
        .map(|lease| lease.spec.and_then(|it| it.renew_time));
    format!("{:?}", renewed.collect::<Vec<_>>())
}

/// A port whose queue is full and whose owner never takes anybody out of it.
struct BlackHole {
    port: u16,
    _owner: Socket,
    _queue: Vec<Socket>,
}

impl BlackHole {
    fn new() -> Self {
        let owner = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        owner.bind(&any.into()).expect("a loopback port is free");
        owner.listen(0).expect("it listens");
        let address = owner.local_addr().expect("it has an address");
        let mut queue = Vec::new();
        // Linux takes one more than the queue is long.
        loop {
            let client = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            let connected = client.connect_timeout(&address, Duration::from_millis(300));
            queue.push(client);
            if connected.is_err() {
                break;
            }
        }
        let port = address.as_socket().expect("an IP address").port();
        Self {
            port,
            _owner: owner,
            _queue: queue,
        }
    }
}
