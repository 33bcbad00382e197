//! The partition as an engine keeps it, on fakes of machines: on, off, moved, faulty, killed, and killed by somebody else.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use halcyon_cache::fake::{Fake, Faulty, Profile};
use halcyon_cache::journal::{FileJournal, Journal, Note, Owner};
use halcyon_cache::mask::Mask;
use halcyon_cache::{CpuSplit, Keeper, Place, ResctrlFs};
use proptest::prelude::*;

/// A folder of journals that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("halcyon-keeper-{}-{count}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).map_or(0, Iterator::count)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn split(polluting: usize) -> CpuSplit {
    CpuSplit::of(&[vec![0, 1, 2, 3], vec![4, 5, 6, 7]], polluting)
}

fn keeper(fake: &Arc<Fake>, folder: &Folder) -> Keeper {
    Keeper::new(Place::fake(fake.clone(), &folder.0), "nobody has asked")
}

#[test]
fn a_partition_is_told_group_by_group_and_so_is_the_reason_why_there_is_none() {
    let (fake, folder) = (Arc::new(Fake::new(Profile::broadwell())), Folder::new());
    let before = fake.configuration();
    let keeper = keeper(&fake, &folder);
    let off = keeper.rows();
    let names: Vec<_> = off.iter().map(|row| (row.group, row.is_on, row.cache)).collect();
    assert_eq!(
        names,
        [("polluting", false, None), ("sensitive", false, None), ("default", false, None)]
    );
    assert_eq!(off[0].reason.as_deref(), Some("nobody has asked"));
    keeper.turn_on(&split(1)).expect("a machine with resctrl");
    assert_eq!(folder.files(), 1, "the journal is there as long as there is something to undo");
    let group =
        fake.folders("").expect("a tree").into_iter().find(|name| name.ends_with("-polluting"));
    fake.set_occupancy(&group.expect("a group"), 1, Some(4096));
    let on = keeper.rows();
    assert_eq!(on.len(), 6);
    assert_eq!(
        (on[1].group, on[1].cache, on[1].mask),
        ("polluting", Some(1), Some(Mask(0xc_0000)))
    );
    assert_eq!((on[1].processors.as_deref(), on[1].occupancy_bytes), (Some("3,7"), Some(4096)));
    assert_eq!(
        (on[2].group, on[2].mask, on[2].source),
        ("sensitive", Some(Mask(0x3_ffff)), "fake")
    );
    keeper.turn_on(&split(2)).expect("other processors, a moment later");
    assert_eq!(keeper.rows()[0].processors.as_deref(), Some("2-3,6-7"));
    assert_eq!(keeper.turn_off("enough"), Vec::<String>::new());
    assert_eq!(keeper.rows()[2].reason.as_deref(), Some("enough"));
    assert_eq!((fake.configuration(), folder.files()), (before, 0));
}

#[test]
fn two_keepers_of_a_process_are_not_in_each_others_way() {
    let (fake, folder) = (Arc::new(Fake::new(Profile::epyc())), Folder::new());
    let before = fake.configuration();
    let (one, other) = (keeper(&fake, &folder), keeper(&fake, &folder));
    one.turn_on(&CpuSplit::of(&[vec![0, 1, 2]], 1)).expect("room");
    other.turn_on(&CpuSplit::of(&[vec![4, 5, 6]], 1)).expect("room");
    let taken = keeper(&fake, &folder).turn_on(&split(1)).expect_err("others have them");
    assert!(taken.contains("are in groups of other programs"), "{taken}");
    assert_eq!(one.recover(), Vec::<String>::new(), "their process is alive");
    drop((one, other));
    assert_eq!((fake.configuration(), folder.files()), (before, 0));
}

/// A fake some of whose changes fail, by their numbers.
fn faulty(fake: &Arc<Fake>, numbers: std::ops::Range<usize>) -> Arc<dyn ResctrlFs> {
    let passed = AtomicUsize::new(0);
    let pass = move || match numbers.contains(&passed.fetch_add(1, Ordering::Relaxed)) {
        true => Err(io::Error::from_raw_os_error(libc::EIO)),
        false => Ok(()),
    };
    Arc::new(Faulty::new(fake.clone(), pass))
}

#[test]
fn a_fault_at_every_change_leaves_the_caches_whole_or_a_journal_for_the_next_start() {
    for profile in [Profile::broadwell_cdp(), Profile::epyc()] {
        for (at, count) in (0..12).flat_map(|at| [(at, 1), (at, usize::MAX - at)]) {
            let (fake, folder) = (Arc::new(Fake::new(profile.clone())), Folder::new());
            let before = fake.configuration();
            let tree = faulty(&fake, at..at + count);
            let keeper = Keeper::new(Place::fake(tree, &folder.0), "");
            if let Err(why) = keeper.turn_on(&split(1)) {
                assert!(
                    !keeper.is_on() && why.starts_with("the cache is not partitioned"),
                    "{why}"
                );
                assert_eq!(keeper.rows()[0].reason.as_ref(), Some(&why));
            } else {
                keeper.turn_off("");
            }
            fake.check();
            let is_whole = fake.configuration() == before;
            assert!(is_whole || folder.files() == 1, "fault {at}, {count}");
            if count == 1 && !is_whole {
                // One fault while undoing: the same process tries no second time, the next one does.
                pretend_killed(&folder);
                assert!(!keeper_of(&fake, &folder).recover().is_empty());
            }
            if count > 1 {
                pretend_killed(&folder);
                keeper_of(&fake, &folder).recover();
            }
            assert_eq!((fake.configuration(), folder.files()), (before, 0), "fault {at}, {count}");
        }
    }
}

fn keeper_of(fake: &Arc<Fake>, folder: &Folder) -> Keeper {
    keeper(fake, folder)
}

/// Has the journals' process be one that is gone.
fn pretend_killed(folder: &Folder) {
    for entry in fs::read_dir(&folder.0).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a journal");
        let Owner { pid, start, .. } = Owner::this();
        let own = format!("owner {pid} {start} ");
        assert!(text.starts_with(&own), "{text}");
        fs::write(&path, text.replacen(&own, &format!("owner {pid} {} ", start + 1), 1))
            .expect("it can be written");
    }
}

#[test]
fn what_a_killed_process_left_is_undone_at_the_next_start() {
    for profile in [Profile::broadwell(), Profile::epyc(), Profile::haswell()] {
        let (fake, folder) = (Arc::new(Fake::new(profile)), Folder::new());
        let before = fake.configuration();
        let killed = keeper(&fake, &folder);
        killed.turn_on(&split(1)).expect("a machine with resctrl");
        std::mem::forget(killed);
        pretend_killed(&folder);
        assert_ne!(fake.configuration(), before);
        let next = keeper(&fake, &folder);
        let told = next.recover();
        assert!(told.len() == 1 && told[0].ends_with("left was undone"), "{told:?}");
        assert_eq!((fake.configuration(), folder.files()), (before.clone(), 0));
        assert_eq!(next.recover(), Vec::<String>::new());
        next.turn_on(&split(1)).expect("nothing is in the way");
    }
}

#[test]
fn a_process_killed_between_journal_and_change_has_changed_nothing() {
    let (fake, folder) = (Arc::new(Fake::new(Profile::broadwell())), Folder::new());
    let before = fake.configuration();
    fs::create_dir_all(&folder.0).expect("it can be made");
    let mut journal = FileJournal::at(folder.0.join("halcyon-7-8-0.journal"));
    journal.note(&Note::Group { name: "halcyon-7-8-0-polluting".into() }).expect("it is written");
    std::mem::forget(journal);
    pretend_killed(&folder);
    assert_eq!(keeper(&fake, &folder).recover().len(), 1);
    assert_eq!((fake.configuration(), folder.files()), (before, 0));
}

#[test]
fn journals_of_earlier_boots_and_files_that_are_none_change_nothing() {
    let (fake, folder) = (Arc::new(Fake::new(Profile::broadwell())), Folder::new());
    fake.make_folder("halcyon-7-8-0-polluting").expect("room");
    let before = fake.configuration();
    fs::create_dir_all(&folder.0).expect("it can be made");
    for (name, text) in [
        ("halcyon-1.journal", "owner 7 8 1\ngroup halcyon-7-8-0-polluting\n"),
        ("halcyon-2.journal", "owner 7 8 1\ngroup ../../etc\n"),
        ("halcyon-3.journal", "\u{0}\u{1}\n"),
        ("other", "owner 7 8 1\n"),
    ] {
        fs::write(folder.0.join(name), text).expect("it can be written");
    }
    let told = keeper(&fake, &folder).recover();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("earlier boot") && told[1].contains("no journal"), "{told:?}");
    assert_eq!((fake.configuration(), folder.files()), (before, 1));
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let (fake, folder) = (Arc::new(Fake::new(Profile::broadwell())), Folder::new());
    fs::create_dir_all(&folder.0).expect("it can be made");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let refused = keeper(&fake, &folder).turn_on(&split(1)).expect_err("refused");
    assert!(refused.contains("its owner alone writes to"), "{refused}");
}

#[test]
fn a_machine_without_a_tree_says_why_not() {
    let folder = Folder::new();
    let place =
        Place { tree: Err("no resctrl".into()), folder: folder.0.clone(), source: "hardware" };
    let keeper = Keeper::new(place, "");
    assert_eq!(keeper.turn_on(&split(1)), Err("no resctrl".to_owned()));
    assert_eq!(keeper.rows()[0].reason.as_deref(), Some("no resctrl"));
    assert_eq!(Place::of_this_machine().source, "hardware");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_any_use_by_an_engine_the_tree_is_as_it_was(
        steps in prop::collection::vec(prop_oneof![(1..4_usize).prop_map(Some), Just(None)], 0..12),
        ends in 0..3_u8,
    ) {
        let (fake, folder) = (Arc::new(Fake::new(Profile::skylake())), Folder::new());
        let before = fake.configuration();
        let kept = keeper(&fake, &folder);
        for step in steps {
            match step {
                Some(polluting) => prop_assert_eq!(kept.turn_on(&split(polluting)), Ok(())),
                None => prop_assert_eq!(kept.turn_off("off"), Vec::<String>::new()),
            }
            fake.check();
        }
        match ends {
            0 => prop_assert_eq!(kept.turn_off("off"), Vec::<String>::new()),
            1 => drop(kept),
            _ => {
                std::mem::forget(kept);
                pretend_killed(&folder);
                keeper(&fake, &folder).recover();
            }
        }
        prop_assert_eq!((fake.configuration(), folder.files()), (before, 0));
    }
}
