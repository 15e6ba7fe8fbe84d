//! Loopback ports that nobody else is given meanwhile.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

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
        let socket = bind(0);
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

    /// Where it is, as `serve` takes addresses.
    pub fn address(&self) -> String {
        format!("{}:{}", Ipv4Addr::LOCALHOST, self.number)
    }

    /// Listens.
    pub fn listen(&self) -> TcpListener {
        let socket = bind(self.number);
        socket.set_nonblocking(true).expect("a socket option");
        socket.listen(1024).expect("nobody else listens there");
        TcpListener::from_std(socket.into()).expect("a listener within a runtime")
    }
}

fn bind(port: u16) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("a socket option");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    socket
        .bind(&address.into())
        .expect("a loopback port is free");
    socket
}
