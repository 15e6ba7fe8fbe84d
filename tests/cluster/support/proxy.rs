//! A TCP proxy that does what a Service does: new connections go to ready backends in turn, and those that are open
//! go on.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::Duration;

use super::replica::{Replica, is_ready};

/// A backend: where connections go and where its readiness is asked.
#[derive(Debug, Clone, Copy)]
struct Backend {
    webhook_port: u16,
    metrics_port: u16,
}

/// The proxy; it ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens, on loopback.
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    backends: RwLock<Vec<Backend>>,
    ready: RwLock<Vec<Backend>>,
    connections: AtomicUsize,
    /// Those to backends, with the backend's port.
    open: Mutex<Vec<(u16, TcpStream)>>,
    ended: AtomicBool,
}

impl Proxy {
    const PROBE_EVERY: Duration = Duration::from_millis(100);

    /// Balances over these replicas.
    #[must_use]
    pub fn over(replicas: &[&Replica]) -> Self {
        let shared = Arc::new(Shared::default());
        for replica in replicas {
            shared.add(replica);
        }
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a loopback port is free");
        let port = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        thread::spawn({
            let shared = shared.clone();
            move || {
                while !shared.ended.load(Ordering::Relaxed) {
                    thread::sleep(Self::PROBE_EVERY);
                    shared.probe();
                }
            }
        });
        thread::spawn({
            let shared = shared.clone();
            move || shared.accept(&listener)
        });
        Self { port, shared }
    }

    /// Balances over one more.
    pub fn add(&self, replica: &Replica) {
        self.shared.add(replica);
    }

    /// Loses the way to one: open connections break, and there are no new ones.
    pub fn lose(&self, replica: &Replica) {
        let is_lost = |port: u16| port == replica.webhook_port;
        let backends = [&self.shared.backends, &self.shared.ready];
        for list in backends {
            let mut list = list.write().expect("no thread panicked");
            list.retain(|backend| !is_lost(backend.webhook_port));
        }
        let mut open = self.shared.open.lock().expect("no thread panicked");
        for (_, connection) in open.extract_if(.., |(port, _)| is_lost(*port)) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// How many backends are ready.
    #[must_use]
    pub fn ready_backends(&self) -> usize {
        self.shared.ready.read().expect("no thread panicked").len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // The listener looks at the flag when somebody comes.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn add(&self, replica: &Replica) {
        let backend = Backend {
            webhook_port: replica.webhook_port,
            metrics_port: replica.metrics_port,
        };
        self.backends
            .write()
            .expect("no thread panicked")
            .push(backend);
        self.probe();
    }

    fn probe(&self) {
        let backends = self.backends.read().expect("no thread panicked").clone();
        let ready = backends
            .into_iter()
            .filter(|backend| is_ready(backend.metrics_port))
            .collect();
        *self.ready.write().expect("no thread panicked") = ready;
    }

    fn keep(&self, port: u16, server: &TcpStream) {
        if let Ok(server) = server.try_clone() {
            let mut open = self.open.lock().expect("no thread panicked");
            open.push((port, server));
        }
    }

    fn accept(&self, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            let turn = self.connections.fetch_add(1, Ordering::Relaxed);
            let ready = self.ready.read().expect("no thread panicked");
            // With nobody ready the connection is dropped, as the reject rule of a Service without endpoints does.
            let (Ok(client), false) = (client, ready.is_empty()) else {
                continue;
            };
            let port = ready[turn % ready.len()].webhook_port;
            if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                self.keep(port, &server);
                let _ = join(client, server);
            }
        }
    }
}

/// Copies both ways until both sides have ended.
fn join(client: TcpStream, server: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, from_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || copy(from_client, server));
    thread::spawn(move || copy(from_server, client));
    Ok(())
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
