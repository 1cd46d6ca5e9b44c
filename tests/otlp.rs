//! What reaches a collector. In a process of its own: the subscriber is the process's.

use std::sync::Arc;

use drover::config::Settings;
use drover::proto::AcquireRebuildRequest;
use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::coordinator_service_client::CoordinatorServiceClient;
use drover::server;
use drover::telemetry::Telemetry;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::task::TaskTracker;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

struct Collector(mpsc::UnboundedSender<ResourceSpans>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for spans in request.into_inner().resource_spans {
            let _ = self.0.send(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

async fn collector(tasks: &TaskTracker) -> (String, mpsc::UnboundedReceiver<ResourceSpans>) {
    let (sender, spans) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    let serving = Server::builder()
        .add_service(TraceServiceServer::new(Collector(sender)))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tasks.spawn(serving);
    (address, spans)
}

async fn acquire(running: &server::Running, key: &str, traceparent: Option<String>) {
    let address = format!("http://{}", running.grpc);
    let channel = Channel::from_shared(address)
        .expect("an address")
        .connect()
        .await
        .expect("it listens");
    let mut request = Request::new(AcquireRebuildRequest {
        namespace: "shop".to_owned(),
        key: key.to_owned(),
        holder: "test".to_owned(),
        ..AcquireRebuildRequest::default()
    });
    if let Some(traceparent) = traceparent {
        let value = MetadataValue::try_from(traceparent).expect("ASCII");
        request.metadata_mut().insert("traceparent", value);
    }
    let answer = CoordinatorServiceClient::new(channel)
        .acquire_rebuild(request)
        .await
        .expect("served");
    assert!(matches!(answer.into_inner().decision, Some(Decision::Rebuild(_))));
}

fn attribute(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.as_ref()) {
        Some(AnyValue {
            value: Some(Value::StringValue(text)),
        }) => text.clone(),
        Some(AnyValue {
            value: Some(Value::IntValue(number)),
        }) => number.to_string(),
        other => panic!("{name}: {other:?} among {attributes:?}"),
    }
}

fn span(exported: &ResourceSpans) -> &Span {
    let spans: Vec<&Span> = exported.scope_spans.iter().flat_map(|scope| &scope.spans).collect();
    assert_eq!(spans.len(), 1, "{spans:?}");
    spans[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_span_under_its_caller_s_and_without_a_collector_it_is_none() {
    let tasks = TaskTracker::new();
    let (address, mut collected) = collector(&tasks).await;
    let settings = Settings {
        otlp: Some(address),
        ..Settings::ephemeral()
    };
    let telemetry = Telemetry::install(&settings).expect("the only subscriber");
    let traced = server::start(settings).await.expect("free ports");
    let silent = server::start(Settings::ephemeral()).await.expect("free ports");

    acquire(&silent, "silent", Some(format!("00-{TRACE}-{PARENT}-01"))).await;
    acquire(&traced, "traced", Some(format!("00-{TRACE}-{PARENT}-01"))).await;
    silent.stop().await;
    traced.stop().await;
    telemetry.shutdown().await;

    let exported = collected.recv().await.expect("one export");
    let resource = exported.resource.clone().unwrap_or_default().attributes;
    assert_eq!(attribute(&resource, "service.name"), "drover");
    assert_eq!(attribute(&resource, "service.version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(attribute(&resource, "service.instance.id").len(), 32);
    let span = span(&exported);
    assert_eq!(hex(&span.trace_id), TRACE);
    assert_eq!(hex(&span.parent_span_id), PARENT);
    assert_eq!(span.name, "drover.v1.CoordinatorService/AcquireRebuild");
    assert_eq!(span.kind().as_str_name(), "SPAN_KIND_SERVER");
    for (name, value) in [
        ("rpc.system", "grpc"),
        ("rpc.service", "drover.v1.CoordinatorService"),
        ("rpc.method", "AcquireRebuild"),
        ("rpc.grpc.status_code", "0"),
        ("drover.namespace", "shop"),
        ("drover.decision", "rebuild"),
        ("drover.cause", "miss"),
        ("drover.waited_ms", "0"),
    ] {
        assert_eq!(attribute(&span.attributes, name), value, "{name}");
    }
    // The receiver is dropped with the collector's task; nothing of the silent server was sent before.
    assert!(collected.try_recv().is_err());
    let _ = Arc::new(tasks);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
