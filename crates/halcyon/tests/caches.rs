//! Statements on divided caches: a database on machines that are not there, whose resctrl is a fake of Intel's and
//! AMD's. Masks as expected, right answers, and the tree as it was, whatever happens.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use halcyon::{Database, DatabaseOptions, Session, Workers};
use halcyon_cache::fake::{Fake, Faulty, Profile};
use halcyon_cache::{Place, ResctrlFs};
use halcyon_machine::Topology;
use halcyon_workers::Bed;

/// A machine of eight processors on two islands, whose journals go away with the test.
struct Machine {
    /// Processors of an island.
    island: u32,
    fake: Arc<Fake>,
    folder: PathBuf,
    before: BTreeMap<String, String>,
}

impl Machine {
    fn new(profile: Profile) -> Machine {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("halcyon-caches-{}-{count}", std::process::id());
        let fake = Arc::new(Fake::new(profile));
        let before = fake.configuration();
        Machine { island: 4, fake, folder: std::env::temp_dir().join(folder), before }
    }

    /// `setting`: what is given at the start; `None`: the default, which ALTER SYSTEM may change.
    fn database_on(
        &self,
        tree: Arc<dyn ResctrlFs>,
        processors: u32,
        setting: Option<&str>,
    ) -> Database {
        let mut topology = Topology::flat(&(0..processors).collect::<Vec<_>>());
        for processor in &mut topology.processors {
            processor.island = processor.cpu / self.island;
        }
        let bed = Bed::new(topology, Place::fake(tree, &self.folder));
        let workers = Workers { bed: Some(bed), ..Workers::default() };
        let mut options = DatabaseOptions { workers, ..DatabaseOptions::default() };
        if let Some(setting) = setting {
            options.set("cache_partitioning", setting).expect("a switch");
        }
        Database::with_options(options)
    }

    fn database(&self, setting: Option<&str>) -> Database {
        self.database_on(self.fake.clone(), 8, setting)
    }

    fn journals(&self) -> usize {
        std::fs::read_dir(&self.folder).map_or(0, Iterator::count)
    }

    fn is_as_before(&self) -> bool {
        self.fake.check();
        self.fake.configuration() == self.before
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn run(session: &mut Session, text: &str) {
    session.batch(text).unwrap_or_else(|error| panic!("{text}: {error}"));
}

fn one(session: &mut Session, text: &str) -> String {
    let mut found = session.query(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
    let row = found.next().expect("no error").expect("a row");
    row.get::<String>(0).expect("a text")
}

fn load(session: &mut Session) {
    run(
        session,
        "CREATE TABLE n AS SELECT i AS v, i % 100 AS k FROM generate_series(1, 20000) AS s(i);
         CREATE WORKLOAD CLASS scans SET 'CACHE CLASS' = 'POLLUTING';
         CREATE WORKLOAD CLASS joins SET 'CACHE CLASS' = 'SENSITIVE';
         CREATE WORKLOAD MAPPING scans WORKLOAD CLASS scans SET 'APPLICATION NAME' = 'scans';
         CREATE WORKLOAD MAPPING joins WORKLOAD CLASS joins SET 'APPLICATION NAME' = 'joins'",
    );
}

/// Statements of all three kinds, beside each other.
fn statements_are_right(database: &Database) {
    let work = |name: &'static str| {
        let mut session = database.session();
        std::thread::spawn(move || {
            run(&mut session, &format!("SET application_name = '{name}'"));
            for _ in 0..10 {
                assert_eq!(one(&mut session, "SELECT sum(v)::text FROM n"), "200010000");
                let groups = "SELECT count(*)::text FROM (SELECT k, sum(v) FROM n GROUP BY k) AS g";
                assert_eq!(one(&mut session, groups), "100");
                let join =
                    "SELECT count(*)::text FROM n AS a JOIN n AS b ON a.v = b.v WHERE b.k < 50";
                assert_eq!(one(&mut session, join), "10000");
            }
        })
    };
    for thread in ["scans", "joins", "others"].map(work) {
        thread.join().expect("all answers are right");
    }
}

#[test]
fn statements_run_on_divided_caches_and_the_tree_is_as_it_was_afterwards() {
    for (profile, mask) in [
        (Profile::broadwell(), "c0000"),
        (Profile::broadwell_cdp(), "c0000"),
        (Profile::skylake(), "400"),
        (Profile::sparse(), "101"),
        (Profile::epyc(), "c000"),
    ] {
        let machine = Machine::new(profile);
        let database = machine.database(Some("on"));
        let mut session = database.session();
        let shown = "SELECT string_agg(DISTINCT state || ' ' || coalesce(mask, '?') || ' ' || processors, ';')
                     FROM halcyon.cache WHERE \"group\" = 'polluting'";
        assert_eq!(one(&mut session, shown), format!("on {mask} 3,7"));
        load(&mut session);
        statements_are_right(&database);
        run(&mut session, "ALTER SYSTEM SET polluting_workers = 1");
        statements_are_right(&database);
        database.close();
        assert!(machine.is_as_before(), "closed");
        let reason = "SELECT DISTINCT reason FROM halcyon.cache";
        assert_eq!(one(&mut session, reason), "the database is closed");
    }
}

#[test]
fn masks_are_off_unless_somebody_turns_them_on_and_dropping_the_database_gives_them_back() {
    let machine = Machine::new(Profile::epyc());
    let database = machine.database(None);
    let mut session = database.session();
    load(&mut session);
    statements_are_right(&database);
    assert!(machine.is_as_before() && machine.journals() == 0);
    run(&mut session, "ALTER SYSTEM SET cache_partitioning = on");
    assert!(!machine.is_as_before() && machine.journals() == 1);
    statements_are_right(&database);
    drop((session, database));
    assert!(machine.is_as_before() && machine.journals() == 0);
}

#[test]
fn a_machine_that_cannot_says_why_and_works_as_before() {
    let off = |machine: &Machine, database: &Database, why: &str| {
        let mut session = database.session();
        let reason = one(&mut session, "SELECT DISTINCT reason FROM halcyon.cache");
        assert!(reason.contains(why), "{reason}");
        assert_eq!(
            one(&mut session, "SELECT count(*)::text FROM halcyon.cache WHERE state = 'off'"),
            "3"
        );
        load(&mut session);
        statements_are_right(database);
        assert!(machine.is_as_before());
    };
    let machine = Machine::new(Profile::broadwell());
    let database = machine.database_on(machine.fake.clone(), 2, Some("on"));
    off(&machine, &database, "the workers have 2 processors, and 3 are the least");
    let machine = Machine::new(Profile::bandwidth_only());
    off(
        &machine,
        &machine.database(Some("on")),
        "resctrl divides no last-level cache on this machine",
    );
}

#[test]
fn a_fault_at_every_change_leaves_the_engine_running_undivided() {
    // Two folders, two lines of masks, two lists of processors.
    for at in 0..6 {
        let machine = Machine::new(Profile::broadwell());
        let passed = AtomicUsize::new(0);
        let pass = move || match passed.fetch_add(1, Ordering::Relaxed) == at {
            true => Err(io::Error::other("a fault")),
            false => Ok(()),
        };
        let tree = Faulty::new(machine.fake.clone(), pass);
        let database = machine.database_on(Arc::new(tree), 8, Some("on"));
        let mut session = database.session();
        let reason =
            one(&mut session, "SELECT DISTINCT reason FROM halcyon.cache WHERE state = 'off'");
        assert!(reason.contains("a fault"), "{at}: {reason}");
        assert!(machine.is_as_before() && machine.journals() == 0, "fault {at}");
        run(&mut session, "CREATE TABLE n AS SELECT i AS v FROM generate_series(1, 1000) AS s(i)");
        assert_eq!(one(&mut session, "SELECT sum(v)::text FROM n"), "500500");
    }
}

#[test]
fn what_a_killed_database_left_is_undone_when_the_next_one_begins() {
    let machine = Machine::new(Profile::broadwell());
    let killed = machine.database(Some("on"));
    assert_eq!(machine.journals(), 1);
    let journal = std::fs::read_dir(&machine.folder).expect("a folder").next();
    let journal = journal.expect("a journal").expect("an entry").path();
    let text = std::fs::read_to_string(&journal).expect("a text");
    drop(killed);
    assert!(machine.is_as_before());
    // As if the drop had not come: its groups are there, its journal is, and its process, of another number, is not.
    let gone = text.replacen(&format!("owner {} ", std::process::id()), "owner 4194303 ", 1);
    assert_ne!(gone, text);
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("group"), Some(name), _) => machine.fake.make_folder(name).expect("room"),
            (Some("masks"), Some(name), Some(line)) => {
                machine
                    .fake
                    .write(&format!("{name}/schemata"), &format!("{line}\n"))
                    .expect("sound");
            }
            (Some("cpus"), Some(name), Some(list)) => {
                machine
                    .fake
                    .write(&format!("{name}/cpus_list"), &format!("{list}\n"))
                    .expect("free");
            }
            _ => {}
        }
    }
    std::fs::write(&journal, gone).expect("it can be written");
    assert!(!machine.is_as_before());
    let next = machine.database(None);
    assert!(machine.is_as_before() && machine.journals() == 0);
    drop(next);
}

/// Workers that run a session's statement, looked at for a while.
fn workers_of(watcher: &mut Session, session: u32) -> BTreeSet<String> {
    let text = format!(
        "SELECT coalesce(string_agg(worker::text, ','), '') FROM halcyon.workers WHERE session = {session}"
    );
    let seen: Vec<String> = (0..30).map(|_| one(watcher, &text)).collect();
    let workers = seen.iter().flat_map(|workers| workers.split(','));
    workers.filter(|worker| !worker.is_empty()).map(str::to_owned).collect()
}

#[test]
fn statements_of_both_kinds_keep_to_their_workers_while_both_are_there() {
    // On two islands they would be apart anyway.
    let mut machine = Machine::new(Profile::broadwell());
    machine.island = 8;
    let database = machine.database(Some("on"));
    let mut watcher = database.session();
    load(&mut watcher);
    let mut sessions = ["scans", "joins"].map(|name| {
        let mut session = database.session();
        run(&mut session, &format!("SET application_name = '{name}'"));
        session
    });
    let numbers = sessions.each_ref().map(Session::id);
    // Its only row comes in an hour.
    let long = "SELECT count(*) FROM (SELECT a.v FROM n a, n b, n c WHERE a.v + b.v + c.v > 0) q";
    let open = sessions.each_mut().map(|session| session.query(long, &[]).expect("it begins"));
    let began = Instant::now();
    let used = loop {
        let used = numbers.map(|number| workers_of(&mut watcher, number));
        if used.iter().all(|workers| !workers.is_empty()) {
            break used;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{used:?}");
    };
    let polluting = ["6", "7"].map(str::to_owned);
    assert!(used[0].iter().all(|worker| polluting.contains(worker)), "{used:?}");
    assert!(!used[1].iter().any(|worker| polluting.contains(worker)), "{used:?}");
    drop(open);
}
