//! Where the figures leave: the page that Prometheus reads, and OTLP where somebody asked for it.
//!
//! *Why* one a server and nothing global: the lab and the tests run several servers in a process, and their figures must not mix.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use prometheus::{Encoder as _, Registry, TextEncoder};

use super::Metrics;
use crate::telemetry;

/// How often figures are pushed by OTLP.
const EVERY: Duration = Duration::from_secs(15);

/// The provider of a server's instruments, and its readers.
#[derive(Debug)]
pub struct Exposition {
    registry: Registry,
    provider: SdkMeterProvider,
    metrics: Arc<Metrics>,
}

impl Exposition {
    /// The media type of [`page`](Exposition::page).
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// With OTLP too, where an address is given; then it must be called inside a tokio runtime.
    pub fn new(otlp: Option<&str>) -> anyhow::Result<Exposition> {
        let registry = Registry::new();
        let page = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .build()
            .context("metrics: no page for Prometheus")?;
        let mut provider = SdkMeterProvider::builder()
            .with_resource(telemetry::resource())
            .with_reader(page);
        if let Some(address) = otlp {
            let exporter = opentelemetry_otlp::MetricExporter::builder()
                .with_tonic()
                .with_endpoint(address)
                .with_timeout(telemetry::EXPORT_TIMEOUT)
                .build()
                .with_context(|| format!("metrics: no exporter to {address}"))?;
            provider = provider.with_reader(PeriodicReader::builder(exporter).with_interval(EVERY).build());
        }
        let provider = provider.build();
        let metrics = Metrics::new(&provider.meter("drover"));
        Ok(Exposition {
            registry,
            provider,
            metrics,
        })
    }

    /// The counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Everything as it is now, in the text format of Prometheus.
    pub fn page(&self) -> anyhow::Result<Vec<u8>> {
        let mut page = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut page)?;
        Ok(page)
    }

    /// Pushes what is left, which takes at most [`telemetry::EXPORT_TIMEOUT`].
    pub async fn shutdown(&self) {
        let provider = self.provider.clone();
        telemetry::bounded("metrics", move || provider.shutdown()).await;
    }
}
