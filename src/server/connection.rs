//! One connection: HTTP/1.1 with time limits on every stage of it.
//!
//! hyper's own read timeout runs on idle connections too, and a client that sends a request just as an idle connection
//! closes does not try again. So a connection is closed only with an answer that said `Connection: close`, when it has
//! been idle for longer than any API server keeps one, or when a request that has begun does not come to an end.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use hyper::body::Incoming;
use hyper::server::conn::http1::Connection;
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tower::ServiceExt as _;

use super::body::{LeftBody, ReturnedBody};
use super::clients::Client;
use super::drain::{Drain, Phase};

/// Time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// From being accepted to the end of the handshake, and from there to the first request.
    pub first_request: Duration,
    /// From the first byte of a request to the last of its answer.
    pub request: Duration,
    /// Between an answer and the next request. At least 120 s: Go's client keeps connections for 90.
    pub idle: Duration,
    /// After so long the next answer is the last.
    pub age: Duration,
}

/// Where a connection is between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has come yet.
    New,
    /// A request has begun.
    Busy,
    /// The answer has been handed over, but not yet written.
    Answered,
    /// The last answer is out.
    Idle,
}

/// The stage and when it began, shared by the stream, the service and the watchdog of one connection.
#[derive(Debug)]
struct Progress {
    born: Instant,
    /// Milliseconds since `born`, times four, plus the stage.
    packed: AtomicU64,
    last_answer: AtomicBool,
}

impl Progress {
    fn new() -> Self {
        Self {
            born: Instant::now(),
            packed: AtomicU64::new(Stage::New as u64),
            last_answer: AtomicBool::new(false),
        }
    }

    fn enter(&self, stage: Stage) {
        let since = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX / 4);
        self.packed
            .store(since * 4 + stage as u64, Ordering::Release);
    }

    fn stage(&self) -> (Stage, Duration) {
        let packed = self.packed.load(Ordering::Acquire);
        let stage = [Stage::New, Stage::Busy, Stage::Answered, Stage::Idle][(packed % 4) as usize];
        (
            stage,
            self.born
                .elapsed()
                .saturating_sub(Duration::from_millis(packed / 4)),
        )
    }

    fn bytes_came(&self) {
        if matches!(self.stage().0, Stage::New | Stage::Idle) {
            self.enter(Stage::Busy);
        }
    }

    /// A request's head is whole. Its clock began with its first byte, unless that came with the request before.
    fn request_came(&self) {
        if self.stage().0 != Stage::Busy {
            self.enter(Stage::Busy);
        }
    }

    /// Whether closing now may cut off a client that has only just connected.
    fn is_new(&self) -> bool {
        let (stage, since) = self.stage();
        stage == Stage::New && since < JUST_CONNECTED
    }

    fn bytes_went(&self) {
        if self.stage().0 == Stage::Answered {
            self.enter(Stage::Idle);
        }
    }

    /// [`Self::overdue`]; and the next answer of a connection that is old is its last.
    fn look_at_clock(&self, times: &Times) -> Option<&'static str> {
        if self.born.elapsed() > times.age {
            self.last_answer.store(true, Ordering::Release);
        }
        self.overdue(times)
    }

    /// The limit that has been passed, if any.
    fn overdue(&self, times: &Times) -> Option<&'static str> {
        let (stage, since) = self.stage();
        match stage {
            Stage::New if since > times.first_request => Some("first-request-time"),
            Stage::Busy | Stage::Answered if since > times.request => Some("request-time"),
            Stage::Idle if since > times.idle => Some("idle-time"),
            _ => None,
        }
    }
}

/// A stream that notes when bytes come and go.
struct Noted<S> {
    stream: S,
    progress: Arc<Progress>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.progress.bytes_came();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.progress.bytes_went();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// How often a connection's watchdog looks at it.
const TICK: Duration = Duration::from_millis(500);

/// Serves a connection until its end; `overdue` is told the time limit that ended it, if one did. Where clients have to
/// show a certificate, `client` says whether this one did.
pub async fn serve<S>(
    stream: S,
    router: Router,
    times: Times,
    drain: Drain,
    client: Option<Client>,
    overdue: impl FnOnce(&'static str),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let progress = Arc::new(Progress::new());
    let mut tick = tokio::time::interval(TICK);
    let mut phase = drain.phase();
    let mut closing = false;
    let stream = Noted {
        stream,
        progress: progress.clone(),
    };
    let connection = connection(stream, router, progress.clone(), drain, client);
    let mut connection = std::pin::pin!(connection);
    loop {
        tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            _ = tick.tick() => {
                if let Some(limit) = progress.look_at_clock(&times) {
                    return overdue(limit);
                }
            }
            () = phase.wait_for(Phase::Closing) => closing = true,
        }
        if closing && !progress.is_new() {
            // hyper finishes what has begun and closes the rest.
            connection.as_mut().graceful_shutdown();
        }
    }
}

type Answer = Result<axum::response::Response, Infallible>;

fn connection<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: Noted<S>,
    router: Router,
    progress: Arc<Progress>,
    drain: Drain,
    client: Option<Client>,
) -> Connection<
    TokioIo<Noted<S>>,
    impl HttpService<
        Incoming,
        ResBody = Body,
        Error = Infallible,
        Future = impl Future<Output = Answer>,
    >,
> {
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        if let Some(client) = &client {
            request.extensions_mut().insert(client.clone());
        }
        answer(request, router.clone(), progress.clone(), drain.clone())
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.header_read_timeout(None).max_buf_size(HEAD_BYTES);
    builder.serve_connection(TokioIo::new(stream), service)
}

/// In the last phase, a connection that is younger than this may still bring its first request.
const JUST_CONNECTED: Duration = Duration::from_secs(1);

/// The most bytes of a request's head.
const HEAD_BYTES: usize = 64 * 1024;

async fn answer(
    request: Request<Incoming>,
    router: Router,
    progress: Arc<Progress>,
    drain: Drain,
) -> Answer {
    progress.request_came();
    let left = LeftBody::default();
    let request = request.map(|body| Body::new(ReturnedBody::new(body, left.clone())));
    let mut response = router.oneshot(request).await?;
    let whole = left.discard().await;
    if !whole || drain.is_draining() || progress.last_answer.load(Ordering::Acquire) {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    progress.enter(Stage::Answered);
    Ok(response)
}
