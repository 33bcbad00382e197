//! Spans in OpenTelemetry's wire format (OTLP 1, `ExportTraceServiceRequest`), by the names of its semantic
//! conventions for databases (version 1.38).

use halcyon_base::clock::{self, Moment};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Wire;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;

use crate::context::SpanId;
use crate::query;
use crate::span::{Finished, Phase, Value};

/// The conventions that the attributes' names follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.38.0";
/// `SpanFlags`: the lowest bit says that the span is sampled.
const SAMPLED: u32 = 1;
/// `SpanFlags`: whether the parent is another program's is known, and it is.
const PARENT_IS_REMOTE: u32 = 0x300;
/// `SpanFlags`: the same is known, and it is not.
const PARENT_IS_OWN: u32 = 0x100;

/// Moments of the monotonic clock as times since 1970. The two are compared once a batch.
struct Anchor {
    now: Moment,
    now_ns: u64,
}

impl Anchor {
    fn new() -> Anchor {
        let now_ns = u64::try_from(clock::wall_us()).unwrap_or(0).saturating_mul(1_000);
        Anchor { now: clock::now(), now_ns }
    }

    /// Nanoseconds since 1970.
    fn ns(&self, moment: Moment) -> u64 {
        self.now_ns.saturating_sub(self.now.0).saturating_add(moment.0)
    }
}

/// The body of a request with statements. `resource`: attributes of the server.
pub(crate) fn request(resource: &[(String, String)], statements: &[Finished]) -> Vec<u8> {
    let anchor = Anchor::new();
    let attributes =
        resource.iter().map(|(key, value)| pair(key, Wire::StringValue(value.clone()))).collect();
    let scope = InstrumentationScope {
        name: "halcyon".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    let spans = statements.iter().flat_map(|statement| spans(statement, &anchor)).collect();
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans, schema_url: SCHEMA.into() }],
            schema_url: SCHEMA.into(),
        }],
    };
    request.encode_to_vec()
}

/// Spans that the collector has refused, and why; zero if the answer says of none, or cannot be read.
pub(crate) fn refused(answer: &[u8]) -> (u64, String) {
    let answer = ExportTraceServiceResponse::decode(answer).ok();
    let partial = answer.and_then(|answer| answer.partial_success).unwrap_or_default();
    (u64::try_from(partial.rejected_spans).unwrap_or(0), partial.error_message)
}

/// A statement's span, and its children.
fn spans(statement: &Finished, anchor: &Anchor) -> impl Iterator<Item = Span> {
    let trace_id = statement.trace.0.to_vec();
    let state = statement.parent.as_ref().map_or_else(String::new, |own| own.state.to_string());
    let span = |id: SpanId, name: &str, from: Moment, to: Moment| Span {
        trace_id: trace_id.clone(),
        span_id: id.0.to_vec(),
        trace_state: state.clone(),
        name: name.to_owned(),
        start_time_unix_nano: anchor.ns(from),
        end_time_unix_nano: anchor.ns(to),
        ..Span::default()
    };
    let own = Span {
        parent_span_id: statement.parent.as_ref().map_or(Vec::new(), |own| own.span.0.to_vec()),
        flags: SAMPLED | if statement.parent.is_some() { PARENT_IS_REMOTE } else { PARENT_IS_OWN },
        kind: SpanKind::Server.into(),
        attributes: attributes(statement),
        status: statement.error.as_ref().map(|(_, message)| Status {
            code: StatusCode::Error.into(),
            message: message.clone(),
        }),
        ..span(statement.span, &statement.name, statement.from, statement.to)
    };
    let children: Vec<Span> = (statement.stretches.iter())
        .map(|stretch| Span {
            parent_span_id: statement.span.0.to_vec(),
            flags: SAMPLED | PARENT_IS_OWN,
            kind: SpanKind::Internal.into(),
            ..span(SpanId::random(), stretch.phase.name(), stretch.from, stretch.to)
        })
        .collect();
    std::iter::once(own).chain(children)
}

fn attributes(statement: &Finished) -> Vec<KeyValue> {
    let text = |text: &str| Wire::StringValue(text.to_owned());
    let mut all = vec![pair("db.system.name", text("halcyon"))];
    all.extend(statement.attributes.iter().map(|(key, value)| {
        let value = match value {
            Value::Text(value) => text(value),
            Value::Query(value) => Wire::StringValue(query::sanitised(value)),
            Value::Int(value) => Wire::IntValue(*value),
            Value::Float(value) => Wire::DoubleValue(*value),
            Value::Bool(value) => Wire::BoolValue(*value),
        };
        pair(key, value)
    }));
    if let Some((state, _)) = &statement.error {
        all.push(pair("db.response.status_code", text(state)));
        all.push(pair("error.type", text(state)));
    }
    let sums = Phase::ALL.into_iter().zip(&statement.sums).filter(|(_, sum)| !sum.is_zero());
    all.extend(
        sums.map(|(phase, sum)| pair(phase.attribute(), Wire::DoubleValue(sum.as_secs_f64()))),
    );
    all
}

fn pair(key: &str, value: Wire) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}
