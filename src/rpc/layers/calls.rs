//! The layer around every call: a span where spans are exported, and a look at how the call ended.
//!
//! *Invariants.* The caller's context is the span's parent before the span is entered for the first time: afterwards it can't be
//! set any more, and nobody would notice. Without an exporter a call costs one branch here and two look-ups in a small map of
//! headers when it ends; nothing is allocated.
//!
//! *Scope.* The span ends with the head of the response: for a unary call that is its end, for a stream it is the moment from which
//! on events flow. A stream that is open for days is no span.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::{Layer, Service};
use tracing::instrument::{Instrument as _, Instrumented};

use super::trace;
use crate::metrics::Metrics;

/// Puts [`Traced`] around the services.
#[derive(Clone, Debug)]
pub struct Calls {
    metrics: Arc<Metrics>,
    exported: bool,
}

impl Calls {
    /// `exported`: somebody receives the spans; otherwise none is made.
    pub fn new(metrics: Arc<Metrics>, exported: bool) -> Calls {
        Calls { metrics, exported }
    }
}

impl<S> Layer<S> for Calls {
    type Service = Traced<S>;

    fn layer(&self, inner: S) -> Traced<S> {
        Traced {
            inner,
            calls: self.clone(),
        }
    }
}

/// Services with a span around each call.
#[derive(Clone, Debug)]
pub struct Traced<S> {
    inner: S,
    calls: Calls,
}

impl<S, B, R> Service<Request<B>> for Traced<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Call<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Call<S::Future> {
        let span = match self.calls.exported {
            true => trace::server_span(request.uri().path(), request.headers()),
            false => tracing::Span::none(),
        };
        let inner = span.in_scope(|| self.inner.call(request));
        Call {
            inner: inner.instrument(span),
            metrics: self.calls.metrics.clone(),
        }
    }
}

pin_project! {
    /// A call on its way.
    #[derive(Debug)]
    pub struct Call<F> {
        #[pin]
        inner: Instrumented<F>,
        metrics: Arc<Metrics>,
    }
}

impl<F, R, E> Future for Call<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let response = ready!(this.inner.as_mut().poll(context))?;
        let ended = trace::Ended::of(response.headers());
        if let Some(reason) = ended.reason {
            this.metrics.failed(reason);
        }
        ended.record(this.inner.span());
        Poll::Ready(Ok(response))
    }
}
