//! Where spans go and which: the command line's address, and the environment variables of OpenTelemetry's
//! specification ("Environment Variable Specification" and "OpenTelemetry Protocol Exporter").

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};

use crate::comment::percent_decoded;
use crate::sampler::Sampler;

/// What is sent where.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the collector's traces: `http://127.0.0.1:4318/v1/traces`.
    pub endpoint: Uri,
    /// Headers of every request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// File of certificates, PEM, that a collector with HTTPS is judged by; `None`: the system's.
    pub certificate: Option<PathBuf>,
    /// Name and value of attributes of the server itself; `service.name` is among them.
    pub resource: Vec<(String, String)>,
    /// Which statements are recorded.
    pub sampler: Sampler,
    /// Statements that took less are left out, unless they failed.
    pub least: Duration,
    /// The longest that a request may take.
    pub timeout: Duration,
    /// How long a statement waits for others before a batch of less than [`Config::batch`] is sent.
    pub delay: Duration,
    /// Statements that may wait to be sent; more are dropped and counted.
    pub queue: usize,
    /// Statements of a request.
    pub batch: usize,
}

/// Why there is no tracer.
#[derive(Debug)]
pub enum StartError {
    /// No certificates to judge the collector by.
    Certificates {
        /// The file; `None`: none of the system's was found.
        file: Option<PathBuf>,
        /// What is wrong.
        reason: String,
    },
    /// There is no thread to be had.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Certificates { file: Some(file), reason } => {
                write!(f, "traces: {}: {reason}", file.display())
            }
            StartError::Certificates { file: None, reason } => write!(f, "traces: {reason}"),
            StartError::Thread(error) => write!(f, "traces: no thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Path of traces below an endpoint of all signals.
const PATH: &str = "v1/traces";

impl Config {
    /// The configuration for a collector at `endpoint`, an address to which `/v1/traces` is added, as `--otlp` gives
    /// it; without one the variables say where, and `None` says that they do not, or that tracing is off.
    /// `variable`: the environment.
    ///
    /// Errors: what is wrong, with the variable's name.
    pub fn new(
        endpoint: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Config>, String> {
        // A variable that is empty counts as one that is not set.
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let of_traces = |name: &str| {
            let own = format!("OTEL_EXPORTER_OTLP_TRACES_{name}");
            let all = format!("OTEL_EXPORTER_OTLP_{name}");
            variable(&own).map(|value| (own, value)).or_else(|| variable(&all).map(|v| (all, v)))
        };
        let is_off = variable("OTEL_SDK_DISABLED")
            .is_some_and(|off| off.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|exporter| exporter == "none");
        let found = match (endpoint, of_traces("ENDPOINT")) {
            (Some(given), _) => Some(("--otlp".to_owned(), base(given))),
            (None, Some((name, given))) if name.contains("TRACES") => Some((name, given)),
            (None, Some((name, given))) => Some((name, base(&given))),
            (None, None) => None,
        };
        let Some((name, endpoint)) = found.filter(|_| !is_off) else { return Ok(None) };
        let endpoint = address(&endpoint).map_err(|error| format!("{name}: {error}"))?;
        if let Some((name, protocol)) = of_traces("PROTOCOL")
            && protocol != "http/protobuf"
        {
            return Err(format!("{name}: \"{protocol}\" is not spoken here, http/protobuf is"));
        }
        if let Some((name, compression)) = of_traces("COMPRESSION")
            && compression != "none"
        {
            return Err(format!("{name}: \"{compression}\" is not there, none is"));
        }
        let headers = match of_traces("HEADERS") {
            Some((name, text)) => headers(&text).map_err(|error| format!("{name}: {error}"))?,
            None => Vec::new(),
        };
        let argument = variable("OTEL_TRACES_SAMPLER_ARG");
        let sampler = match variable("OTEL_TRACES_SAMPLER") {
            Some(name) => Sampler::named(&name, argument.as_deref())
                .map_err(|error| format!("OTEL_TRACES_SAMPLER: {error}"))?,
            None => Sampler::default(),
        };
        let number = |name: &str, default: u64| match variable(name) {
            None => Ok(default),
            Some(text) => match text.trim().parse() {
                Ok(number @ 1..=86_400_000) => Ok(number),
                _ => Err(format!("{name}: \"{text}\" is no number from 1 to 86400000")),
            },
        };
        let timeout = of_traces("TIMEOUT").map_or("OTEL_EXPORTER_OTLP_TIMEOUT".into(), |own| own.0);
        let count = |name: &str, default| number(name, default).map(|found| found as usize);
        let queue = count("OTEL_BSP_MAX_QUEUE_SIZE", 2048)?;
        Ok(Some(Config {
            endpoint,
            headers,
            certificate: of_traces("CERTIFICATE").map(|(_, file)| file.into()),
            resource: resource(&variable)?,
            sampler,
            least: Duration::ZERO,
            timeout: Duration::from_millis(number(&timeout, 10_000)?),
            delay: Duration::from_millis(number("OTEL_BSP_SCHEDULE_DELAY", 5_000)?),
            queue,
            batch: count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?.min(queue),
        }))
    }
}

/// The address of traces below that of all signals.
fn base(endpoint: &str) -> String {
    let endpoint = endpoint.trim().trim_end_matches('/');
    format!("{endpoint}/{PATH}")
}

/// An address that spans can be sent to.
fn address(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.trim().parse().map_err(|error| format!("\"{text}\": {error}"))?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => Ok(uri),
        _ => Err(format!("\"{text}\" is no address such as http://127.0.0.1:4318")),
    }
}

/// Pairs `name=value,name=value`, both URL-encoded.
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |pair: &str| match pair.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((percent_decoded(name.trim()), percent_decoded(value.trim())))
        }
        _ => Err("it is name=value,name=value".to_owned()),
    };
    text.split(',').filter(|pair| !pair.trim().is_empty()).map(pair).collect()
}

/// Headers; what is wrong is said without their values, which may be secrets.
fn headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let header = |(name, value): (String, String)| {
        let refused = || format!("\"{name}\" is no header");
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| refused())?;
        value.set_sensitive(true);
        Ok((key, value))
    };
    pairs(text)?.into_iter().map(header).collect()
}

/// Attributes of the server: those of the variable, its name, its version.
fn resource(variable: &impl Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, String> {
    const NAME: &str = "service.name";
    let given = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let mut all = pairs(&given).map_err(|error| format!("OTEL_RESOURCE_ATTRIBUTES: {error}"))?;
    if let Some(name) = variable("OTEL_SERVICE_NAME") {
        all.retain(|(key, _)| key != NAME);
        all.push((NAME.into(), name));
    }
    let own = [
        (NAME, "halcyon".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("process.pid", std::process::id().to_string()),
    ];
    for (key, value) in own {
        if !all.iter().any(|(known, _)| known == key) {
            all.push((key.into(), value));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(endpoint: Option<&str>, set: &[(&str, &str)]) -> Result<Option<Config>, String> {
        let found = |name: &str| set.iter().find(|(key, _)| *key == name);
        Config::new(endpoint, |name| found(name).map(|(_, value)| (*value).to_owned()))
    }

    fn refused(set: &[(&str, &str)]) -> String {
        config(Some("http://127.0.0.1:4318"), set).expect_err("it is refused")
    }

    #[test]
    fn without_an_address_nothing_is_traced() {
        assert!(config(None, &[]).expect("no mistake").is_none());
        assert!(config(None, &[("OTEL_SERVICE_NAME", "shop")]).expect("no mistake").is_none());
        let off = ("OTEL_SDK_DISABLED", "TRUE");
        assert!(config(Some("http://127.0.0.1:4318"), &[off]).expect("no mistake").is_none());
        let none = ("OTEL_TRACES_EXPORTER", "none");
        assert!(config(Some("http://127.0.0.1:4318"), &[none]).expect("no mistake").is_none());
    }

    #[test]
    fn the_path_of_traces_is_added_where_the_specification_adds_it() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/under/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces.example/in");
        let endpoint = |flag, set: &[(&str, &str)]| {
            config(flag, set).expect("no mistake").expect("an address").endpoint.to_string()
        };
        assert_eq!(endpoint(None, &[all]), "http://collector:4318/under/v1/traces");
        assert_eq!(endpoint(None, &[all, own]), "https://traces.example/in");
        assert_eq!(endpoint(Some("http://[::1]:4318"), &[own]), "http://[::1]:4318/v1/traces");
        for odd in ["127.0.0.1:4318", "ftp://x", "http://", "", "http:// x"] {
            assert!(config(Some(odd), &[]).is_err(), "{odd}");
        }
    }

    #[test]
    fn variables_say_headers_resource_sampler_and_batches() {
        let set = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x-team = one"),
            ("OTEL_SERVICE_NAME", "shop"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=test%2C1"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "100"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "7"),
        ];
        let found = config(Some("http://127.0.0.1:4318"), &set).expect("no mistake").expect("on");
        let header = |at: usize| (found.headers[at].0.as_str(), found.headers[at].1.as_bytes());
        assert_eq!([header(0), header(1)], [("api-key", &b"a b"[..]), ("x-team", b"one")]);
        let value = |key: &str| {
            let mut own = found.resource.iter().filter(|(known, _)| known == key);
            (own.next().map(|(_, value)| value.clone()), own.count())
        };
        assert_eq!(value("service.name"), (Some("shop".into()), 0));
        assert_eq!(value("deployment.environment.name"), (Some("test,1".into()), 0));
        assert_eq!(found.sampler, Sampler::named("traceidratio", Some("0")).expect("a sampler"));
        assert_eq!(found.timeout, Duration::from_millis(100));
        assert_eq!((found.delay, found.queue, found.batch), (Duration::from_millis(50), 7, 7));
    }

    #[test]
    fn what_is_not_spoken_here_is_refused_with_the_variables_name() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_RESOURCE_ATTRIBUTES", "nothing"),
        ] {
            assert!(refused(&[(name, value)]).starts_with(name), "{name}");
        }
        let secret = refused(&[("OTEL_EXPORTER_OTLP_HEADERS", "a b=hush")]);
        assert!(!secret.contains("hush"), "{secret}");
    }
}
