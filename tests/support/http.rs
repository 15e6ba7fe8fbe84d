//! A GET over plain HTTP on loopback.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);

/// Status and body of `http://127.0.0.1:{port}{path}`. HTTP/1.0, so that the body ends with the connection.
pub fn get(port: u16, path: &str) -> Result<(u16, String), String> {
    let exchange = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = exchange().map_err(|error| format!("GET {path} from port {port}: {error}"))?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| format!("GET {path}: no head in {answer:?}"))?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Ok((
        status.ok_or_else(|| format!("GET {path}: no status in {head:?}"))?,
        body.to_owned(),
    ))
}
