//! How log lines look, each with the trace that it belongs to.
//!
//! The ids come from the active OpenTelemetry context and not from the spans that the log filter lets through: a warning has its
//! trace also where `--log warn` hides every span.

use std::fmt;

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt as _;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{self, FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::registry::LookupSpan;

/// `TIME LEVEL target: message field=value trace_id=… span_id=…`
#[derive(Debug, Default)]
pub(super) struct Text {
    time: SystemTime,
}

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let (dim, plain) = if line.has_ansi_escapes() {
            ("\x1b[2m", "\x1b[0m")
        } else {
            ("", "")
        };
        line.write_str(dim)?;
        self.time.format_time(&mut line)?;
        write!(line, "{plain} ")?;
        let meta = event.metadata();
        match colour(*meta.level()) {
            colour if line.has_ansi_escapes() => write!(line, "{colour}{:>5}{plain} ", meta.level().as_str())?,
            _ => write!(line, "{:>5} ", meta.level().as_str())?,
        }
        write!(line, "{dim}{}:{plain} ", meta.target())?;
        context.format_fields(line.by_ref(), event)?;
        if let Some(Ids { trace, span }) = Ids::active() {
            write!(line, " {dim}trace_id={trace} span_id={span}{plain}")?;
        }
        writeln!(line)
    }
}

/// One object a line, with `trace_id` and `span_id` beside the fields.
#[derive(Debug)]
pub(super) struct Json {
    inner: format::Format<format::Json, SystemTime>,
}

impl Default for Json {
    fn default() -> Json {
        Json {
            inner: format::format()
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false),
        }
    }
}

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut object = String::new();
        self.inner.format_event(context, Writer::new(&mut object), event)?;
        match (Ids::active(), object.trim_end().strip_suffix('}')) {
            (Some(Ids { trace, span }), Some(open)) => {
                writeln!(line, r#"{open},"trace_id":"{trace}","span_id":"{span}"}}"#)
            }
            _ => line.write_str(&object),
        }
    }
}

struct Ids {
    trace: opentelemetry::TraceId,
    span: opentelemetry::SpanId,
}

impl Ids {
    fn active() -> Option<Ids> {
        Context::map_current(|context| {
            let span = context.span();
            let ids = span.span_context();
            ids.is_valid().then(|| Ids {
                trace: ids.trace_id(),
                span: ids.span_id(),
            })
        })
    }
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use parking_lot::Mutex;
    use tracing_subscriber::filter::LevelFilter;
    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged inside a span and outside of it, where the filter of the lines hides the span.
    fn lines(json: bool) -> Vec<String> {
        let page = Page::default();
        let writer = page.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let lines = match json {
            true => lines
                .fmt_fields(format::JsonFields::new())
                .event_format(Json::default())
                .boxed(),
            false => lines.event_format(Text::default()).boxed(),
        };
        let provider = SdkTracerProvider::builder().build();
        let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let subscriber = tracing_subscriber::registry()
            .with(lines.with_filter(LevelFilter::WARN))
            .with(spans);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info_span!("call").in_scope(|| tracing::warn!(key = 7, "inside"));
            tracing::warn!("outside");
        });
        let text = String::from_utf8(page.0.lock().clone()).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_inside_a_span_that_the_filter_hides_still_names_its_trace() {
        let lines = lines(false);
        assert!(lines[0].contains("inside key=7 trace_id="), "{lines:?}");
        assert!(lines[0].contains(" span_id="), "{lines:?}");
        assert!(lines[1].ends_with("outside"), "{lines:?}");
    }

    #[test]
    fn a_json_line_stays_an_object_with_its_trace_beside_the_fields() {
        let lines: Vec<serde_json::Value> = lines(true)
            .iter()
            .map(|line| serde_json::from_str(line).expect("an object"))
            .collect();
        assert_eq!((&lines[0]["message"], &lines[0]["key"]), (&"inside".into(), &7.into()));
        assert_eq!(lines[0]["trace_id"].as_str().map(str::len), Some(32));
        assert_eq!(lines[0]["span_id"].as_str().map(str::len), Some(16));
        assert!(lines[1].get("trace_id").is_none());
    }
}
