//! The way in: `CoordinatorService` is found by its name, everything else by the router.
//!
//! *Why*: nearly every call is for `CoordinatorService`. The router clones and boxes a service for each call and boxes its body, which is
//! a tenth of what such a call costs and a kilobyte a parked caller.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::Either;
use http::{Request, Response};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, StdError};
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::Service;

use super::CoordinatorRpc;
use crate::proto::coordinator_service_server::CoordinatorServiceServer;

type Calls = CoordinatorServiceServer<CoordinatorRpc>;

/// All services of a replica.
#[derive(Clone)]
pub struct Front {
    calls: Calls,
    rest: Routes,
}

impl Front {
    /// `rest` answers what is not for `calls`.
    pub fn new(calls: Calls, rest: Routes) -> Front {
        Front { calls, rest }
    }
}

/// An answer on its way.
type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<B> Service<Request<B>> for Front
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<BoxFuture<Response<Body>, Infallible>, Answering>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Both sides always are.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if is_for(Calls::NAME, request.uri().path()) {
            Either::Left(self.calls.call(request))
        } else {
            Either::Right(Box::pin(self.rest.call(request.map(Body::new))))
        }
    }
}

fn is_for(service: &str, path: &str) -> bool {
    path.strip_prefix('/')
        .and_then(|path| path.strip_prefix(service))
        .is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_by_its_whole_name() {
        assert!(is_for(
            "drover.v1.CoordinatorService",
            "/drover.v1.CoordinatorService/AcquireRebuild"
        ));
        for path in [
            "",
            "/",
            "/drover.v1.CoordinatorServices/Watch",
            "/drover.v1.AdminService/DescribeKey",
            "drover.v1.CoordinatorService/",
        ] {
            assert!(!is_for("drover.v1.CoordinatorService", path), "{path}");
        }
    }
}
