//! Whatever happens, the tree is as it was before, but for what others did to it: random sequences of
//! operations, a fault at every write, a crash at every write.

use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use halcyon_cache::fake::{CALLER, Fake, Faulty, Profile};
use halcyon_cache::journal::{Journal, Note};
use halcyon_cache::partition::Why;
use halcyon_cache::undo::{undo, undo_after_crash};
use halcyon_cache::{CpuSplit, Partition, Refused, ResctrlFs, Settings};
use proptest::prelude::*;

/// A journal in memory that outlives its partition, and fails when it is told to.
#[derive(Clone, Default)]
struct Notes {
    notes: Arc<Mutex<Vec<Note>>>,
    faults: Arc<Faults>,
}

impl Journal for Notes {
    fn note(&mut self, note: &Note) -> io::Result<()> {
        self.faults.pass()?;
        self.notes.lock().expect("no test panicked").push(note.clone());
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.notes.lock().expect("no test panicked").clear();
        Ok(())
    }
}

impl Notes {
    fn all(&self) -> Vec<Note> {
        self.notes.lock().expect("no test panicked").clone()
    }
}

/// Counts changes; the chosen one fails, once or with all behind it.
struct Faults {
    passed: AtomicUsize,
    at: AtomicUsize,
    last: AtomicUsize,
    error: i32,
}

impl Default for Faults {
    fn default() -> Self {
        Faults::new(usize::MAX, 0, libc::EIO)
    }
}

impl Faults {
    fn new(at: usize, count: usize, error: i32) -> Faults {
        let last = at.saturating_add(count);
        Faults { passed: AtomicUsize::new(0), at: at.into(), last: last.into(), error }
    }

    fn pass(&self) -> io::Result<()> {
        let number = self.passed.fetch_add(1, Ordering::Relaxed);
        let faulty = self.at.load(Ordering::Relaxed)..self.last.load(Ordering::Relaxed);
        match faulty.contains(&number) {
            true => Err(io::Error::from_raw_os_error(self.error)),
            false => Ok(()),
        }
    }
}

fn split(polluting: usize) -> CpuSplit {
    CpuSplit::of(&[vec![0, 1, 2, 3], vec![4, 5, 6, 7]], polluting)
}

fn settings() -> Settings {
    Settings { prefix: "halcyon-t-".to_owned(), ..Settings::default() }
}

fn turn_on(fake: &Arc<Fake>, notes: &Notes) -> Result<Partition, Refused> {
    let faults = notes.faults.clone();
    let tree = Arc::new(Faulty::new(fake.clone(), move || faults.pass()));
    Partition::turn_on(tree, Box::new(notes.clone()), &settings(), &split(1), None)
}

/// Changes of a whole life: on, other processors, off.
fn whole_life(fake: &Arc<Fake>, notes: &Notes) -> Result<Vec<String>, Refused> {
    let partition = turn_on(fake, notes)?;
    let later = Instant::now() + Duration::from_secs(2);
    let (partition, _) = partition.rebalance(&split(2), later)?;
    Ok(partition.turn_off())
}

fn changes_of_a_whole_life() -> usize {
    let notes = Notes::default();
    let left = whole_life(&Arc::new(Fake::new(Profile::broadwell())), &notes);
    assert_eq!(left.expect("no fault"), Vec::<String>::new());
    notes.faults.passed.load(Ordering::Relaxed)
}

#[test]
fn a_fault_at_every_write_leaves_the_tree_as_it_was_and_says_so_once() {
    let changes = changes_of_a_whole_life();
    assert!(changes >= 14, "{changes}");
    for profile in [Profile::broadwell(), Profile::epyc(), Profile::haswell()] {
        for at in 0..changes {
            for error in [libc::EIO, libc::EPERM, libc::ENOSPC] {
                let fake = Arc::new(Fake::new(profile.clone()));
                let before = fake.configuration();
                let faults = Arc::new(Faults::new(at, 1, error));
                let notes = Notes { faults, ..Notes::default() };
                match whole_life(&fake, &notes) {
                    Err(refused) => {
                        assert!(matches!(refused.why, Why::Io { .. }), "{refused}");
                        assert!(refused.to_string().contains("the cache is not partitioned"));
                        assert_eq!(refused.left, Vec::<String>::new());
                    }
                    // A fault while undoing: what stays is told, and the next process undoes it.
                    Ok(left) => {
                        assert_eq!(left.len(), 1, "{left:?}");
                        assert!(!notes.all().is_empty());
                        assert_eq!(undo(&*fake, &notes.all()).all(), Vec::<String>::new());
                    }
                }
                fake.check();
                assert_eq!(fake.configuration(), before, "fault {at}");
            }
        }
    }
}

#[test]
fn if_everything_fails_from_some_write_on_the_journal_undoes_it_later() {
    for at in 0..changes_of_a_whole_life() {
        let fake = Arc::new(Fake::new(Profile::broadwell()));
        let before = fake.configuration();
        let faults = Arc::new(Faults::new(at, usize::MAX, libc::EIO));
        let mut notes = Notes { faults, ..Notes::default() };
        drop(whole_life(&fake, &notes));
        let left_by_it = notes.all();
        let left = undo_after_crash(&*fake, &mut notes, &left_by_it).expect("no lock is held");
        assert_eq!(left.all(), Vec::<String>::new());
        assert_eq!(fake.configuration(), before, "fault {at}");
        assert_eq!(notes.all(), []);
    }
}

#[test]
fn a_crash_after_every_write_is_undone_by_the_next_process() {
    let changes = changes_of_a_whole_life();
    for at in 0..changes {
        let fake = Arc::new(Fake::new(Profile::broadwell()));
        let before = fake.configuration();
        // A process that is gone makes no change any more: all fail, and nobody is told.
        let faults = Arc::new(Faults::new(at, usize::MAX, libc::EIO));
        let notes = Notes { faults, ..Notes::default() };
        if let Ok(partition) = turn_on(&fake, &notes) {
            let later = Instant::now() + Duration::from_secs(2);
            if let Ok((partition, _)) = partition.rebalance(&split(2), later) {
                std::mem::forget(partition);
            }
        }
        let undone = undo(&*fake, &notes.all());
        assert_eq!(undone.all(), Vec::<String>::new());
        assert_eq!(undo(&*fake, &notes.all()).all(), Vec::<String>::new(), "twice is as once");
        assert_eq!(fake.configuration(), before, "crash {at}");
    }
}

#[test]
fn a_group_that_others_have_changed_stays_and_loses_our_processors() {
    let check = |change: &dyn Fn(&Fake), why: &str| {
        let fake = Arc::new(Fake::new(Profile::broadwell()));
        let partition = turn_on(&fake, &Notes::default()).expect("no fault");
        change(&fake);
        let left = partition.turn_off();
        assert_eq!(left, [format!("group halcyon-t-polluting stays: {why}")]);
        let now = fake.configuration();
        assert!(!now.contains_key("halcyon-t-sensitive/mode"), "the other group is gone");
        let cpus = halcyon_machine::topology::list(&now["halcyon-t-polluting/cpus_list"]);
        let cpus = cpus.expect("a list");
        assert!(!cpus.contains(&3) && !cpus.contains(&7), "{cpus:?}");
        fake.check();
    };
    let write = |path: &'static str, text: &'static str| {
        move |fake: &Fake| fake.write(path, text).expect("the kernel takes it")
    };
    let tasks = CALLER.to_string();
    check(
        &|fake| fake.write("halcyon-t-polluting/tasks", &tasks).expect("alive"),
        "tasks were moved into it",
    );
    check(&write("halcyon-t-polluting/schemata", "L3:1=ff\n"), "its masks were changed");
    let wider = Profile::epyc();
    let fake = Arc::new(Fake::new(wider));
    let partition = turn_on(&fake, &Notes::default()).expect("no fault");
    fake.write("halcyon-t-polluting/cpus_list", "3,7,12\n").expect("online");
    let left = partition.turn_off();
    assert_eq!(left, ["group halcyon-t-polluting stays: processors were moved into it"]);
    assert_eq!(fake.read("halcyon-t-polluting/cpus_list").expect("there"), "12\n");
}

/// An operation of ours, or of another program.
#[derive(Clone, Debug)]
enum Operation {
    On,
    Move(usize),
    Off,
    Crash,
    Make(u8),
    Remove(u8),
    Cpus(u8, Vec<u32>),
    Tasks(u8, u32),
    Masks(u8, u64),
    Mode(u8, bool),
    Counters(usize),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let group = 0..3_u8;
    let one = prop_oneof![
        4 => Just(Operation::On),
        3 => (0..5_usize).prop_map(Operation::Move),
        2 => Just(Operation::Off),
        2 => Just(Operation::Crash),
        2 => group.clone().prop_map(Operation::Make),
        1 => group.clone().prop_map(Operation::Remove),
        1 => (group.clone(), prop::collection::vec(0..8_u32, 0..4)).prop_map(|(g, c)| Operation::Cpus(g, c)),
        1 => (group.clone(), 999..1004_u32).prop_map(|(g, t)| Operation::Tasks(g, t)),
        1 => (group.clone(), 0..0x1f_ffff_u64).prop_map(|(g, m)| Operation::Masks(g, m)),
        1 => (group, any::<bool>()).prop_map(|(g, e)| Operation::Mode(g, e)),
        1 => prop_oneof![Just(0_usize), Just(176)].prop_map(Operation::Counters),
    ];
    prop::collection::vec(one, 0..24)
}

/// What another program does; `None` if the operation is ours.
fn by_others(fake: &Fake, operation: &Operation) -> Option<io::Result<()>> {
    let name = |group: u8| ["", "other", "third"][group as usize];
    let file = |group: u8, file: &str| match name(group) {
        "" => file.to_owned(),
        name => format!("{name}/{file}"),
    };
    Some(match operation {
        Operation::Make(group) => fake.make_folder(name(*group)),
        Operation::Remove(group) => fake.remove_folder(name(*group)),
        Operation::Cpus(group, cpus) => {
            let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
            fake.write(&file(*group, "cpus_list"), &(list.join(",") + "\n"))
        }
        Operation::Tasks(group, task) => fake.write(&file(*group, "tasks"), &task.to_string()),
        Operation::Masks(group, mask) => {
            fake.write(&file(*group, "schemata"), &format!("L3:0={mask:x};1={mask:x}\n"))
        }
        Operation::Mode(group, exclusive) => {
            let mode = if *exclusive { "exclusive\n" } else { "shareable\n" };
            fake.write(&file(*group, "mode"), mode)
        }
        Operation::Counters(count) => {
            fake.drain_counters(*count);
            Ok(())
        }
        _ => return None,
    })
}

/// The operation that has the same meaning in a tree without our groups: the default group, which gives up
/// no processor, has all of ours there.
fn alone(others: &Fake, operation: &Operation) -> Operation {
    match operation {
        Operation::Cpus(0, cpus) => {
            let own = others.read("cpus_list").expect("every group has it");
            let own = halcyon_machine::topology::list(&own).expect("a list");
            Operation::Cpus(0, own.into_iter().chain(cpus.iter().copied()).collect())
        }
        operation => operation.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_any_operations_restoring_gives_the_tree_that_others_alone_would_have_made(
        operations in operations(), profile in prop_oneof![Just(0), Just(1), Just(2)],
    ) {
        let profile = [Profile::broadwell(), Profile::haswell(), Profile::skylake()][profile].clone();
        let (fake, others) = (Arc::new(Fake::new(profile.clone())), Fake::new(profile));
        let mut notes = Notes::default();
        let mut partition: Option<Partition> = None;
        let mut now = Instant::now();
        for operation in &operations {
            now += Duration::from_secs(2);
            match operation {
                Operation::On if partition.is_none() => partition = turn_on(&fake, &notes).ok(),
                Operation::On => {}
                Operation::Move(count) => {
                    let moved = partition.take().map(|p| p.rebalance(&split(*count), now));
                    partition = moved.and_then(|moved| moved.ok()).map(|(p, _)| p);
                }
                Operation::Off => {
                    if let Some(partition) = partition.take() {
                        prop_assert_eq!(partition.turn_off(), Vec::<String>::new());
                    }
                }
                Operation::Crash => {
                    std::mem::forget(partition.take());
                    let left_by_it = notes.all();
                    let left = undo_after_crash(&*fake, &mut notes, &left_by_it).expect("no lock");
                    prop_assert_eq!(left.all(), Vec::<String>::new());
                }
                theirs => {
                    // What our groups are in the way of did not happen in the other tree either.
                    if by_others(&fake, theirs).expect("another's").is_ok() {
                        let alone = by_others(&others, &alone(&others, theirs)).expect("another's");
                        prop_assert!(alone.is_ok(), "{:?}: {:?}", theirs, alone);
                    }
                }
            }
            fake.check();
        }
        drop(partition);
        prop_assert_eq!(fake.configuration(), others.configuration());
    }
}
