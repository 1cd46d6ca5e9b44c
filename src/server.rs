//! A replica: its parts put together, its ports, its start and its end.
//!
//! *Owns* the order of things. Start: store, coordinator, ports, and SERVING once the store has answered. End
//! ([`Running::stop`]): NOT_SERVING before anything else, so that nobody new is sent here; after the delay that was set, parked
//! callers are answered and watchers told; reports are taken for as long as their connection lives; then the port closes and
//! connections are told to go; what runs may finish, and what has not by the end of the drain time is cut.
//!
//! *Never does*: anything with a request; that is `rpc`.
//!
//! *Invariants.* Every task belongs to a set that is waited for. A [`Running`] that is dropped ends at once and leaves no task.
//!
//! *Why no delay by default* between NOT_SERVING and the end: a client that holds a connection is told by GOAWAY at once, and whoever
//! runs drover where addresses are spread slowly (Kubernetes) knows how slowly, and sets `drain_delay`. During it everything is
//! served as before: those who have not heard yet would only be sent away to come back here.

mod connections;
mod http;
mod opening;
mod parts;
mod readiness;

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tower::ServiceBuilder;

use crate::config::{self, Policies, ServeArgs, Settings};
use crate::metrics::{Exposition, Metrics};
use crate::rpc::{self, layers};
use crate::shutdown::Signals;
use crate::store::Store;
use crate::telemetry::Telemetry;
use connections::Connections;
use parts::Parts;
use readiness::Readiness;

pub use opening::Opening;
pub use readiness::Phase;

/// A server that runs. Dropped without [`stop`](Running::stop) it ends at once.
pub struct Running {
    /// Where gRPC is served: the port is known, also where 0 was asked for.
    pub grpc: SocketAddr,
    /// Where `/livez`, `/readyz` and `/metrics` are served.
    pub http: Option<SocketAddr>,
    settings: Settings,
    parts: Parts,
    readiness: Readiness,
    exposition: Arc<Exposition>,
    connections: Connections,
    cut: DropGuard,
    /// What runs beside the requests, to the very end.
    rest: TaskTracker,
    rest_cut: DropGuard,
}

/// Starts a server, and returns when its ports are open and the store has been asked once.
///
/// Installs nothing global: several can run in a process. Fails if a port can't be had.
pub async fn start(settings: Settings) -> anyhow::Result<Running> {
    launch(settings, None).await
}

/// The same over a store of the caller's, whatever the settings say of stores: how a test serves from one that fails as it is told.
pub async fn start_with_store(settings: Settings, store: Arc<dyn Store>) -> anyhow::Result<Running> {
    launch(settings, Some(store)).await
}

async fn launch(settings: Settings, store: Option<Arc<dyn Store>>) -> anyhow::Result<Running> {
    let (listener, grpc) = bind(settings.listen, "--listen").await?;
    let http = match settings.http {
        Some(address) => Some(bind(address, "--http").await?),
        None => None,
    };
    let exposition = Arc::new(Exposition::new(settings.otlp.as_deref())?);
    let metrics = exposition.metrics();
    metrics.know(settings.policies.names());
    let readiness = Readiness::starting().await;

    let (rest, rest_cut) = (TaskTracker::new(), CancellationToken::new());
    let parts = match store {
        Some(store) => Parts::over(store, None, &settings, metrics),
        None => Parts::new(&settings, metrics, &rest, &rest_cut)?,
    };
    let cut = CancellationToken::new();
    let connections = Connections {
        max_age: settings.max_connection_age,
        closing: CancellationToken::new(),
        cut: cut.clone(),
        tasks: TaskTracker::new(),
    };
    let service = ServiceBuilder::new()
        .layer(layers::Calls::new(metrics.clone(), settings.otlp.is_some()))
        .layer(rpc::catch_panics())
        .map_response(rpc::status::in_our_words)
        .service(services(&parts, metrics, &readiness)?);
    connections.tasks.spawn(connections.clone().accept(listener, service));
    let http = http.map(|(listener, address)| {
        let pages = http::Pages {
            readiness: readiness.clone(),
            exposition: exposition.clone(),
        };
        rest.spawn(pages.serve(listener, rest_cut.clone(), rest.clone()));
        address
    });
    let refreshing = parts.coordinator.clone().refresh();
    rest.spawn(rest_cut.clone().run_until_cancelled_owned(refreshing));
    if parts.store.ping().await.is_ok() {
        readiness.serving().await;
    } else {
        let asking = parts::serve_when_answered(parts.store.clone(), readiness.clone());
        rest.spawn(rest_cut.clone().run_until_cancelled_owned(asking));
    }
    Ok(Running {
        grpc,
        http,
        settings,
        parts,
        readiness,
        exposition,
        connections,
        cut: cut.drop_guard(),
        rest,
        rest_cut: rest_cut.drop_guard(),
    })
}

impl Running {
    /// Whether it should be asked.
    pub fn phase(&self) -> Phase {
        self.readiness.phase()
    }

    /// What it counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        self.exposition.metrics()
    }

    /// Callers parked now.
    pub fn parked(&self) -> usize {
        self.parts.coordinator.parked()
    }

    /// The policies in force, to be replaced.
    pub fn policies(&self) -> &Policies {
        &self.parts.policies
    }

    /// Begins the end: NOT_SERVING, parked callers are answered, watchers get a last cursor. Reports, renewals, invalidations and
    /// hits go on; [`stop`](Running::stop) ends them.
    pub async fn drain(&self) {
        self.readiness.draining().await;
        self.parts.coordinator.drain();
        self.parts.hub.drain();
        self.parts.hub.close();
    }

    /// Drains and ends, within `drain_delay` and `drain_timeout`, and sends the last figures. What had to be cut is logged; an
    /// error it is not.
    pub async fn stop(self) {
        self.stop_serving().await.shutdown().await;
    }

    async fn stop_serving(mut self) -> Arc<Exposition> {
        self.readiness.draining().await;
        sleep(self.settings.drain_delay).await;
        let until = Instant::now() + self.settings.drain_timeout;
        self.drain().await;
        self.connections.closing.cancel();
        self.readiness.close().await;
        self.connections.tasks.close();
        if timeout_at(until, self.connections.tasks.wait()).await.is_err() {
            let connections = self.connections.tasks.len();
            tracing::warn!(connections, "the drain time is over: what still runs is cut");
        }
        drop(self.cut);
        self.connections.tasks.wait().await;
        // What callers have begun and left, such as a grant on its way, is finished too.
        if timeout_at(until, self.parts.coordinator.finished()).await.is_err() {
            tracing::warn!("the drain time is over: changes that callers left behind are not finished");
        }
        drop(self.rest_cut);
        self.rest.close();
        self.rest.wait().await;
        self.exposition
    }
}

/// `drover serve`: starts, says so, serves until SIGTERM or SIGINT, drains. A second signal ends it at once, and with failure.
pub async fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::resolve(args)?;
    let mut signals = Signals::listen().context("signals can't be received")?;
    let telemetry = Telemetry::install(&settings)?;
    let running = start(settings).await?;
    let following = CancellationToken::new();
    let follow = config::reload::watch(&running.settings, running.policies().clone(), following.clone());
    running.rest.spawn(follow);
    // Whoever started it may have stopped listening (`| head -1`), which is no reason to end.
    let _ = write!(std::io::stdout(), "{}", Opening(&running));

    let signal = signals.next().await;
    tracing::info!(signal, "draining");
    following.cancel();
    tokio::select! {
        exposition = running.stop_serving() => {
            tokio::join!(exposition.shutdown(), telemetry.shutdown());
            Ok(ExitCode::SUCCESS)
        }
        signal = signals.next() => {
            tracing::warn!(signal, "ended before the drain was over");
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn bind(address: SocketAddr, option: &str) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("{option} {address}: can't listen there (is another drover running? port 0 takes a free one)")
    })?;
    let bound = listener.local_addr().context("a listener without an address")?;
    Ok((listener, bound))
}

fn services(parts: &Parts, metrics: &Arc<Metrics>, readiness: &Readiness) -> anyhow::Result<rpc::Front> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(crate::proto::DESCRIPTOR)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let health = tonic_health::pb::health_server::HealthServer::new(readiness.service());
    let others = Routes::new(health)
        .add_service(reflection().build_v1().context("reflection")?)
        .add_service(reflection().build_v1alpha().context("reflection")?);
    Ok(rpc::services(parts.coordinator.clone(), metrics.clone(), others))
}
