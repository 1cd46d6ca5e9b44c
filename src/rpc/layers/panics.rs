//! A panic in a handler is answered INTERNAL.

use std::any::Any;

use http::Response;
use tonic::Status;
use tonic::body::Body;
use tower_http::catch_panic::{CatchPanicLayer, ResponseForPanic};

/// The layer.
pub fn catch() -> CatchPanicLayer<Answer> {
    CatchPanicLayer::custom(Answer)
}

/// What a caller gets: no details, they are in the log.
#[derive(Clone, Copy, Debug)]
pub struct Answer;

impl ResponseForPanic for Answer {
    type ResponseBody = Body;

    fn response_for_panic(&mut self, panic: Box<dyn Any + Send + 'static>) -> Response<Body> {
        let words = panic.downcast_ref::<&'static str>().copied();
        let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        tracing::error!(
            panic = words.unwrap_or("no message"),
            "a bug: a call's handler panicked"
        );
        let mut status = Status::internal("a bug in drover; its log says more");
        status
            .metadata_mut()
            .insert("drover-reason", tonic::metadata::MetadataValue::from_static("INTERNAL"));
        status.into_http()
    }
}
