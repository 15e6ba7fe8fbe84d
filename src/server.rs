//! The webhook's HTTPS server and the plain HTTP server beside it.
//!
//! A listener accepts, a connection ([`connection`]) serves HTTP/1.1 within its time limits, [`routes`] answers within
//! limits on bytes, and [`drain`] brings all of it to an end without a request lost.

mod answer;
pub mod body;
pub mod clients;
pub mod connection;
pub mod descriptors;
pub mod drain;
pub mod request;
mod room;
pub mod routes;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt as _;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use self::clients::ClientCa;
use self::connection::Times;
use self::drain::{Drain, Phase};
use crate::telemetry::{Metrics, ServerLabels};

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time limits of each connection; its age is spread by up to a tenth either way.
    pub times: Times,
    /// Open connections at once.
    pub connections: usize,
}

/// Binds an address; `[::]` takes IPv4 too, and falls back to `0.0.0.0` where there is no IPv6.
///
/// # Errors
/// When the address can't be bound; the sentence names it.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = match try_bind(address) {
        Err(error)
            if address == SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, address.port()))
                && lacks_ipv6(&error) =>
        {
            try_bind(SocketAddr::from((
                std::net::Ipv4Addr::UNSPECIFIED,
                address.port(),
            )))
        }
        result => result,
    };
    listener.map_err(|error| {
        io::Error::new(error.kind(), format!("can't listen on {address}: {error}"))
    })
}

fn lacks_ipv6(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported
    ) || error.raw_os_error() == Some(EAFNOSUPPORT)
}

/// "Address family not supported by protocol" on Linux, for which std has no stable kind.
const EAFNOSUPPORT: i32 = 97;

fn try_bind(address: SocketAddr) -> io::Result<TcpListener> {
    const BACKLOG: i32 = 1024;
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::STREAM,
        None,
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// A server that is about to run.
#[derive(Debug)]
pub struct Server {
    /// What it is in metrics.
    pub name: &'static str,
    /// Where connections come from.
    pub listener: TcpListener,
    /// How they are encrypted; `None` for plain HTTP.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Who may ask, where that is not everybody.
    pub clients: Option<Arc<ClientCa>>,
    /// What answers.
    pub router: Router,
    /// Its limits.
    pub limits: Limits,
    /// When it ends.
    pub drain: Drain,
    /// Where it counts.
    pub metrics: Metrics,
}

impl Server {
    /// Serves until the drain closes and every connection has ended.
    pub async fn run(self) {
        let places = Arc::new(Semaphore::new(
            self.limits.connections.min(Semaphore::MAX_PERMITS),
        ));
        let acceptor = self.tls.clone().map(TlsAcceptor::from);
        let mut connections = JoinSet::new();
        let mut accepts = true;
        let mut closing = self.drain.phase();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = closing.wait_for(Phase::Closing) => break,
            };
            while connections.try_join_next().is_some() {}
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) if is_of_one_connection(&error) => continue,
                Err(error) => {
                    if std::mem::take(&mut accepts) {
                        tracing::warn!(server = self.name, %error, "can't accept connections for now");
                    }
                    // Out of file descriptors, most likely: trying at once would spin.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            accepts = true;
            let Ok(place) = places.clone().try_acquire_owned() else {
                self.metrics
                    .count_rejected_connection(self.name, "connections");
                continue;
            };
            let connection = self.connection(stream, acceptor.clone());
            connections.spawn(async move {
                connection.await;
                drop(place);
            });
        }
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }

    fn connection(
        &self,
        stream: TcpStream,
        acceptor: Option<TlsAcceptor>,
    ) -> impl Future<Output = ()> + use<> {
        let mut times = self.limits.times;
        times.age = spread(times.age);
        let (router, drain, metrics) = (
            self.router.clone(),
            self.drain.clone(),
            self.metrics.clone(),
        );
        let (name, clients) = (self.name, self.clients.clone());
        async move {
            // Answers are small and waited for.
            let _ = stream.set_nodelay(true);
            let _open = OpenConnection::count(&metrics, name);
            let overdue = |limit| metrics.count_rejected_connection(name, limit);
            let Some(acceptor) = acceptor else {
                return connection::serve(stream, router, times, drain, None, overdue).await;
            };
            let mut closing = drain.phase();
            let handshake = tokio::select! {
                handshake = tokio::time::timeout(times.first_request, acceptor.accept(stream)) => handshake,
                // A client that is still at its handshake when all ends has a second left.
                () = closing.wait_for(Phase::Closing).then(|()| tokio::time::sleep(Duration::from_secs(1))) => return,
            };
            match handshake {
                Ok(Ok(stream)) => {
                    let shown = stream.get_ref().1.peer_certificates();
                    let client = clients.map(|clients| clients.judge(shown));
                    connection::serve(stream, router, times, drain, client, overdue).await;
                }
                Ok(Err(error)) => {
                    metrics.handshake_errors.inc();
                    tracing::debug!(%error, "TLS handshake failed");
                }
                Err(_) => overdue("handshake-time"),
            }
        }
    }
}

/// Whether an error in accepting is about a connection that is gone, and says nothing of the next.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

/// Counts a connection for as long as it lives, however it ends.
struct OpenConnection(Gauge);

impl OpenConnection {
    fn count(metrics: &Metrics, server: &'static str) -> Self {
        let gauge = metrics
            .open_connections
            .get_or_create_owned(&ServerLabels { server });
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A duration within a tenth of `duration` either way, so that connections made together do not end together.
fn spread(duration: Duration) -> Duration {
    use std::hash::BuildHasher as _;
    // Each RandomState has keys of its own, which is randomness enough.
    let random = std::hash::RandomState::new().hash_one(0);
    let per_mille = u32::try_from(random % 201).unwrap_or(100);
    duration.saturating_mul(900 + per_mille) / 1000
}
