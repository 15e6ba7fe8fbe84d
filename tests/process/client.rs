//! A client that sees every byte: whether an answer is its connection's last, and when a connection ends.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::ClientConfig;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConnection, ProtocolVersion, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;

use crate::wait::LONG_ENOUGH;

/// An HTTP answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(header, _)| header == name)
            .map(|(_, value)| value.as_str())
    }

    /// Whether it says that the connection ends with it.
    pub fn is_last(&self) -> bool {
        self.header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection to a server.
pub struct Connection {
    stream: Stream,
    unread: Vec<u8>,
}

/// How to speak TLS.
pub struct Tls {
    config: ClientConfig,
    name: ServerName<'static>,
}

impl Tls {
    /// Trusts the CA in a PEM file, and takes TLS 1.2 and 1.3.
    pub fn trusting(ca: &Path) -> Self {
        Self::with_versions(ca, rustls::ALL_VERSIONS)
    }

    /// The same with these versions alone.
    pub fn with_versions(ca: &Path, versions: &[&'static SupportedProtocolVersion]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(certificate_in(ca)).expect("a CA certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("the provider knows these versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            config,
            name: ServerName::try_from("localhost").unwrap(),
        }
    }

    /// Shows this certificate, and proves that it holds the key: a leaf and a key, PEM.
    pub fn showing(mut self, certificate: &str, key: &str) -> Self {
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = self.config.crypto_provider();
        let key = CertifiedKey::from_der(chain, key, provider).unwrap();
        self.config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(key));
        self
    }

    /// Offers these protocols by ALPN.
    pub fn offering(mut self, protocols: &[&str]) -> Self {
        self.config.alpn_protocols = protocols
            .iter()
            .map(|protocol| protocol.as_bytes().to_vec())
            .collect();
        self
    }

    /// Expects the server to have this name in its certificate.
    pub fn expecting(mut self, name: &str) -> Self {
        self.name = ServerName::try_from(name.to_owned()).unwrap();
        self
    }

    /// Connects and finishes the handshake.
    pub fn connect(&self, address: SocketAddr) -> io::Result<Connection> {
        let mut stream = tcp(address)?;
        let connection = ClientConnection::new(Arc::new(self.config.clone()), self.name.clone());
        let mut connection = connection.map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(Connection::over(Stream::Tls(Box::new(StreamOwned::new(
            connection, stream,
        )))))
    }
}

/// The first certificate of a PEM file.
pub fn certificate_in(file: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file).expect("a certificate in PEM")
}

fn tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG_ENOUGH))?;
    stream.set_write_timeout(Some(LONG_ENOUGH))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Connection {
    /// Connects without TLS.
    pub fn plain(address: SocketAddr) -> io::Result<Self> {
        tcp(address).map(|stream| Self::over(Stream::Plain(stream)))
    }

    fn over(stream: Stream) -> Self {
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// The version of TLS that was agreed on.
    pub fn tls_version(&self) -> Option<ProtocolVersion> {
        self.tls().protocol_version()
    }

    /// The protocol that was agreed on by ALPN.
    pub fn protocol(&self) -> Option<&str> {
        self.tls()
            .alpn_protocol()
            .map(|protocol| std::str::from_utf8(protocol).unwrap())
    }

    /// The certificate that the server showed.
    pub fn server_certificate(&self) -> CertificateDer<'static> {
        self.tls()
            .peer_certificates()
            .expect("the handshake is done")[0]
            .clone()
            .into_owned()
    }

    fn tls(&self) -> &ClientConnection {
        match &self.stream {
            Stream::Tls(stream) => &stream.conn,
            Stream::Plain(_) => panic!("a connection without TLS"),
        }
    }

    /// Takes little from the server before it is read.
    pub fn receive_little(&self) {
        socket2::SockRef::from(self.socket())
            .set_recv_buffer_size(4096)
            .unwrap();
    }

    /// Posts JSON as an API server does and waits for the answer.
    pub fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        self.send(&request(path, body));
        self.answer()
    }

    /// Gets and waits for the answer.
    pub fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        self.answer()
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes)
            .expect("the connection takes what is sent");
    }

    /// Sends bytes, which fails when the connection has ended.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    /// Waits for the next answer.
    pub fn answer(&mut self) -> Answer {
        self.next_answer()
            .expect("an answer, not the end of the connection")
    }

    /// Waits for the next answer; nothing when the connection ends instead.
    pub fn next_answer(&mut self) -> Option<Answer> {
        let head_ends = loop {
            if let Some(at) = find(&self.unread, b"\r\n\r\n") {
                break at;
            }
            if self.read_more() == 0 {
                assert!(
                    self.unread.is_empty(),
                    "ended amid a head: {:?}",
                    String::from_utf8_lossy(&self.unread)
                );
                return None;
            }
        };
        let head = String::from_utf8(self.unread[..head_ends].to_vec()).expect("a head is text");
        self.unread.drain(..head_ends + 4);
        let mut lines = head.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        let headers = lines.map(|line| line.split_once(':').expect("a header has a colon"));
        let mut answer = Answer {
            status: status.unwrap_or_else(|| panic!("no status line in {head:?}")),
            headers: headers
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .collect(),
            body: Vec::new(),
        };
        let length = answer.header("content-length");
        assert!(
            length.is_some() || answer.status < 200,
            "no Content-Length: {head:?}"
        );
        let length = length.map_or(0, |length| {
            length.parse().expect("Content-Length is a number")
        });
        while self.unread.len() < length {
            assert_ne!(self.read_more(), 0, "ended amid a body after {head:?}");
        }
        answer.body = self.unread.drain(..length).collect();
        Some(answer)
    }

    /// Waits for the end of the connection, before which nothing may come.
    pub fn expect_end(&mut self) {
        let count = self.read_more();
        assert_eq!(
            count,
            0,
            "the end was due, not {:?}",
            String::from_utf8_lossy(&self.unread)
        );
    }

    /// Sends bytes one at a time until all are gone or the connection ends; whether all are gone.
    pub fn trickle(&mut self, bytes: &[u8], pause: Duration) -> bool {
        for byte in bytes {
            if self.has_news(pause) || self.try_send(&[*byte]).is_err() {
                return false;
            }
        }
        true
    }

    /// Whether bytes or the end come within a time.
    pub fn has_news(&mut self, within: Duration) -> bool {
        self.socket().set_read_timeout(Some(within)).unwrap();
        let news = match self.try_read() {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                false
            }
            Ok(_) | Err(_) => true,
        };
        self.socket().set_read_timeout(Some(LONG_ENOUGH)).unwrap();
        news
    }

    fn socket(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => &stream.sock,
        }
    }

    fn try_read(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        loop {
            let read = match &mut self.stream {
                Stream::Plain(stream) => stream.read(&mut buffer),
                Stream::Tls(stream) => stream.read(&mut buffer),
            };
            match read {
                // Linux does not restart a read that has a timeout after an interruption.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(count) => {
                    self.unread.extend_from_slice(&buffer[..count]);
                    return Ok(count);
                }
            }
        }
    }

    /// Bytes that came; zero at the end, however it came about.
    fn read_more(&mut self) -> usize {
        match self.try_read() {
            Ok(count) => count,
            Err(error) => match error.kind() {
                ErrorKind::UnexpectedEof
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe => 0,
                _ => panic!("nothing came, not even the end: {error}"),
            },
        }
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// A request as an API server writes it.
pub fn request(path: &str, body: &[u8]) -> Vec<u8> {
    [head(path, body.len()).as_bytes(), body].concat()
}

/// The head of such a request.
pub fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: zonewise.zonewise.svc\r\nUser-Agent: kube-apiserver-admission\r\n\
         Content-Length: {length}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n\
         Accept-Encoding: gzip\r\n\r\n"
    )
}
