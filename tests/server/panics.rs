use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use drover::metrics::Exposition;
use drover::rpc::{catch_panics, layers::Calls};
use http::{Request, Response};
use tonic::body::Body;
use tower::{Service, ServiceBuilder, ServiceExt as _};

#[derive(Clone)]
struct Buggy;

impl Service<Request<Body>> for Buggy {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        assert!(request.uri().path() != "/drover.v1.CoordinatorService/Watch", "a bug");
        ready(Ok(Response::new(Body::empty())))
    }
}

#[tokio::test]
async fn a_panic_is_internal_to_its_caller_counted_and_nothing_to_the_next() {
    let exposition = Exposition::new(None).expect("no collector is needed");
    let layers = ServiceBuilder::new().layer(Calls::new(exposition.metrics().clone(), false));
    let mut service = layers.layer(catch_panics()).service(Buggy);
    let mut status = async |path: &'static str| {
        let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        let response = service
            .ready()
            .await
            .expect("ready")
            .call(request)
            .await
            .expect("an answer");
        response
            .headers()
            .get("grpc-status")
            .map(|code| code.as_bytes().to_owned())
    };
    assert_eq!(
        status("/drover.v1.CoordinatorService/Watch").await.as_deref(),
        Some(&b"13"[..])
    );
    assert_eq!(status("/drover.v1.CoordinatorService/Other").await, None);
    let page = String::from_utf8(exposition.page().expect("a page")).expect("text");
    assert!(
        page.contains(r#"drover_errors_total{drover_reason="INTERNAL"} 1"#),
        "{page}"
    );
}
