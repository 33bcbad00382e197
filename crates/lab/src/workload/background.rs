//! Connections that send analytical statements and writes without end, more of them from step to step.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls};

use super::statements::{Sizes, Writer, report};
use crate::open_loop::Outcome;
use crate::programs::Program;
use crate::{Failure, Result};

/// Statements that ended so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Analytical statements.
    pub reports: u64,
    /// Statements of writers.
    pub etl: u64,
    /// Statements of both kinds that the server had no room for.
    pub rejected: u64,
}

/// What connections tell.
#[derive(Default)]
struct Told {
    reports: AtomicU64,
    etl: AtomicU64,
    rejected: AtomicU64,
    failure: Mutex<Option<Failure>>,
}

/// The load beside *web*. Its connections close when it is dropped, whatever they wait for.
pub struct Background {
    runtime: Option<Runtime>,
    reports: Config,
    etl: Config,
    sizes: Sizes,
    writers: u32,
    told: Arc<Told>,
}

impl Background {
    /// No connection yet. All share one thread: they only wait.
    pub fn new(program: &Program, sizes: Sizes) -> Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        Ok(Background {
            runtime: Some(builder.worker_threads(1).enable_all().build()?),
            reports: program.config("report"),
            etl: program.config("etl"),
            sizes,
            writers: 0,
            told: Arc::default(),
        })
    }

    /// So many more analytical connections, and as many writers, each with a table of its own.
    pub fn add(&mut self, count: u32) {
        let runtime = self.runtime.as_ref().expect("it is taken when dropped");
        for _ in 0..count {
            let (told, sizes) = (Arc::clone(&self.told), self.sizes);
            let config = self.reports.clone();
            runtime.spawn(async move { told.keep(reports(&config, sizes, &told).await) });
            let told = Arc::clone(&self.told);
            let (config, writer) = (self.etl.clone(), Writer::new(self.writers, sizes));
            runtime.spawn(async move { told.keep(writes(&config, writer, &told).await) });
            self.writers += 1;
        }
    }

    /// Statements so far; the first failure of any connection.
    pub fn counts(&self) -> Result<Counts> {
        let told = &self.told;
        let failure = told.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.clone() {
            Some(failure) => Err(failure),
            None => Ok(Counts {
                reports: told.reports.load(Relaxed),
                etl: told.etl.load(Relaxed),
                rejected: told.rejected.load(Relaxed),
            }),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Told {
    /// Keeps the first failure.
    fn keep(&self, ended: Result<()>) {
        if let Err(failure) = ended {
            let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(failure);
        }
    }

    /// Counts a statement's end. A connection whose statement was rejected waits a little, as the server asks.
    async fn count(&self, outcome: Outcome, answered: &AtomicU64) {
        match outcome {
            Outcome::Answered => {
                answered.fetch_add(1, Relaxed);
            }
            _ => {
                self.rejected.fetch_add(1, Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn open(config: &Config) -> Result<Client> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn reports(config: &Config, sizes: Sizes, told: &Told) -> Result<()> {
    let client = open(config).await?;
    loop {
        told.count(report(&client, sizes).await?, &told.reports).await;
    }
}

async fn writes(config: &Config, mut writer: Writer, told: &Told) -> Result<()> {
    let client = open(config).await?;
    loop {
        told.count(writer.run(&client).await?, &told.etl).await;
    }
}
