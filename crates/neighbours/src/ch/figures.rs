//! Figures of the experiment, round by round, and the arms that it prints.

use std::time::Duration;

use halcyon::{Database, copies};
use halcyon_gauge::measure::Rounds;
use halcyon_gauge::{Arm, Reporter};

use super::analyst::{Turns, geometric_mean};
use super::queries::QUERIES;
use super::rest::AtRest;
use super::{Options, Round, Transacted};
use crate::foreign::FOREIGN_MAX;

/// What snapshots have cost: counts since a moment, or all together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    cuts: u64,
    asked: u64,
    pre_images: u64,
    waited: Duration,
    copies: u64,
    copied_bytes: u64,
    transactions: u64,
}

impl Costs {
    /// The counts of the database and of the process now.
    pub fn now(database: &Database) -> Costs {
        let (cuts, copies) = (database.snapshots(), copies());
        Costs {
            cuts: cuts.cuts,
            asked: cuts.asked,
            pre_images: cuts.pre_images,
            waited: cuts.waited,
            copies: copies.count,
            copied_bytes: copies.bytes,
            transactions: 0,
        }
    }

    /// What was added since `before`, in which so many transactions ran.
    pub fn since(self, before: Costs, transactions: u64) -> Costs {
        Costs {
            cuts: self.cuts - before.cuts,
            asked: self.asked - before.asked,
            pre_images: self.pre_images - before.pre_images,
            waited: self.waited.saturating_sub(before.waited),
            copies: self.copies - before.copies,
            copied_bytes: self.copied_bytes - before.copied_bytes,
            transactions,
        }
    }

    fn add(&mut self, other: Costs) {
        self.cuts += other.cuts;
        self.asked += other.asked;
        self.pre_images += other.pre_images;
        self.waited += other.waited;
        self.copies += other.copies;
        self.copied_bytes += other.copied_bytes;
        self.transactions += other.transactions;
    }

    fn report(&self, arm: &mut Arm) {
        let per_tx = self.copied_bytes as f64 / self.transactions.max(1) as f64;
        arm.figure("snapshots", self.cuts);
        arm.figure("snapshots_that_asked", self.asked);
        arm.figure("pre_images", self.pre_images);
        arm.rounded("cut_waits_ms", self.waited.as_secs_f64() * 1e3);
        arm.figure("copies", self.copies);
        arm.rounded("copied_mb", self.copied_bytes as f64 / f64::from(1 << 20));
        arm.rounded("copied_kb_per_tx", per_tx / 1024.0);
    }
}

/// Queries of an arm, by round.
#[derive(Clone, Debug)]
struct Queries {
    per_s: Rounds,
    mean_ms: Rounds,
    each_ms: Vec<Rounds>,
    pinned: usize,
}

impl Queries {
    fn new() -> Self {
        let each_ms = vec![Rounds::default(); QUERIES.len()];
        Queries { per_s: Rounds::default(), mean_ms: Rounds::default(), each_ms, pinned: 0 }
    }

    fn add(&mut self, turns: &Turns) {
        self.per_s.push(turns.per_s);
        self.mean_ms.push(turns.mean_ms);
        self.each_ms.iter_mut().zip(&turns.each_ms).for_each(|(all, one)| all.push(*one));
        self.pinned += turns.pinned;
    }

    fn report(&self, arm: &mut Arm) {
        arm.rounded("queries_per_s", self.per_s.median());
        arm.rounded("queries_spread", self.per_s.spread());
        arm.rounded("geometric_mean_ms", self.mean_ms.median());
        arm.figure("snapshots_checked", self.pinned);
    }
}

/// Transactions of an arm, by round.
#[derive(Clone, Debug, Default)]
struct Terminals {
    per_s: Rounds,
    done: u64,
    aborts: u64,
    costs: Costs,
}

impl Terminals {
    fn add(&mut self, transacted: Transacted, costs: Costs) {
        self.per_s.push(transacted.per_s);
        self.done += transacted.done;
        self.aborts += transacted.aborts;
        self.costs.add(costs);
    }

    fn report(&self, arm: &mut Arm) {
        arm.figure("tx_per_s", self.per_s.median().round());
        arm.rounded("tx_spread", self.per_s.spread());
        arm.figure("transactions", self.done);
        arm.figure("aborts", self.aborts);
        self.costs.report(arm);
    }
}

/// All that the experiment has found.
pub struct Found {
    loaded: Vec<AtRest>,
    alone: Queries,
    again: Queries,
    beside: Queries,
    transactions: Terminals,
    transactions_beside: Terminals,
    tx_ratio: Rounds,
    query_ratio: Rounds,
    /// Of the arm of queries alone that comes last to the first one: what no difference looks like.
    again_ratio: Rounds,
    /// Answers at rest after the rounds.
    pub ended: Vec<AtRest>,
    /// Consistency conditions that are broken after the rounds.
    pub broken: Option<String>,
    /// The longest time that a snapshot waited for a transaction.
    pub longest_cut: Duration,
    /// Share of the processors' time that other processes had.
    pub foreign: f64,
}

impl Found {
    /// Nothing but the answers at rest after loading.
    pub fn new(loaded: Vec<AtRest>) -> Self {
        Found {
            loaded,
            alone: Queries::new(),
            again: Queries::new(),
            beside: Queries::new(),
            transactions: Terminals::default(),
            transactions_beside: Terminals::default(),
            tx_ratio: Rounds::default(),
            query_ratio: Rounds::default(),
            again_ratio: Rounds::default(),
            ended: Vec::new(),
            broken: None,
            longest_cut: Duration::ZERO,
            foreign: 0.0,
        }
    }

    /// Adds a round.
    pub(super) fn add(&mut self, round: Round) {
        let alone = (round.alone.mean_ms + round.again.mean_ms) / 2.0;
        self.query_ratio.push(alone / round.beside.mean_ms);
        self.again_ratio.push(round.alone.mean_ms / round.again.mean_ms);
        self.tx_ratio.push(round.transactions_beside.per_s / round.transactions.per_s);
        self.alone.add(&round.alone);
        self.again.add(&round.again);
        self.beside.add(&round.beside);
        self.transactions.add(round.transactions, round.costs);
        self.transactions_beside.add(round.transactions_beside, round.costs_beside);
    }

    /// Prints an arm per query, then the four arms.
    pub fn report(&self, options: &Options, reporter: &mut Reporter) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let conclusive = self.foreign <= FOREIGN_MAX && cores > 1;
        if !conclusive {
            let foreign = self.foreign * 100.0;
            reporter.progress(format_args!(
                "inconclusive: other processes had {foreign:.0} % of {cores} processors"
            ));
        }
        let mut put = |mut arm: Arm| {
            arm.rounded("foreign_share", self.foreign);
            arm.figure("conclusive", conclusive);
            reporter.arm(arm);
        };
        (0..QUERIES.len()).for_each(|at| put(self.query(options, at)));
        for (name, queries) in [("queries", &self.alone), ("queries again", &self.again)] {
            let mut arm = Arm::new("ch", "halcyon", options.params(name));
            queries.report(&mut arm);
            put(arm);
        }
        let mut arm = Arm::new("ch", "halcyon", options.params("transactions"));
        self.transactions.report(&mut arm);
        put(arm);
        put(self.together(options));
    }

    fn query(&self, options: &Options, at: usize) -> Arm {
        let (loaded, ended) = (&self.loaded[at], &self.ended[at]);
        let mut arm = Arm::new("ch", "halcyon", options.params("query"));
        arm.figure("query", at + 1);
        arm.rounded("alone_ms", self.alone.each_ms[at].median());
        arm.rounded("again_ms", self.again.each_ms[at].median());
        arm.rounded("together_ms", self.beside.each_ms[at].median());
        arm.rounded("together_spread", self.beside.each_ms[at].spread());
        arm.rounded("rest_ms", ended.best_ms);
        arm.rounded("datafusion_ms", ended.datafusion_ms);
        arm.rounded("of_datafusion", ended.best_ms / ended.datafusion_ms);
        arm.figure("rows_loaded", loaded.rows);
        arm.figure("rows", ended.rows);
        if let Some(failure) = loaded.failure.as_ref().or(ended.failure.as_ref()) {
            arm.check = failure.to_string();
        }
        arm
    }

    fn together(&self, options: &Options) -> Arm {
        let mut arm = Arm::new("ch", "halcyon", options.params("together"));
        self.transactions_beside.report(&mut arm);
        self.beside.report(&mut arm);
        for (name, ratio) in [
            ("tx_of_alone", &self.tx_ratio),
            ("queries_of_alone", &self.query_ratio),
            ("again_of_alone", &self.again_ratio),
        ] {
            arm.rounded(name, ratio.median());
            arm.rounded(&format!("{name}_spread"), ratio.spread());
        }
        arm.rounded("longest_cut_ms", self.longest_cut.as_secs_f64() * 1e3);
        let slower: Vec<f64> =
            self.ended.iter().map(|rest| rest.best_ms / rest.datafusion_ms).collect();
        arm.rounded("of_datafusion", geometric_mean(&slower));
        if let Some(broken) = &self.broken {
            arm.check = broken.clone();
        }
        arm
    }
}
