//! Logs and traces of the process.
//!
//! *Owns* the global subscriber: log lines to stderr, and spans to a collector where `--otlp` names one. Figures have a provider for
//! each server ([`metrics::Exposition`](crate::metrics::Exposition)).
//!
//! *Never does*: makes a process wait for its telemetry. Every export and the shutdown have a bound, and a collector that can't be
//! reached costs a warning.
//!
//! *Invariants.* Without an OTLP address no span is made at all. Lines that are logged inside a span carry its `trace_id` and
//! `span_id`, whatever the log filter hides.
//!
//! Spans follow the caller's decision to sample; of traces that begin here all are kept. `OTEL_TRACES_SAMPLER` and
//! `OTEL_TRACES_SAMPLER_ARG` choose otherwise, `OTEL_RESOURCE_ATTRIBUTES` adds to what the process says of itself.

mod lines;

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::{EnvFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogFormat, Settings};

/// The longest that one export, and therefore a shutdown, may take.
pub const EXPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// What the SDK says of its own life is of no interest unless the filter asks for it by these names.
const QUIET: &str = "opentelemetry=warn,opentelemetry_sdk=warn,opentelemetry-otlp=warn";

/// Keeps the traces flowing; [`shutdown`](Telemetry::shutdown) sends what is left.
#[must_use = "spans that were not sent yet are lost unless it is shut down"]
#[derive(Debug)]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Sets the subscriber of the process. Must be called inside a tokio runtime where an OTLP address is given.
    ///
    /// Fails if the process has a subscriber already, or if the log filter or the address can't be read.
    pub fn install(settings: &Settings) -> anyhow::Result<Telemetry> {
        let filter = EnvFilter::builder()
            .parse(format!("{QUIET},{}", settings.log))
            .with_context(|| format!("--log: {:?} is no log filter", settings.log))?;
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
        let lines = match settings.log_format {
            LogFormat::Text => lines.event_format(lines::Text::default()).boxed(),
            LogFormat::Json => lines
                .fmt_fields(tracing_subscriber::fmt::format::JsonFields::new())
                .event_format(lines::Json::default())
                .boxed(),
        };
        let traces = settings.otlp.as_deref().map(tracer_provider).transpose()?;
        let spans = traces.as_ref().map(|provider| {
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("drover"))
                .with_location(false)
                .with_threads(false)
                .with_target(false)
                .with_filter(Targets::new().with_target("drover", tracing::Level::INFO))
        });
        tracing_subscriber::registry()
            .with(lines.with_filter(filter))
            .with(spans)
            .try_init()
            .context("logs: this process has a subscriber already")?;
        Ok(Telemetry { traces })
    }

    /// Sends the spans that are left, which takes at most [`EXPORT_TIMEOUT`].
    pub async fn shutdown(self) {
        if let Some(provider) = self.traces {
            bounded("traces", move || provider.shutdown_with_timeout(EXPORT_TIMEOUT)).await;
        }
    }
}

/// What this process says of itself with everything it exports.
pub fn resource() -> Resource {
    static RESOURCE: OnceLock<Resource> = OnceLock::new();
    RESOURCE
        .get_or_init(|| {
            Resource::builder()
                .with_service_name("drover")
                .with_attributes([
                    KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                    KeyValue::new("service.instance.id", format!("{:032x}", rand::random::<u128>())),
                ])
                .build()
        })
        .clone()
}

/// Runs a shutdown of the SDK, which blocks, beside the runtime, and gives up on it in time.
pub(crate) async fn bounded(
    what: &'static str,
    shutdown: impl FnOnce() -> opentelemetry_sdk::error::OTelSdkResult + Send + 'static,
) {
    // A little longer than the SDK's own bound, so that its reason is heard.
    let limit = EXPORT_TIMEOUT + Duration::from_millis(100);
    match tokio::time::timeout(limit, tokio::task::spawn_blocking(shutdown)).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => tracing::warn!(%error, "the last {what} could not be sent"),
        Ok(Err(error)) => tracing::warn!(%error, "the last {what} could not be sent"),
        Err(_) => tracing::warn!("the last {what} could not be sent within {limit:?}"),
    }
}

fn tracer_provider(address: &str) -> anyhow::Result<SdkTracerProvider> {
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_endpoint(address)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .with_context(|| format!("--otlp: no exporter to {address}"))?;
    Ok(SdkTracerProvider::builder()
        .with_resource(resource())
        .with_batch_exporter(exporter)
        .build())
}
