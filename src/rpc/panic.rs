//! A bug that panics costs one call, and says so.

use std::any::Any;

use http::Response;
use tonic::body::Body;
use tower_http::catch_panic::{CatchPanicLayer, ResponseForPanic};

use super::status;

/// Answers INTERNAL for a call that panicked.
#[derive(Clone, Copy, Debug)]
pub struct Panicked;

impl ResponseForPanic for Panicked {
    type ResponseBody = Body;

    fn response_for_panic(&mut self, panic: Box<dyn Any + Send>) -> Response<Body> {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no text");
        tracing::error!(panic = text, "a call panicked: this is a bug");
        status::internal().into_http()
    }
}

/// The layer that catches panics.
pub fn catch_panics() -> CatchPanicLayer<Panicked> {
    CatchPanicLayer::custom(Panicked)
}
