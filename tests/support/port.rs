//! Loopback ports that nobody else is given meanwhile.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

/// Longer than a copy of a listener lives: see [`Port::listen`].
const LONG_ENOUGH: Duration = Duration::from_secs(10);

/// A port of 127.0.0.1. While nobody listens, connections to it are refused.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Bound but not listening, so that the kernel gives the number to nobody else; Linux lets others bind it by number
    /// beside that.
    _reservation: Option<Socket>,
}

impl Port {
    /// A free one.
    pub fn reserve() -> Self {
        let socket = bind(0).expect("a loopback port is free");
        let address = socket.local_addr().expect("a bound socket has an address");
        let number = address.as_socket().expect("an IP address").port();
        Self {
            number,
            _reservation: cfg!(target_os = "linux").then_some(socket),
        }
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Listens.
    ///
    /// A process that another test starts holds a copy of every socket between fork and exec. Such a copy of an earlier
    /// listener keeps the port busy for a moment, so this retries.
    pub fn listen(&self) -> TcpListener {
        let started = Instant::now();
        let socket = loop {
            match bind(self.number) {
                Err(error)
                    if error.kind() == ErrorKind::AddrInUse && started.elapsed() < LONG_ENOUGH =>
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                bound => break bound.expect("the port is reserved"),
            }
        };
        socket.set_nonblocking(true).expect("a socket option");
        socket.listen(1024).expect("nobody else listens there");
        TcpListener::from_std(socket.into()).expect("a listener within a runtime")
    }
}

fn bind(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    socket.bind(&address.into())?;
    Ok(socket)
}
