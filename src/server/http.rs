//! The HTTP port for whoever runs the service: `/livez`, `/readyz`, `/metrics`. Nothing of the cache is told here.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::readiness::{Phase, Readiness};
use crate::metrics::Exposition;

/// A client that takes longer to say what it wants is not served.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const PATHS: &str = "\
/livez    200 while the process runs
/readyz   200 while it should be asked, 503 with the reason while it starts or drains
/metrics  figures for Prometheus
";

/// What the pages are made of.
#[derive(Clone)]
pub(super) struct Pages {
    pub(super) readiness: Readiness,
    pub(super) exposition: Arc<Exposition>,
}

impl Pages {
    /// Serves until `cut`, also while the server drains: that is when somebody looks.
    pub(super) async fn serve(self, listener: TcpListener, cut: CancellationToken, tasks: TaskTracker) {
        loop {
            let accepted = tokio::select! {
                () = cut.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = self.clone().connection(stream);
                    let cut = cut.clone();
                    tasks.spawn(async move {
                        tokio::select! {
                            () = cut.cancelled() => {}
                            () = connection => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "http: no connection can be accepted; trying again");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn connection(self, stream: TcpStream) {
        let answer = service_fn(move |request| {
            let answer = self.answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        let ended = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(stream), answer)
            .await;
        if let Err(error) = ended {
            tracing::debug!(%error, "http: a connection ended early");
        }
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD only\n");
        }
        match request.uri().path() {
            "/livez" => text(StatusCode::OK, "alive\n"),
            "/readyz" => self.ready(),
            "/metrics" => self.metrics(),
            path => text(StatusCode::NOT_FOUND, format!("nothing at {path}; there is\n\n{PATHS}")),
        }
    }

    fn ready(&self) -> Response<Full<Bytes>> {
        let phase = self.readiness.phase();
        let status = match phase {
            Phase::Serving => StatusCode::OK,
            Phase::Starting | Phase::Draining => StatusCode::SERVICE_UNAVAILABLE,
        };
        text(status, format!("{}\n", phase.as_str()))
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        match self.exposition.page() {
            Ok(page) => page_of(StatusCode::OK, Exposition::CONTENT_TYPE, page.into()),
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "http: no metrics page");
                text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the figures can't be written; the log says more\n",
                )
            }
        }
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    page_of(status, "text/plain; charset=utf-8", body.into())
}

fn page_of(status: StatusCode, media: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media));
    response
}
