//! Log, checkpoints and recovery on a disk that crashes, fails, fills up and rots.
#![cfg(not(shuttle))]

mod disk;
mod world;

use std::io::ErrorKind;

use disk::{Fault, SimDisk};
use halcyon_base::rng::Rng;
use halcyon_txn::{LogError, MARK_BYTES};
use world::{Told, World, fault_of, look, make};

/// Opens the database and works until the disk is gone or `count` transactions have been tried.
/// What did not get through is told as an error, and some of it may be there later.
fn work(disk: &SimDisk, told: &mut Told, rng: &mut Rng, count: u64) {
    let Some(mut world) = World::open(disk) else {
        return;
    };
    // The one under way at the crash may be there.
    for _ in 0..count {
        if world.transact(told, rng.chance(3, 4)).is_err() {
            break;
        }
        if rng.chance(1, 12) && !world.checkpoint(*told) {
            break;
        }
        if rng.chance(1, 20) {
            let _ = world.log.prepare();
        }
    }
    world.log.close();
}

/// A life of several crashes. Returns what was found to be wrong.
fn life(seed: u64, syncs: bool) -> Option<String> {
    let mut rng = Rng::new(seed);
    let mut disk = SimDisk::new(Fault::None, syncs);
    assert!(make(&disk));
    let mut told = Told::default();
    for crash in 0..4 {
        disk.set_fault(Fault::Crash(disk.calls() + 1 + rng.below(150)));
        work(&disk, &mut told, &mut rng, 200);
        disk = disk.after_crash(&mut rng);
        let found = match look(&disk) {
            Ok(Some(found)) => found,
            Ok(None) => return Some(format!("crash {crash}: the database is gone")),
            Err(damage) => return Some(format!("crash {crash}: {damage}")),
        };
        if let Some(fault) = fault_of(&found, told) {
            return Some(format!("crash {crash}: {fault}"));
        }
        // What is there from now on counts as told: it was found.
        let there = found.partitions[&halcyon_base::PartitionId(3)].row_count() as i64;
        told = Told { done: there, acknowledged: there };
    }
    None
}

fn rounds(default: u64) -> u64 {
    let set = std::env::var("HALCYON_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok());
    set.unwrap_or(default)
}

#[test]
fn nothing_acknowledged_is_lost_in_a_crash() {
    for seed in 0..rounds(150) {
        if let Some(fault) = life(seed, true) {
            panic!("seed {seed}: {fault}");
        }
    }
}

/// The harness can see: without syncs something is lost.
#[test]
fn a_disk_without_syncs_is_found_out() {
    assert!((0..20).any(|seed| life(seed, false).is_some()));
}

/// Every call fails once, with every error, alone and with those behind it.
#[test]
fn no_failing_call_loses_what_was_acknowledged() {
    let calls = {
        let disk = SimDisk::new(Fault::None, true);
        assert!(make(&disk));
        let before = disk.calls();
        work(&disk, &mut Told::default(), &mut Rng::new(1), 40);
        disk.calls() - before
    };
    let kinds = [ErrorKind::StorageFull, ErrorKind::Other, ErrorKind::ReadOnlyFilesystem];
    for (kind, count) in kinds.into_iter().flat_map(|kind| [(kind, 1), (kind, 3), (kind, 10_000)]) {
        for call in 1..=calls {
            let disk = SimDisk::new(Fault::None, true);
            assert!(make(&disk));
            let from = disk.calls() + call;
            disk.set_fault(Fault::Error { from, count, kind });
            let mut told = Told::default();
            work(&disk, &mut told, &mut Rng::new(1), 40);
            let mut rng = Rng::new(call);
            let after = disk.after_crash(&mut rng);
            let found = look(&after).unwrap_or_else(|damage| panic!("{kind} at {call}: {damage}"));
            let found = found.expect("the database was made");
            if let Some(fault) = fault_of(&found, told) {
                panic!("{kind} in {count} calls from {call} on: {fault}");
            }
        }
    }
}

/// A full disk refuses commits, and takes them again once there is room; a failed sync ends it.
#[test]
fn commits_are_refused_while_the_disk_is_full_and_for_good_after_a_failed_sync() {
    let disk = SimDisk::new(Fault::None, true);
    assert!(make(&disk));
    let mut told = Told::default();
    let mut world = World::open(&disk).expect("the disk is sound");
    world.transact(&mut told, true).expect("the disk is sound");
    let full = Fault::Error { from: 0, count: u64::MAX, kind: ErrorKind::StorageFull };
    disk.set_fault(full);
    // Files are made in full length beforehand, so it is the next one that finds no room. A write
    // within a file does not ask for any, but this disk refuses that too.
    let refused = world.transact(&mut told, true).expect_err("there is no room");
    assert!(matches!(refused, LogError::Full { .. }), "{refused}");
    let done = told.done;
    let refused = world.transact(&mut told, true).expect_err("there is no room yet");
    assert!(matches!(refused, LogError::Full { .. }), "{refused}");
    assert_eq!(told.done, done, "a refused commit is not done");
    assert!(world.reads());
    disk.set_fault(Fault::None);
    let again = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        world.transact(&mut told, true).is_ok()
    });
    assert!(again, "there is room again");

    // The next calls of a commit are a write and a sync.
    let from = disk.calls() + 2;
    disk.set_fault(Fault::Error { from, count: 1, kind: ErrorKind::Other });
    let refused = world.transact(&mut told, true).expect_err("the sync fails");
    assert!(matches!(refused, LogError::Failed { .. }), "{refused}");
    for _ in 0..3 {
        let refused = world.transact(&mut told, true).expect_err("it is over");
        assert!(matches!(refused, LogError::Failed { .. }), "{refused}");
    }
    assert!(world.reads());
    drop(world);
    let found =
        look(&disk.after_crash(&mut Rng::new(1))).expect("it is sound").expect("it is there");
    assert_eq!(fault_of(&found, told), None);
}

/// A database on a full disk opens and is read; it takes commits once there is room. Its process may end before
/// that, in order or not: everything is there at the next start.
#[test]
fn a_start_on_a_full_disk_reads_and_takes_commits_once_there_is_room() {
    let disk = SimDisk::new(Fault::None, true);
    assert!(make(&disk));
    let mut told = Told::default();
    work(&disk, &mut told, &mut Rng::new(1), 5);
    told.acknowledged = told.done;
    disk.set_fault(Fault::Full);
    for _ in 0..2 {
        let mut world = World::open(&disk).expect("it can be read");
        assert!(world.reads());
        let refused = world.transact(&mut told, true).expect_err("there is no room");
        assert!(matches!(refused, LogError::Full { .. }), "{refused}");
        drop(world);
        let found = look(&disk.after_crash(&mut Rng::new(2))).expect("sound").expect("it is there");
        assert_eq!(fault_of(&found, told), None);
    }
    let mut world = World::open(&disk).expect("it can be read");
    disk.set_fault(Fault::None);
    let taken = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        world.transact(&mut told, true).is_ok()
    });
    assert!(taken, "there is room again");
    told.acknowledged = told.done;
    drop(world);
    let found = look(&disk.after_crash(&mut Rng::new(3))).expect("sound").expect("it is there");
    assert_eq!(fault_of(&found, told), None);
}

/// A flipped bit is found, or is where it does no harm; it never makes a commit disappear.
#[test]
fn rot_is_found_or_harmless() {
    let (mut found_out, mut harmless) = (0, 0);
    for seed in 0..rounds(400) {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(Fault::None, true);
        assert!(make(&disk));
        let mut told = Told::default();
        work(&disk, &mut told, &mut rng, 30);
        told.acknowledged = told.done;
        let place = disk.flip(&mut rng);
        match look(&disk) {
            Err(damage) => {
                let text = damage.to_string();
                let files = ["checkpoint-", "log", "MANIFEST"];
                assert!(files.iter().any(|file| text.contains(file)), "{text}");
                found_out += 1;
            }
            Ok(found) => {
                let found = found.expect("the database was made");
                assert_eq!(fault_of(&found, told), None, "seed {seed}: {place}");
                harmless += 1;
            }
        }
    }
    assert!(found_out > harmless, "{found_out} found out, {harmless} harmless");
}

/// What was durable when the log came to rest is never taken for a write that was cut short, though
/// the log was not closed and nothing was committed after it.
#[test]
fn rot_in_the_last_batch_is_found_once_the_log_was_at_rest() {
    // Behind the last record is the mark, of which 25 bytes are not 0 at its end; a record's payload
    // may be followed by seven zeroes that nobody sums.
    for back in 24 + 8..24 + 48 {
        let mut rng = Rng::new(back as u64);
        let disk = SimDisk::new(Fault::None, true);
        assert!(make(&disk));
        let (mut told, mut world) = (Told::default(), World::open(&disk).expect("a sound disk"));
        for _ in 0..rng.range(1..5) {
            world.transact(&mut told, true).expect("the disk is sound");
        }
        let end = world.log.end();
        while world.log.statistics().durable.0 < end.0 + MARK_BYTES {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
        assert_eq!(world.log.end().0, end.0 + MARK_BYTES, "one mark, and no other behind it");
        let after = disk.after_crash(&mut rng);
        let found = look(&after).expect("it is sound").expect("it is there");
        assert_eq!((fault_of(&found, told), found.log.torn), (None, false));
        after.flip_behind("log", back, &mut rng);
        let damage = look(&after).err().expect("an acknowledged commit is broken").to_string();
        assert!(damage.contains("was durable when the one at"), "{damage}");
    }
}
