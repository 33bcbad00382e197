//! The tracer: a bounded queue between statements that end and the thread that sends them.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use halcyon_base::clock::Moment;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::config::{Config, StartError};
use crate::context::{Context, TraceId};
use crate::otlp;
use crate::post::{Post, Undelivered};
use crate::span::{Finished, Recording, Sink};

/// Tries of a batch.
const TRIES_MAX: u32 = 5;
/// Pause behind the first failed try; each next one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, also of those that a collector asks for.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Least time between two lines of the log about a collector that is away.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Statements on their way to the collector.
pub struct Tracer {
    config: Config,
    queue: Mutex<Vec<Finished>>,
    /// Notified when a batch is full, and at the end.
    due: Notify,
    is_ending: AtomicBool,
    counts: Counters,
    /// Disconnected when the thread has ended.
    thread: Mutex<Option<mpsc::Receiver<()>>>,
}

#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
}

/// Statements by what has become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Statements that the collector has taken.
    pub sent: u64,
    /// Statements for which the queue had no room.
    pub dropped: u64,
    /// Statements that could not be delivered: the collector was away, or answered with an error.
    pub failed: u64,
    /// Spans that the collector has refused of a request that it took. A statement has several.
    pub refused: u64,
    /// Statements that wait to be sent.
    pub waiting: u64,
}

impl Tracer {
    /// Starts the thread that sends.
    pub fn start(config: Config) -> Result<Arc<Tracer>, StartError> {
        let post = Post::new(&config)?;
        let (alive, ended) = mpsc::channel();
        let tracer = Arc::new(Tracer {
            config,
            queue: Mutex::default(),
            due: Notify::new(),
            is_ending: AtomicBool::new(false),
            counts: Counters::default(),
            thread: Mutex::new(Some(ended)),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let sender = Sender { tracer: Arc::clone(&tracer), post, told: None, is_away: false };
        let run = move || {
            let _alive = alive;
            runtime.block_on(sender.run());
            // A name that is still being looked up ends by itself.
            runtime.shutdown_background();
        };
        let named = thread::Builder::new().name("halcyon-traces".into());
        named.spawn(run).map_err(StartError::Thread)?;
        Ok(tracer)
    }

    /// Begins to record a statement that has begun at `from`; `None` if the sampler leaves it out. `parent`: the
    /// client's span, if it has told of one.
    pub fn begin(self: &Arc<Self>, parent: Option<Context>, from: Moment) -> Option<Recording> {
        let trace = parent.as_ref().map_or_else(TraceId::random, |parent| parent.trace);
        let takes = self.config.sampler.takes(trace, parent.as_ref());
        takes.then(|| Recording::new(Arc::<Self>::clone(self), trace, parent, from))
    }

    /// What has become of statements so far.
    pub fn counts(&self) -> Counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            sent: count(&self.counts.sent),
            dropped: count(&self.counts.dropped),
            failed: count(&self.counts.failed),
            refused: count(&self.counts.refused),
            waiting: self.queue.lock().len() as u64,
        }
    }

    /// Sends what waits, once, and ends the thread. Returns after `limit` at the latest: what was not sent by then
    /// is lost.
    pub fn end(&self, limit: Duration) {
        let Some(ended) = self.thread.lock().take() else { return };
        self.is_ending.store(true, Ordering::Release);
        self.due.notify_one();
        if ended.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!(?limit, "the collector of traces has not answered in time");
        }
        let counts = self.counts();
        if counts.dropped + counts.failed + counts.waiting > 0 {
            let Counts { sent, dropped, failed, waiting, .. } = counts;
            tracing::warn!(sent, dropped, failed, waiting, "statements were lost to traces");
        }
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// The statements that have waited longest.
    fn next_batch(&self) -> Vec<Finished> {
        let mut queue = self.queue.lock();
        match queue.len() <= self.config.batch {
            true => mem::take(&mut *queue),
            false => queue.drain(..self.config.batch).collect(),
        }
    }
}

impl Sink for Tracer {
    fn take(&self, span: Finished) {
        if span.took() < self.config.least && span.error.is_none() {
            return;
        }
        let waiting = {
            let mut queue = self.queue.lock();
            if queue.len() >= self.config.queue {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            queue.push(span);
            queue.len()
        };
        if waiting == self.config.batch {
            self.due.notify_one();
        }
    }
}

/// The thread's own part.
struct Sender {
    tracer: Arc<Tracer>,
    post: Post,
    /// When the log was last told that the collector is away.
    told: Option<Instant>,
    is_away: bool,
}

impl Sender {
    async fn run(mut self) {
        while !self.tracer.is_ending() {
            let delay = tokio::time::sleep(self.tracer.config.delay);
            tokio::select! {
                () = self.tracer.due.notified() => {}
                () = delay => {}
            }
            self.send_all().await;
        }
        self.send_all().await;
    }

    async fn send_all(&mut self) {
        loop {
            let batch = self.tracer.next_batch();
            if batch.is_empty() {
                return;
            }
            let body = Bytes::from(otlp::request(&self.tracer.config.resource, &batch));
            self.deliver(body, batch.len() as u64).await;
        }
    }

    async fn deliver(&mut self, body: Bytes, statements: u64) {
        let tracer = Arc::clone(&self.tracer);
        let mut pause = PAUSE;
        for attempt in 1.. {
            let Undelivered { reason, retry } = match self.post.send(body.clone()).await {
                Ok(answer) => {
                    tracer.counts.sent.fetch_add(statements, Ordering::Relaxed);
                    return self.delivered(&answer);
                }
                Err(undelivered) => undelivered,
            };
            self.tell_away(&reason);
            let Some(after) = retry.filter(|_| attempt < TRIES_MAX && !tracer.is_ending()) else {
                break;
            };
            let after = after.unwrap_or(pause).min(PAUSE_MAX);
            pause *= 2;
            let until = Instant::now() + after;
            while Instant::now() < until && !tracer.is_ending() {
                // Full batches notify meanwhile, too.
                let left = tokio::time::sleep(until.saturating_duration_since(Instant::now()));
                tokio::select! {
                    () = tracer.due.notified() => {}
                    () = left => {}
                }
            }
        }
        tracer.counts.failed.fetch_add(statements, Ordering::Relaxed);
    }

    fn delivered(&mut self, answer: &[u8]) {
        let (refused, why) = otlp::refused(answer);
        self.tracer.counts.refused.fetch_add(refused, Ordering::Relaxed);
        if refused > 0 {
            tracing::warn!(spans = refused, why, "the collector of traces has refused spans");
        }
        if mem::take(&mut self.is_away) {
            tracing::info!("the collector of traces takes them again");
        }
    }

    fn tell_away(&mut self, reason: &str) {
        self.is_away = true;
        if self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            self.told = Some(Instant::now());
            let endpoint = &self.tracer.config.endpoint;
            tracing::warn!(%endpoint, reason, "traces cannot be delivered");
        }
    }
}
