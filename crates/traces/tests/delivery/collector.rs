//! A collector of traces for tests: it answers as told, and keeps what came as the generated types decode it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// The longest that a test waits for spans.
const PATIENCE: Duration = Duration::from_secs(20);

/// How the collector answers.
#[derive(Clone, Debug)]
pub struct Manner {
    pub status: u16,
    /// The pause before the answer.
    pub pause: Duration,
    /// Seconds of a header Retry-After.
    pub retry_after: Option<u64>,
    /// Spans that it says it has refused.
    pub refuses: i64,
}

impl Default for Manner {
    fn default() -> Self {
        Manner { status: 200, pause: Duration::ZERO, retry_after: None, refuses: 0 }
    }
}

/// What has come.
#[derive(Default)]
struct Inbox {
    manner: Manner,
    requests: Vec<(HeaderMap, ExportTraceServiceRequest)>,
    taken: Vec<Span>,
}

/// A collector at a free port, until it is dropped.
pub struct Collector {
    pub address: SocketAddr,
    inbox: Arc<Mutex<Inbox>>,
    _runtime: tokio::runtime::Runtime,
}

impl Collector {
    pub fn start() -> Collector {
        Collector::at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    pub fn at(address: SocketAddr) -> Collector {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a thread");
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let listener = runtime.block_on(tokio::net::TcpListener::bind(address)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::clone(&inbox);
        let connections = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let inbox = Arc::clone(&shared);
                let service = service_fn(move |request| take(Arc::clone(&inbox), request));
                let served = hyper::server::conn::http1::Builder::new();
                let stream = TokioIo::new(stream);
                tokio::spawn(async move { served.serve_connection(stream, service).await });
            }
        };
        runtime.spawn(connections);
        Collector { address, inbox, _runtime: runtime }
    }

    /// The address as `--otlp` takes it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn behave(&self, manner: Manner) {
        self.inbox.lock().expect("no panic").manner = manner;
    }

    /// Requests so far, also those that were answered with an error.
    pub fn requests(&self) -> Vec<(HeaderMap, ExportTraceServiceRequest)> {
        self.inbox.lock().expect("no panic").requests.clone()
    }

    /// Spans that were taken so far.
    pub fn spans(&self) -> Vec<Span> {
        self.inbox.lock().expect("no panic").taken.clone()
    }

    /// Waits until a span is there that `is` it; fails with all spans after [`PATIENCE`].
    pub fn wait_for(&self, what: &str, is: impl Fn(&Span) -> bool) -> Span {
        let start = Instant::now();
        loop {
            let spans = self.spans();
            if let Some(found) = spans.iter().find(|span| is(span)) {
                return found.clone();
            }
            let shown = spans.iter().map(|span| (&span.name, text(span, "db.query.text")));
            assert!(
                start.elapsed() < PATIENCE,
                "no span of {what} came: {:?}",
                shown.collect::<Vec<_>>()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Child spans of a span.
    pub fn children(&self, parent: &Span) -> Vec<Span> {
        let mut spans = self.spans();
        spans.retain(|span| span.parent_span_id == parent.span_id);
        spans
    }
}

async fn take(
    inbox: Arc<Mutex<Inbox>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    assert_eq!(request.uri().path(), "/v1/traces");
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let request = ExportTraceServiceRequest::decode(body).expect("a request of OTLP");
    let manner = {
        let mut inbox = inbox.lock().expect("no panic");
        inbox.requests.push((head.headers, request.clone()));
        inbox.manner.clone()
    };
    tokio::time::sleep(manner.pause).await;
    let mut answer = Response::builder().status(manner.status);
    if let Some(seconds) = manner.retry_after {
        answer = answer.header("retry-after", seconds);
    }
    if manner.status != 200 {
        return Ok(answer.body(Full::default()).expect("a status"));
    }
    let scopes = request.resource_spans.into_iter().flat_map(|own| own.scope_spans);
    inbox.lock().expect("no panic").taken.extend(scopes.flat_map(|scope| scope.spans));
    let partial = (manner.refuses > 0).then(|| ExportTracePartialSuccess {
        rejected_spans: manner.refuses,
        error_message: "too many".into(),
    });
    let told = ExportTraceServiceResponse { partial_success: partial }.encode_to_vec();
    Ok(answer.body(Full::from(told)).expect("a body"))
}

/// An attribute.
pub fn attribute(span: &Span, key: &str) -> Option<Value> {
    let found = span.attributes.iter().find(|own| own.key == key)?;
    found.value.clone()?.value
}

/// An attribute that is a text; empty without one.
pub fn text(span: &Span, key: &str) -> String {
    match attribute(span, key) {
        Some(Value::StringValue(text)) => text,
        _ => String::new(),
    }
}

/// An attribute that is a number.
#[allow(dead_code)] // not each test asks for one
pub fn number(span: &Span, key: &str) -> Option<f64> {
    match attribute(span, key)? {
        Value::IntValue(number) => Some(number as f64),
        Value::DoubleValue(number) => Some(number),
        _ => None,
    }
}
