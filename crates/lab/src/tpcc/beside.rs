//! Terminals beside which somebody else works: those of the experiment `ch`, and an operator of `interference`.

use std::sync::atomic::AtomicBool;

use halcyon::Database;
use halcyon_neighbours::ch::{self, Options, Transacted, Transactions};
use halcyon_neighbours::{Failure, interference};

use super::engines::halcyon::{Halcyon, Setup};
use super::engines::{Client, Content, Engine};
use super::input::{Inputs, Mix};
use super::measured::Measured;
use super::random::{Random, Scale};
use super::run::{self, Until};
use crate::{Reporter, Result};

/// TPC-C's tables in Halcyon, and the terminals with their inputs.
pub struct Terminals {
    engine: Halcyon,
    clients: Vec<(Box<dyn Client>, Inputs)>,
}

impl Terminals {
    /// A terminal at a warehouse of its own; the side is the number of its inputs.
    pub fn of_side(side: usize, scale: Scale) -> Result<Self> {
        let engine = Halcyon::loaded(Content { scale, seed: 1 }, Setup::default())?;
        let inputs = Inputs::new(Random::new(scale, 1, side as u64), Mix::Standard, 0);
        let clients = vec![(engine.client()?, inputs)];
        Ok(Terminals { engine, clients })
    }
}

impl interference::Terminal for Terminals {
    fn run(&mut self, transactions: u64) -> halcyon_neighbours::Result<()> {
        let (client, inputs) = &mut self.clients[0];
        for _ in 0..transactions {
            run::until_done(client.as_mut(), &inputs.draw(), &mut [0; 3])?;
        }
        Ok(())
    }

    fn check(&self) -> halcyon_neighbours::Result<()> {
        Transactions::broken(self)?.map_or(Ok(()), |broken| Err(Failure::WrongAnswer(broken)))
    }
}

/// Runs the experiment `ch`: the tables and terminals are those of `lab tpcc`, with its standard mix.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let warehouses = i32::try_from(options.warehouses).expect("at most a thousand");
    let scale = if options.tiny { Scale::tiny(warehouses) } else { Scale::full(warehouses) };
    reporter.progress(format_args!("loading {warehouses} warehouses"));
    let setup = Setup { partitions: options.partitions, ..Setup::default() };
    let engine = Halcyon::loaded(Content { scale, seed: options.seed }, setup)?;
    let client = |number: u32| -> Result<(Box<dyn Client>, Inputs)> {
        let random = Random::new(scale, options.seed, u64::from(number));
        Ok((engine.client()?, Inputs::new(random, Mix::Standard, number)))
    };
    let clients = (0..options.clients).map(client).collect::<Result<_>>()?;
    Ok(ch::run(options, &mut Terminals { engine, clients }, reporter)?)
}

/// Runs the experiment `interference`, with a warehouse for each side, a tiny one beside few rows.
pub fn interference(options: &interference::Options, reporter: &mut Reporter) -> Result<()> {
    let scale = if options.rows < 100_000 { Scale::tiny(1) } else { Scale::full(1) };
    let terminal = |side| -> halcyon_neighbours::Result<Box<dyn interference::Terminal>> {
        Ok(Box::new(Terminals::of_side(side, scale)?))
    };
    Ok(interference::run(options, &terminal, reporter)?)
}

impl Transactions for Terminals {
    fn database(&self) -> &Database {
        self.engine.database()
    }

    fn run(&mut self, ended: &AtomicBool) -> halcyon_neighbours::Result<Transacted> {
        let mut measured = Measured::default();
        run::round_until(&mut self.clients, Until::Said(ended), &mut measured);
        match measured.failure {
            Some(failure) => Err(failure.into()),
            None => Ok(Transacted {
                per_s: measured.rates.median(),
                done: measured.done,
                aborts: measured.aborts.iter().sum(),
            }),
        }
    }

    fn broken(&self) -> halcyon_neighbours::Result<Option<String>> {
        Ok(Engine::broken(&self.engine)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_an_operator_and_keep_their_conditions() {
        let mut terminal = Terminals::of_side(1, Scale::tiny(1)).expect("a warehouse");
        interference::Terminal::run(&mut terminal, 50).expect("transactions");
        interference::Terminal::check(&terminal).expect("consistent");
        let mut session = terminal.engine.database().session();
        session.batch("UPDATE warehouse SET w_ytd = w_ytd + 1").expect("it may");
        let broken = interference::Terminal::check(&terminal);
        assert!(matches!(broken, Err(Failure::WrongAnswer(_))), "{broken:?}");
    }

    #[test]
    fn queries_beside_transactions_are_checked_and_counted() {
        let options = Options {
            warehouses: 1,
            clients: 2,
            partitions: 1,
            threads: 1,
            seconds: 0.05,
            rounds: 2,
            seed: 7,
            tiny: true,
        };
        let mut reporter = Reporter::new(true);
        run(&options, &mut reporter).expect("the experiment runs");
        let wrong: Vec<_> = reporter.arms().iter().filter(|arm| arm.check != "ok").collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(reporter.arms().len(), 22 + 4);
        let together = &reporter.arms()[25].figures;
        for name in ["tx_per_s", "queries_per_s", "snapshots", "copies", "tx_of_alone"] {
            assert!(together[name].as_f64() > Some(0.0), "{name}: {together:?}");
        }
        assert!(together["snapshots_checked"].as_u64() >= Some(44), "{together:?}");
    }
}
