//! What recording costs a statement's thread, as one JSON object: nanoseconds per statement, the least and the median of
//! several rounds. Nobody listens at the address, so that most statements are dropped, which costs as much as a place in
//! the queue, less the memory that a place keeps.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use halcyon_base::clock;
use halcyon_traces::{Commented, Config, Phase, Tracer, Value};

const ROUNDS: usize = 9;
const STATEMENTS: u32 = 100_000;

/// Nanoseconds per call: least and median of the rounds.
fn measure(mut work: impl FnMut()) -> String {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            (0..STATEMENTS).for_each(|_| work());
            began.elapsed().as_nanos() as f64 / f64::from(STATEMENTS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    format!("{{\"least\": {:.1}, \"median\": {:.1}}}", rounds[0], rounds[ROUNDS / 2])
}

fn record(tracer: &Arc<Tracer>, text: &Arc<str>) {
    let Some(mut recording) = tracer.begin(None, clock::now()) else { return };
    recording.name("SELECT", Some("item"));
    recording.set("db.operation.name", Value::Text("SELECT".into()));
    recording.set("db.query.text", Value::Query(Arc::clone(text)));
    recording.set("client.address", Value::Text("127.0.0.1".to_owned().into()));
    for phase in [Phase::Plan, Phase::Run, Phase::Client] {
        recording.enter(phase);
    }
}

fn main() {
    let tracer = |sampler: &str| {
        let value = |name: &str| (name == "OTEL_TRACES_SAMPLER").then(|| sampler.to_owned());
        let config = Config::new(Some("http://127.0.0.1:9"), value).expect("no mistake");
        Tracer::start(config.expect("an address")).expect("a thread")
    };
    let (all, none) = (tracer("always_on"), tracer("always_off"));
    let text: Arc<str> = "SELECT name FROM item WHERE id = $1".into();
    let commented = format!(
        "{text} /*route='%2Fitems',traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/"
    );
    let looked = measure(|| {
        black_box(Commented::divide(black_box(&text)));
    });
    let read = measure(|| {
        let comment = Commented::divide(black_box(&commented)).expect("a comment");
        black_box(comment.context());
    });
    let unsampled = measure(|| drop(black_box(none.begin(None, clock::now()))));
    let recorded = measure(|| record(&all, &text));
    println!(
        "{{\"experiment\": \"traces\", \"unit\": \"ns per statement\", \"figures\": {{\"no_comment\": {looked}, \
         \"comment\": {read}, \"unsampled\": {unsampled}, \"recorded\": {recorded}}}, \"dropped\": {}}}",
        all.counts().dropped
    );
}
