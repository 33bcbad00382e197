//! Spans on their way to a collector: what arrives, and what becomes of those that do not.

#[allow(dead_code)] // the server's tests ask for the rest
mod collector;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use collector::{Collector, Manner, attribute, text};
use halcyon_base::clock;
use halcyon_traces::span::CHILDREN_MAX;
use halcyon_traces::{Config, Context, Counts, Phase, Tracer, Value};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Wire;
use opentelemetry_proto::tonic::trace::v1::Span;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A configuration that sends soon.
fn config(endpoint: &str, set: &[(&str, &str)]) -> Config {
    let soon = ("OTEL_BSP_SCHEDULE_DELAY", "20");
    let found = |name: &str| set.iter().chain([&soon]).find(|(key, _)| *key == name);
    let config = Config::new(Some(endpoint), |name| found(name).map(|(_, v)| (*v).to_owned()));
    config.expect("no mistake").expect("an address")
}

fn tracer(endpoint: &str, set: &[(&str, &str)]) -> Arc<Tracer> {
    Tracer::start(config(endpoint, set)).expect("a tracer")
}

/// Records a statement of a name.
fn record(tracer: &Arc<Tracer>, name: &str) {
    let mut recording = tracer.begin(None, clock::now()).expect("all are sampled");
    recording.name(name, None);
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

#[test]
fn a_statement_arrives_with_its_children_attributes_and_parent() {
    let collector = Collector::start();
    let set = [("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret"), ("OTEL_SERVICE_NAME", "shop-db")];
    let tracer = tracer(&collector.endpoint(), &set);
    let parent = Context::parse(PARENT).expect("a context").with_state("congo=t61");
    let mut recording = tracer.begin(Some(parent), clock::now()).expect("the client samples");
    recording.name("SELECT", Some("item"));
    recording.enter(Phase::Plan);
    recording.enter(Phase::Run);
    std::thread::sleep(Duration::from_millis(3));
    recording.enter(Phase::Client);
    recording.set("db.response.returned_rows", Value::Int(1));
    recording.set("db.response.returned_rows", Value::Int(7));
    recording.fail("22012", "division by zero");
    drop(recording);
    let span = collector.wait_for("the statement", |span| span.name == "SELECT item");
    assert_eq!(span.kind, 2, "a server's span");
    assert_eq!(
        span.trace_id,
        [
            0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80,
            0x31, 0x9c
        ]
    );
    assert_eq!(span.parent_span_id, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
    assert_eq!((span.trace_state.as_str(), span.flags), ("congo=t61", 0x301));
    assert_eq!(attribute(&span, "db.response.returned_rows"), Some(Wire::IntValue(7)));
    assert_eq!(text(&span, "error.type"), "22012");
    assert_eq!(text(&span, "db.response.status_code"), "22012");
    assert_eq!(text(&span, "db.system.name"), "halcyon");
    let status = span.status.clone().expect("a status");
    assert_eq!((status.code, status.message.as_str()), (2, "division by zero"));
    let children = collector.children(&span);
    assert_eq!(names(&children), ["plan", "run", "client"]);
    for child in &children {
        assert_eq!((&child.trace_id, child.kind, child.flags), (&span.trace_id, 1, 0x101));
        assert!(span.start_time_unix_nano <= child.start_time_unix_nano);
        assert!(child.start_time_unix_nano <= child.end_time_unix_nano);
        assert!(child.end_time_unix_nano <= span.end_time_unix_nano);
    }
    assert!(children[1].end_time_unix_nano - children[1].start_time_unix_nano >= 3_000_000);
    let now = u64::try_from(clock::wall_us()).expect("this century") * 1_000;
    assert!(
        now.abs_diff(span.start_time_unix_nano) < 60_000_000_000,
        "{}",
        span.start_time_unix_nano
    );
    let (headers, request) = collector.requests().remove(0);
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert_eq!(headers["api-key"], "secret");
    let resource = request.resource_spans[0].resource.clone().expect("a resource");
    let service = resource.attributes.iter().find(|own| own.key == "service.name");
    let service = service.and_then(|own| own.value.clone()).and_then(|own| own.value);
    assert_eq!(service, Some(Wire::StringValue("shop-db".into())));
    tracer.end(Duration::from_secs(5));
    assert_eq!(tracer.counts(), Counts { sent: 1, ..Counts::default() });
}

#[test]
fn a_copys_thousand_stretches_are_few_spans_and_whole_sums() {
    let collector = Collector::start();
    let tracer = tracer(&collector.endpoint(), &[]);
    let mut recording = tracer.begin(None, clock::now()).expect("all are sampled");
    recording.name("COPY", None);
    let (mut at, step) = (clock::now(), Duration::from_millis(1));
    for _ in 0..1_000 {
        for phase in [Phase::Client, Phase::Run] {
            recording.add(phase, at, at.plus(step));
            at = at.plus(step);
        }
    }
    drop(recording);
    let span = collector.wait_for("the COPY", |span| span.name == "COPY");
    assert_eq!(collector.children(&span).len(), CHILDREN_MAX);
    assert_eq!(attribute(&span, "halcyon.client.seconds"), Some(Wire::DoubleValue(1.0)));
    tracer.end(Duration::from_secs(5));
}

#[test]
fn only_slow_statements_and_failures_are_sent_if_asked_for() {
    let collector = Collector::start();
    let config = Config { least: Duration::from_millis(50), ..config(&collector.endpoint(), &[]) };
    let tracer = Tracer::start(config).expect("a tracer");
    record(&tracer, "quick");
    let mut failed = tracer.begin(None, clock::now()).expect("all are sampled");
    failed.name("failed", None);
    failed.fail("42601", "syntax error");
    drop(failed);
    let mut slow = tracer.begin(None, clock::now()).expect("all are sampled");
    slow.name("slow", None);
    std::thread::sleep(Duration::from_millis(60));
    drop(slow);
    tracer.end(Duration::from_secs(5));
    assert_eq!(names(&collector.spans()), ["failed", "slow"]);
    assert_eq!(tracer.counts().dropped, 0, "they were not wanted");
}

#[test]
fn the_end_sends_what_waits_in_batches() {
    let collector = Collector::start();
    let set = [("OTEL_BSP_SCHEDULE_DELAY", "3600000"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")];
    let tracer = tracer(&collector.endpoint(), &set);
    (0..3).for_each(|_| record(&tracer, "one"));
    assert!(collector.requests().is_empty(), "the delay is an hour");
    // A full batch does not wait.
    record(&tracer, "one");
    eventually("a full batch", || collector.spans().len() == 4);
    (0..7).for_each(|_| record(&tracer, "one"));
    tracer.end(Duration::from_secs(5));
    assert_eq!(collector.spans().len(), 11);
    assert!(
        collector
            .requests()
            .iter()
            .all(|(_, request)| { request.resource_spans[0].scope_spans[0].spans.len() <= 4 })
    );
}

#[test]
fn a_collector_that_is_away_or_slow_holds_nobody_up() {
    let address = Collector::start().address; // nobody is there any more
    let set = [("OTEL_BSP_MAX_QUEUE_SIZE", "10"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "200")];
    let slow = Collector::start();
    slow.behave(Manner { pause: Duration::from_secs(3_600), ..Manner::default() });
    for endpoint in [format!("http://{address}"), slow.endpoint()] {
        let tracer = tracer(&endpoint, &set);
        let start = Instant::now();
        for _ in 0..20_000 {
            record(&tracer, "statement");
        }
        // A second for what takes some 20 ms, on a machine that others use as well; a single wait for the collector
        // would take longer.
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        let counts = tracer.counts();
        assert!(counts.dropped > 19_000, "{counts:?}");
        assert!(counts.waiting <= 10, "{counts:?}");
        let start = Instant::now();
        tracer.end(Duration::from_secs(2));
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        assert_eq!(tracer.counts().sent, 0);
    }
}

#[test]
fn a_collector_that_comes_back_gets_what_was_kept() {
    let collector = Collector::start();
    collector.behave(Manner { status: 503, retry_after: Some(0), ..Manner::default() });
    let tracer = tracer(&collector.endpoint(), &[]);
    record(&tracer, "kept");
    eventually("a try", || !collector.requests().is_empty());
    collector.behave(Manner::default());
    collector.wait_for("the second try", |span| span.name == "kept");
    tracer.end(Duration::from_secs(5));
    assert_eq!(tracer.counts(), Counts { sent: 1, ..Counts::default() });
}

#[test]
fn answers_that_another_try_would_not_change_are_counted() {
    let collector = Collector::start();
    collector.behave(Manner { status: 400, ..Manner::default() });
    let tracer = tracer(&collector.endpoint(), &[]);
    record(&tracer, "refused");
    eventually("a failure", || tracer.counts().failed == 1);
    assert_eq!(collector.requests().len(), 1);
    collector.behave(Manner { refuses: 3, ..Manner::default() });
    record(&tracer, "taken in part");
    eventually("an answer", || tracer.counts().refused == 3);
    tracer.end(Duration::from_secs(5));
    let counts = Counts { sent: 1, failed: 1, refused: 3, ..Counts::default() };
    assert_eq!(tracer.counts(), counts);
}

#[test]
fn unsampled_statements_are_not_recorded() {
    let collector = Collector::start();
    let tracer = tracer(&collector.endpoint(), &[("OTEL_TRACES_SAMPLER", "always_off")]);
    assert!(tracer.begin(None, clock::now()).is_none());
    tracer.end(Duration::from_secs(5));
    assert!(collector.requests().is_empty());
}

#[test]
fn a_collector_behind_tls_is_judged_by_the_certificate_named() {
    let folder = std::env::temp_dir().join(format!("halcyon-traces-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (certificate, key) = (folder.join("own.crt"), folder.join("own.key"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("skipped: there is no openssl that makes a certificate");
        return;
    }
    let collector = Collector::start();
    let tls = tls_in_front_of(collector.address, &certificate, &key);
    let named = certificate.to_str().expect("a name");
    let endpoint = format!("https://localhost:{tls}");
    let trusting = tracer(&endpoint, &[("OTEL_EXPORTER_OTLP_CERTIFICATE", named)]);
    record(&trusting, "secret");
    collector.wait_for("the statement", |span| span.name == "secret");
    trusting.end(Duration::from_secs(5));
    // By the system's certificates nobody knows this one.
    let config = config(&endpoint, &[]);
    match Tracer::start(config) {
        Ok(distrusting) => {
            record(&distrusting, "kept from strangers");
            distrusting.end(Duration::from_secs(5));
            assert_eq!(distrusting.counts().failed, 1);
        }
        Err(error) => assert!(error.to_string().contains("no certificates"), "{error}"),
    }
    assert_eq!(names(&collector.spans()), ["secret"]);
    let _ = std::fs::remove_dir_all(&folder);
}

/// A port where TLS is taken off before the collector.
fn tls_in_front_of(
    collector: std::net::SocketAddr,
    certificate: &std::path::Path,
    key: &std::path::Path,
) -> u16 {
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{ServerConfig, crypto};
    let chain = CertificateDer::pem_file_iter(certificate).expect("a file");
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("they match");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.set_nonblocking(true).expect("a mode");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a thread").block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            while let Ok((outer, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut outer = acceptor.accept(outer).await?;
                    let mut inner = tokio::net::TcpStream::connect(collector).await?;
                    tokio::io::copy_bidirectional(&mut outer, &mut inner).await
                });
            }
        });
    });
    port
}
