//! A replica: its parts put together, its ports, its start and its end.
//!
//! *Owns* the order of things. Start: store, coordinator, ports, and SERVING once the store has answered. End, in
//! [`Running::stop`]: NOT_SERVING before anything else, so that nobody new is sent here; parked callers are answered and watchers
//! told; reports are taken as long as a connection lives; then the port closes, what runs may finish, and what has not by the end
//! of the drain time is cut.
//!
//! *Never does*: anything with a request; that is `rpc`.
//!
//! *Invariants.* Every task belongs to a set that is waited for. A [`Running`] that is dropped leaves nothing behind.
//!
//! *Why no wait of its own* between NOT_SERVING and the closed port unless one is set (`drain_delay`): a client that holds a
//! connection is told by GOAWAY at once, and where addresses are spread slowly (Kubernetes) the one who knows how slowly sets it.

mod connections;
mod http;
mod opening;
mod readiness;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tower::ServiceBuilder;

use crate::config::{ServeArgs, Settings};
use crate::metrics::{Exposition, Metrics};
use crate::rpc::layers;
use crate::shutdown::Signals;
use crate::telemetry::Telemetry;
use connections::Connections;
use readiness::Readiness;

pub use opening::Opening;
pub use readiness::Phase;

/// A server that runs. Dropped without [`stop`](Running::stop) it ends at once.
#[derive(Debug)]
pub struct Running {
    /// Where gRPC is served: the port is known, also where 0 was asked for.
    pub grpc: SocketAddr,
    /// Where `/livez`, `/readyz` and `/metrics` are served.
    pub http: Option<SocketAddr>,
    settings: Settings,
    readiness: Readiness,
    metrics: Arc<Metrics>,
    exposition: Arc<Exposition>,
    connections: Connections,
    /// The HTTP port and what else runs to the very end.
    rest: TaskTracker,
    rest_cut: DropGuard,
    cut: DropGuard,
}

/// Starts a server, and returns when its ports are open and the store has been asked once.
///
/// Installs nothing global: several can run in a process. Fails if a port can't be had.
pub async fn start(settings: Settings) -> anyhow::Result<Running> {
    let exposition = Arc::new(Exposition::new(settings.otlp.as_deref())?);
    let metrics = exposition.metrics().clone();
    metrics.know(settings.policies.names());
    let readiness = Readiness::starting().await;

    let (listener, grpc) = bind(settings.listen, "--listen").await?;
    let http = match settings.http {
        Some(address) => Some(bind(address, "--http").await?),
        None => None,
    };

    let (cut, rest_cut) = (CancellationToken::new(), CancellationToken::new());
    let connections = Connections {
        max_age: settings.max_connection_age,
        closing: CancellationToken::new(),
        cut: cut.clone(),
        tasks: TaskTracker::new(),
    };
    let rest = TaskTracker::new();
    let service = ServiceBuilder::new()
        .layer(layers::Calls::new(metrics.clone(), settings.otlp.is_some()))
        .map_response(|response: ::http::Response<_>| response.map(tonic::body::Body::new))
        .layer(layers::catch_panics())
        .service(routes(&readiness)?.prepare());
    connections.tasks.spawn(connections.clone().accept(listener, service));
    let http_address = http.map(|(listener, address)| {
        let pages = http::Pages {
            readiness: readiness.clone(),
            exposition: exposition.clone(),
        };
        rest.spawn(pages.serve(listener, rest_cut.clone(), rest.clone()));
        address
    });
    readiness.serving().await;
    Ok(Running {
        grpc,
        http: http_address,
        settings,
        readiness,
        metrics,
        exposition,
        connections,
        rest,
        rest_cut: rest_cut.drop_guard(),
        cut: cut.drop_guard(),
    })
}

impl Running {
    /// Whether it should be asked.
    pub fn phase(&self) -> Phase {
        self.readiness.phase()
    }

    /// What it counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Drains and ends, within `drain_timeout`. What was cut at its end is logged; an error it is not.
    pub async fn stop(mut self) {
        self.readiness.draining().await;
        self.readiness.close().await;
        self.connections.closing.cancel();
        self.connections.tasks.close();
        let drained = tokio::time::timeout(self.settings.drain_timeout, self.connections.tasks.wait()).await;
        if drained.is_err() {
            let connections = self.connections.tasks.len();
            tracing::warn!(connections, "the drain time is over: what still runs is cut");
        }
        drop(self.cut);
        self.connections.tasks.wait().await;
        drop(self.rest_cut);
        self.rest.close();
        self.rest.wait().await;
        self.exposition.shutdown().await;
    }
}

/// `drover serve`: starts, says so, serves until SIGTERM or SIGINT, drains. A second signal ends it at once.
pub async fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::resolve(args)?;
    let mut signals = Signals::listen().context("signals can't be received")?;
    let telemetry = Telemetry::install(&settings)?;
    let running = start(settings).await?;
    print!("{}", Opening(&running));
    let signal = signals.next().await;
    tracing::info!(signal, "draining");
    let code = tokio::select! {
        () = running.stop() => ExitCode::SUCCESS,
        signal = signals.next() => {
            tracing::warn!(signal, "ended before the drain was over");
            ExitCode::FAILURE
        }
    };
    telemetry.shutdown().await;
    Ok(code)
}

async fn bind(address: SocketAddr, option: &str) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("{option}: {address} can't be listened on"))?;
    let bound = listener.local_addr().context("a listener without an address")?;
    Ok((listener, bound))
}

fn routes(readiness: &Readiness) -> anyhow::Result<Routes> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(crate::proto::DESCRIPTOR)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let health = tonic_health::pb::health_server::HealthServer::new(readiness.service());
    Ok(Routes::default()
        .add_service(health)
        .add_service(reflection().build_v1().context("reflection")?)
        .add_service(reflection().build_v1alpha().context("reflection")?))
}
