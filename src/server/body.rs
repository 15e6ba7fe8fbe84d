//! Bodies that a handler leaves unread.
//!
//! A refusal is written while the client is still sending. Closing then resets the connection, and the client sees the
//! reset instead of the answer. So what is left is read and thrown away, within limits, before the answer goes out.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

/// How long the rest of a body is waited for.
const TIME: Duration = Duration::from_secs(1);

/// A body that was not read to its end, if there is one.
#[derive(Debug, Clone, Default)]
pub struct LeftBody(Arc<Mutex<Option<Incoming>>>);

impl LeftBody {
    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Incoming>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Throws away what is left; whether that reached the end, so that the connection can go on.
    pub async fn discard(&self) -> bool {
        let Some(mut body) = self.slot().take() else {
            return true;
        };
        let end = async move {
            while let Some(frame) = body.frame().await {
                if frame.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(TIME, end).await.unwrap_or(false)
    }
}

/// A request's body that goes back to its connection when a handler drops it early.
#[derive(Debug)]
pub struct ReturnedBody {
    body: Option<Incoming>,
    left: LeftBody,
}

impl ReturnedBody {
    /// Wraps `body`, to be found in `left` if it is not read to its end.
    #[must_use]
    pub fn new(body: Incoming, left: LeftBody) -> Self {
        Self {
            body: Some(body),
            left,
        }
    }
}

impl Body for ReturnedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for ReturnedBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.left.slot() = Some(body);
        }
    }
}
