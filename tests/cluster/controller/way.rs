//! A way to the API server that can be cut.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// A TCP proxy on loopback.
#[derive(Debug)]
pub struct Way {
    /// Where it listens.
    pub port: u16,
    is_cut: Arc<AtomicBool>,
    connections: Arc<Mutex<JoinSet<()>>>,
    _accepting: AbortOnDropHandle<()>,
}

impl Way {
    /// One that leads to a port of loopback.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let own_port = listener.local_addr().expect("an address").port();
        let (is_cut, connections) = (Arc::default(), Arc::default());
        let accepting = accept(
            listener,
            port,
            Arc::clone(&is_cut),
            Arc::clone(&connections),
        );
        Self {
            port: own_port,
            is_cut,
            connections,
            _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)),
        }
    }

    /// Ends all connections; new ones are taken, and nothing ever comes of them.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        let mut connections = self.lock();
        connections.abort_all();
    }

    /// Lets new connections through again.
    pub fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
        self.lock().abort_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(
    listener: TcpListener,
    port: u16,
    is_cut: Arc<AtomicBool>,
    connections: Arc<Mutex<JoinSet<()>>>,
) {
    while let Ok((mut client, _)) = listener.accept().await {
        let is_cut = is_cut.clone();
        let connection = async move {
            if is_cut.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        };
        let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.spawn(connection);
    }
}
