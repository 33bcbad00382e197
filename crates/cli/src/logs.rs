//! The program's log, on standard error: text for people, or one JSON object a line for collectors of logs.
//!
//! With JSON nothing else is written there, neither by a start that fails nor by a panic, so that a collector
//! never meets a line that it cannot read.
//! Tried: the feature `json` of tracing-subscriber, which puts the message among the fields, brings three
//! crates along, and has the features of tracing-core changed, for which all of DataFusion is built again.

use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The form of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// Whether the log is JSON. Written once, by [`begin`], before there are threads that could read it.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Begins the log. What it has is chosen by `HALCYON_LOG`, as `info` or `warn,halcyon_server=debug`; without
/// that, text begins at warnings and JSON at what a service's log should have.
pub fn begin(format: LogFormat) {
    let default = match format {
        LogFormat::Text => "warn",
        LogFormat::Json => "info",
    };
    let filter = EnvFilter::try_from_env("HALCYON_LOG").unwrap_or_else(|_| default.into());
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    match format {
        // A journal or a file shows colours as they are written.
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => {
            IS_JSON.store(true, Ordering::Relaxed);
            log.event_format(JsonLines).init();
            std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
        }
    }
}

/// Whether the log is JSON, and people are told nothing on standard output.
pub fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Tells why the program ends.
pub fn failure(message: &str) {
    match is_json() {
        true => tracing::error!("{message}"),
        false => eprintln!("error: {message}"),
    }
}

/// Tells people something in passing; with JSON the log.
pub fn remark(message: &str) {
    match is_json() {
        true => tracing::info!("{message}"),
        // Nobody may be reading.
        false => drop(writeln!(std::io::stderr(), "{message}")),
    }
}

/// Events as JSON, a line each: `timestamp` (RFC 3339, UTC), `level`, `target`, `message`, `fields`.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut parts = Parts::default();
        event.record(&mut parts);
        let line = json!({
            "timestamp": timestamp,
            "level": event.metadata().level().as_str(),
            "target": event.metadata().target(),
            "message": parts.message,
            "fields": parts.fields,
        });
        writeln!(writer, "{line}")
    }
}

/// The values of an event: its message, and its other fields.
#[derive(Default)]
struct Parts {
    message: String,
    fields: Map<String, Value>,
}

impl Parts {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(message)) => self.message = message,
            (name, value) => drop(self.fields.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Parts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinities and no NaN.
        let number = serde_json::Number::from_f64(value).map(Value::Number);
        self.put(field, number.unwrap_or_else(|| value.to_string().into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Bytes that a log was written to.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("nobody panics with it").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_an_object_with_typed_fields_on_one_line() {
        let written = Written::default();
        let writer = written.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .event_format(JsonLines)
            .finish();
        tracing::subscriber::with_default(log, || {
            let error = std::io::Error::other("broken\n\"quoted\"");
            tracing::warn!(%error, count = 3_u64, below = -1, share = 0.5, odd = f64::NAN, "two\nlines");
            tracing::error!(open = true, "done");
        });
        let bytes = written.0.lock().expect("nobody panics with it").clone();
        let text = String::from_utf8(bytes).expect("UTF-8");
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(lines.len(), 2, "{text}");
        let [first, second] = [&lines[0], &lines[1]];
        assert_eq!((&first["level"], &first["message"]), (&json!("WARN"), &json!("two\nlines")));
        assert_eq!(first["target"], json!(module_path!()));
        let fields = json!({
            "error": "broken\n\"quoted\"", "count": 3, "below": -1, "share": 0.5, "odd": "NaN",
        });
        assert_eq!(first["fields"], fields);
        assert_eq!(
            (&second["level"], &second["fields"]),
            (&json!("ERROR"), &json!({"open": true}))
        );
        let timestamp = first["timestamp"].as_str().expect("a text");
        let shape: String =
            timestamp.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
        assert_eq!(shape, "9999-99-99T99:99:99.999999Z");
    }

    /// The child of the test below: a process of its own, since a log is for a whole process.
    #[test]
    fn a_thread_of_the_child_panics() {
        if std::env::var_os("HALCYON_TEST_PANICS").is_none() {
            return;
        }
        begin(LogFormat::Json);
        let panicked = std::thread::spawn(|| panic!("two\nlines")).join();
        assert!(panicked.is_err());
        failure("the end");
        std::process::exit(7);
    }

    #[test]
    fn a_panic_is_an_event_too() {
        let output = std::process::Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "logs::tests::a_thread_of_the_child_panics"])
            .env("HALCYON_TEST_PANICS", "1")
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        let events: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let messages: Vec<&str> =
            events.iter().map(|event| event["message"].as_str().expect("a text")).collect();
        let [panic, end] = messages[..] else { panic!("{text}") };
        assert!(panic.contains("two\nlines") && panic.contains("logs.rs"), "{panic}");
        assert_eq!(end, "the end");
    }
}
