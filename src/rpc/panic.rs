//! A bug that panics costs one call, and says so.

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tonic::body::Body;
use tower::{Layer, Service};

use super::status;

/// Answers INTERNAL for a call that panicked.
///
/// *Why not tower-http's*: it boxes the body of every answer, so that those few that panicked may have another type. Here both have
/// the same, and a call that does not panic pays nothing.
#[derive(Clone, Copy, Debug)]
pub struct CatchPanics;

/// The layer that catches panics.
pub fn catch_panics() -> CatchPanics {
    CatchPanics
}

impl<S> Layer<S> for CatchPanics {
    type Service = Caught<S>;

    fn layer(&self, inner: S) -> Caught<S> {
        Caught(inner)
    }
}

/// Services whose panics are caught.
#[derive(Clone, Debug)]
pub struct Caught<S>(S);

impl<S, B> Service<Request<B>> for Caught<S>
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Catching<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Catching<S::Future> {
        match catch_unwind(AssertUnwindSafe(|| self.0.call(request))) {
            Ok(inner) => Catching {
                inner: Some(inner),
                panicked: None,
            },
            Err(panic) => Catching {
                inner: None,
                panicked: Some(panic),
            },
        }
    }
}

pin_project! {
    /// A call that may panic.
    pub struct Catching<F> {
        #[pin]
        inner: Option<F>,
        // Before there was a future to poll.
        panicked: Option<Box<dyn Any + Send>>,
    }
}

impl<F> Future for Catching<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(panic) = this.panicked.take() {
            return Poll::Ready(Ok(told(&*panic)));
        }
        let Some(inner) = this.inner.as_pin_mut() else {
            return Poll::Pending;
        };
        match catch_unwind(AssertUnwindSafe(|| inner.poll(context))) {
            Ok(polled) => polled,
            Err(panic) => Poll::Ready(Ok(told(&*panic))),
        }
    }
}

/// What the caller is told; the log is told the rest.
fn told(panic: &(dyn Any + Send)) -> Response<Body> {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("no text"), "a call panicked: this is a bug");
    status::internal().into_http()
}
