//! The contract of every tree of resctrl: the fake's, trees of files, and the kernel's where there is one.
//!
//! The trees of files in `recorded/` are written out by the kernel's documentation (lines of `path: text`,
//! where `|` is the end of a line); none was read off a machine, since none with resctrl was at hand.

mod trees;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halcyon_cache::behaviour::{Chase, Effect, OnThisMachine};
use halcyon_cache::directory::Directory;
use halcyon_cache::fake::{Fake, Profile};
use halcyon_cache::mask::MaskRules;
use halcyon_cache::partition::Why;
use halcyon_cache::rules::{CacheRules, RulesProblem};
use halcyon_cache::{CpuSplit, Mask, Partition, Refused, ResctrlFs, Settings};
use trees::{NoJournal, Tree};

fn rules(name: &str) -> (Profile, CacheRules) {
    let intel = |ways: u32, shareable: u64| MaskRules {
        full: Mask::lowest(ways),
        shareable: Mask(shareable),
        ways_min: 1,
        sparse: false,
    };
    let common = CacheRules {
        schema: "L3",
        masks: intel(20, 0xc_0000),
        groups_max: 16,
        domains: vec![0, 1],
        counts_occupancy: true,
        counts_bandwidth: true,
    };
    match name {
        "broadwell-cdp" => {
            let rules = CacheRules { schema: "L3DATA", groups_max: 8, ..common };
            (Profile::broadwell_cdp(), rules)
        }
        "skylake" => (Profile::skylake(), CacheRules { masks: intel(11, 0x600), ..common }),
        "sparse" => {
            let masks = MaskRules { sparse: true, ..intel(16, 0x101) };
            (Profile::sparse(), CacheRules { masks, ..common })
        }
        "epyc" => {
            let masks = MaskRules { sparse: true, ways_min: 0, ..intel(16, 0) };
            (Profile::epyc(), CacheRules { masks, domains: vec![0, 1, 4, 5], ..common })
        }
        _ => unreachable!("no such machine: {name}"),
    }
}

const MACHINES: [&str; 4] = ["broadwell-cdp", "skylake", "sparse", "epyc"];

fn split() -> CpuSplit {
    CpuSplit::of(&[vec![0, 1, 2, 3], vec![4, 5, 6, 7]], 1)
}

fn settings() -> Settings {
    Settings { prefix: "halcyon-t-".to_owned(), ..Settings::default() }
}

fn turn_on(tree: &Arc<Fake>) -> Result<Partition, Refused> {
    Partition::turn_on(tree.clone(), Box::new(NoJournal), &settings(), &split(), None)
}

/// What every tree that divides a cache does, on the groups of a prefix; leaves it as it was.
fn contract(tree: &dyn ResctrlFs, cpus: &[u32]) {
    let rules = CacheRules::read(tree).expect("the tree divides a cache");
    let before = (tree.read("schemata").expect("there"), tree.read("cpus_list").expect("there"));
    let _lock = tree.lock().expect("nobody has it");
    let name = format!("halcyon-contract-{}", std::process::id());
    tree.make_folder(&name).expect("a group is left");
    let again = tree.make_folder(&name).expect_err("the name is taken");
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    assert!(tree.folders("").expect("a folder").contains(&name));
    let file = |file: &str| format!("{name}/{file}");
    let masks = |tree: &dyn ResctrlFs| {
        let text = tree.read(&file("schemata")).expect("every group has it");
        halcyon_cache::rules::masks_of(&text, rules.schema).expect("the schema is in it")
    };

    let division = rules.masks.divide(10).expect("ways enough");
    for mask in [division.polluting, division.sensitive] {
        tree.write(&file("schemata"), &(rules.line(mask) + "\n")).expect("the rules allow it");
        let wanted: Vec<(u32, Mask)> = rules.domains.iter().map(|&id| (id, mask)).collect();
        assert_eq!(masks(tree), wanted);
    }
    let outside = Mask(rules.masks.full.0 << 1 | 1);
    let apart = Mask(0b101);
    for (mask, refused) in [(outside, true), (apart, !rules.masks.sparse)] {
        let written = tree.write(&file("schemata"), &(rules.line(mask) + "\n"));
        assert_eq!(written.is_err(), refused, "{mask}");
        assert_eq!(rules.masks.check(mask).is_err(), refused, "we know the rule for {mask}");
        let status = tree.read("info/last_cmd_status").expect("there");
        assert_eq!(status.trim() != "ok", refused, "{mask}: {status}");
    }
    let unknown = tree.write(&file("schemata"), "L9:0=1\n").expect_err("no such cache");
    assert_eq!(unknown.raw_os_error(), Some(libc::EINVAL));

    let (first, rest) = cpus.split_first().expect("a processor");
    tree.write(&file("cpus_list"), &format!("{first}\n")).expect("online");
    assert_eq!(tree.read(&file("cpus_list")).expect("there").trim(), first.to_string());
    let of_default = tree.read("cpus_list").expect("there");
    let of_default = halcyon_machine::topology::list(&of_default).expect("a list");
    assert!(!of_default.contains(first) && rest.iter().all(|cpu| of_default.contains(cpu)));
    assert!(tree.write("cpus_list", "\n").is_err(), "the default group gives none up");
    assert!(tree.write(&file("tasks"), "4194304999").is_err(), "no such task");
    assert!(tree.read(&file("nonsense")).is_err());

    tree.remove_folder(&name).expect("ours");
    assert!(!tree.folders("").expect("a folder").contains(&name));
    let after = (tree.read("schemata").expect("there"), tree.read("cpus_list").expect("there"));
    assert_eq!(before, after);
}

#[test]
fn fakes_keep_the_contract() {
    let more = [Profile::broadwell(), Profile::haswell()];
    for profile in MACHINES.map(|name| rules(name).0).into_iter().chain(more) {
        let fake = Fake::new(profile);
        let before = fake.configuration();
        contract(&fake, &[0, 1, 2]);
        fake.check();
        assert_eq!(fake.configuration(), before);
    }
}

#[test]
fn the_kernel_keeps_the_contract() {
    let tree = match Directory::of_this_machine() {
        Ok(tree) => tree,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    if let Err(why) = CacheRules::read(&tree) {
        return eprintln!("skipped: {why}");
    }
    let cpus = tree.read("cpus_list").and_then(|text| halcyon_machine::topology::list(&text));
    match cpus {
        Ok(cpus) if cpus.len() > 1 => contract(&tree, &cpus[1..]),
        _ => eprintln!("skipped: the default group has no processors to lend"),
    }
}

#[test]
fn masks_slow_a_chase_down_on_hardware() {
    let tree = match Directory::of_this_machine() {
        Ok(tree) => Arc::new(tree),
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let topology = halcyon_machine::Topology::of_this_machine_or_flat();
    let mut islands: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for processor in topology.processors.iter().filter(|processor| processor.allowed) {
        islands.entry(processor.island).or_default().push(processor.cpu);
    }
    let split = CpuSplit::of(&islands.into_values().collect::<Vec<_>>(), 1);
    let mut chase = OnThisMachine::new();
    let on = Partition::turn_on(tree, Box::new(NoJournal), &settings(), &split, Some(&mut chase));
    match on {
        Ok(partition) => {
            if let Some(Effect::Unclear(why)) = partition.effect() {
                eprintln!("inconclusive: {why}");
            }
            assert_eq!(partition.turn_off(), Vec::<String>::new());
        }
        Err(Refused { why: Why::NoEffect { .. }, .. }) => panic!("masks without an effect"),
        Err(refused) => eprintln!("skipped: {refused}"),
    }
}

#[test]
fn trees_of_files_and_fakes_tell_the_same_rules() {
    for name in MACHINES {
        let (profile, wanted) = rules(name);
        let fake = CacheRules::read(&Fake::new(profile)).expect("it divides a cache");
        let files = CacheRules::read(&Tree::unpacked(name).files()).expect("it divides a cache");
        assert_eq!((&fake, &files), (&wanted, &wanted), "{name}");
    }
}

#[test]
fn partial_trees_say_what_they_lack() {
    for (name, profile) in
        [("monitor-only", Profile::monitor_only()), ("bandwidth-only", Profile::bandwidth_only())]
    {
        let fake = CacheRules::read(&Fake::new(profile));
        assert!(matches!(fake, Err(RulesProblem::NoL3)), "{name}");
        let files = CacheRules::read(&Tree::unpacked(name).files());
        assert!(matches!(files, Err(RulesProblem::NoL3)), "{name}");
    }
    let tree = Tree::unpacked("skylake");
    tree.write("info/L3/cbm_mask", "nonsense\n");
    let damaged = CacheRules::read(&tree.files()).expect_err("it is damaged");
    assert!(matches!(damaged, RulesProblem::Unreadable { .. }));
    assert_eq!(damaged.to_string(), "info/L3/cbm_mask has \"nonsense\\n\"");
    tree.remove("info/L3/cbm_mask");
    let partial = CacheRules::read(&tree.files()).expect_err("a file is missing");
    assert!(matches!(partial, RulesProblem::Io { .. }));
}

#[test]
fn a_tree_without_a_kernel_behind_it_is_refused_and_stays_as_it_was() {
    for name in MACHINES {
        let tree = Tree::unpacked(name);
        let before = tree.all();
        let files = Arc::new(tree.files());
        let on = Partition::turn_on(files, Box::new(NoJournal), &settings(), &split(), None);
        let refused = on.err().expect("no kernel makes files in a new folder");
        assert!(matches!(refused.why, Why::Io { .. }), "{refused}");
        // The new folder stays, since no file in it says whose it is; in a kernel's tree there are files.
        tree.remove_folder("halcyon-t-polluting");
        assert_eq!(tree.all(), before, "{name}");
    }
}

#[test]
fn a_divided_cache_has_three_groups_and_no_task_moves() {
    for name in MACHINES {
        let (profile, rules) = rules(name);
        let tree = Arc::new(Fake::new(profile));
        let before = tree.configuration();
        let partition = turn_on(&tree).expect("a machine with resctrl");
        tree.check();
        let wanted = rules.masks.divide(10).expect("ways enough");
        assert_eq!(partition.division(), wanted);
        let now = tree.configuration();
        for (key, text) in &before {
            let same = key == "/cpus_list" || now[key] == *text;
            assert!(same, "{name}: {key} of the default group has changed");
        }
        assert_eq!(now["halcyon-t-polluting/cpus_list"], "3,7\n");
        assert_eq!(now["halcyon-t-sensitive/cpus_list"], "0-2,4-6\n");
        assert_eq!(now["halcyon-t-polluting/tasks"], "");
        tree.set_occupancy("halcyon-t-polluting", rules.domains[1], Some(4096));
        tree.set_occupancy("halcyon-t-sensitive", rules.domains[0], None);
        let usage = partition.usage();
        assert_eq!(usage.len(), 3 * rules.domains.len());
        assert_eq!(usage[1].occupancy_bytes, Some(4096));
        assert_eq!((usage[0].group, usage[0].mask), ("polluting", wanted.polluting));
        assert_eq!(usage[rules.domains.len()].occupancy_bytes, None, "unavailable");
        let last = usage.last().expect("some");
        assert_eq!((last.group, last.mask), ("default", rules.masks.full));
        assert_eq!(partition.turn_off(), Vec::<String>::new());
        assert_eq!(tree.configuration(), before, "{name}");
    }
}

#[test]
fn code_keeps_all_ways_where_it_has_masks_of_its_own() {
    let tree = Arc::new(Fake::new(Profile::broadwell_cdp()));
    let _partition = turn_on(&tree).expect("a machine with resctrl");
    let text = tree.read("halcyon-t-polluting/schemata").expect("there");
    assert!(text.contains("L3CODE:0=fffff;1=fffff"), "{text}");
    assert!(text.contains("L3DATA:0=c0000;1=c0000"), "{text}");
}

/// Times of a chase by turn: half of the cache twice, memory, and half under the mask.
struct Told([f64; 4], usize);

impl Chase for Told {
    fn cache_bytes(&self, _: u32) -> io::Result<u64> {
        Ok(1 << 20)
    }

    fn load_ns(&mut self, _: u32, _: usize, _: u64) -> io::Result<f64> {
        self.1 += 1;
        Ok(self.0[self.1 - 1])
    }
}

#[test]
fn masks_without_an_effect_are_refused_and_unclear_ones_are_told() {
    let on = |times: [f64; 4]| {
        let tree = Arc::new(Fake::new(Profile::epyc()));
        let before = tree.configuration();
        let mut chase = Told(times, 0);
        let settings = settings();
        let chase: Option<&mut dyn Chase> = Some(&mut chase);
        let on = Partition::turn_on(tree.clone(), Box::new(NoJournal), &settings, &split(), chase);
        (on, tree, before)
    };
    let (refused, tree, before) = on([20.0, 20.0, 90.0, 20.5]);
    assert!(matches!(refused.err().expect("no effect").why, Why::NoEffect { .. }));
    assert_eq!(tree.configuration(), before);
    let (seen, ..) = on([20.0, 20.0, 90.0, 80.0]);
    assert!(matches!(seen.expect("an effect").effect(), Some(Effect::Seen { .. })));
    let (unclear, ..) = on([20.0, 40.0, 90.0, 80.0]);
    assert!(matches!(unclear.expect("unclear").effect(), Some(Effect::Unclear(_))));
}

#[test]
fn every_reason_to_refuse_is_told_and_nothing_changes() {
    let check = |tree: Arc<Fake>, split: CpuSplit, wanted: &str| {
        let before = tree.configuration();
        let on = Partition::turn_on(tree.clone(), Box::new(NoJournal), &settings(), &split, None);
        let refused = on.err().expect("refused").to_string();
        assert_eq!(refused, format!("the cache is not partitioned: {wanted}"));
        assert_eq!(tree.configuration(), before);
    };
    let broadwell = || Arc::new(Fake::new(Profile::broadwell()));
    check(
        Arc::new(Fake::new(Profile::monitor_only())),
        split(),
        "resctrl divides no last-level cache on this machine",
    );
    check(broadwell(), CpuSplit::default(), "no last-level cache has two workers");
    let tree = broadwell();
    tree.hold_lock(true);
    check(tree, split(), "another program keeps resctrl locked");
    let tree = broadwell();
    tree.make_folder("other").expect("room");
    tree.write("other/cpus_list", "3-4\n").expect("online");
    check(tree, split(), "processors 3-4 are in groups of other programs");
    let tree = broadwell();
    tree.make_folder("halcyon-t-sensitive").expect("room");
    check(tree, split(), "a group halcyon-t-sensitive exists");
    let few = Profile { groups_max: 2, ..Profile::broadwell() };
    check(Arc::new(Fake::new(few)), split(), "there may be 2 groups, not 3");
    let mut narrow = Profile::broadwell();
    narrow.masks = MaskRules { full: Mask(1), shareable: Mask(0), ..narrow.masks };
    check(Arc::new(Fake::new(narrow)), split(), "1 ways cannot be divided");
    let lossy = Profile { loses_masks: true, ..Profile::broadwell() };
    let lost = "the masks of halcyon-t-polluting were taken and not kept";
    check(Arc::new(Fake::new(lossy)), split(), lost);
    let tree = Arc::new(Fake::new(Profile::haswell()));
    for name in ["a", "b"] {
        tree.make_folder(name).expect("room");
    }
    let full = io::Error::from_raw_os_error(libc::ENOSPC);
    let full = format!("halcyon-t-sensitive: {full} (Out of CLOSIDs)");
    check(tree, split(), &full);
    let tree = broadwell();
    tree.drain_counters(175);
    let busy = io::Error::from_raw_os_error(libc::EBUSY);
    check(tree, split(), &format!("halcyon-t-polluting: {busy} (Out of RMIDs)"));
    let tree = broadwell();
    tree.write("schemata", "L3:0=3ffff;1=3ffff\n").expect("the rules allow it");
    tree.make_folder("mine").expect("room");
    tree.write("mine/schemata", "L3:0=f0;1=f0\n").expect("the rules allow it");
    tree.write("schemata", "L3:0=f;1=f\n").expect("the rules allow it");
    tree.write("mine/mode", "exclusive\n").expect("no overlap");
    let refused = io::Error::from_raw_os_error(libc::EINVAL);
    let refused =
        format!("halcyon-t-sensitive/schemata: {refused} (Overlaps with exclusive group)");
    check(tree, split(), &refused);
}

#[test]
fn processors_move_between_groups_at_most_once_a_second() {
    let tree = Arc::new(Fake::new(Profile::broadwell()));
    let before = tree.configuration();
    let partition = turn_on(&tree).expect("a machine with resctrl");
    let wider = CpuSplit::of(&[vec![0, 1, 2, 3], vec![4, 5, 6, 7]], 2);
    let (partition, moved) = partition.rebalance(&wider, Instant::now()).expect("no fault");
    assert!(!moved, "too early");
    let later = Instant::now() + Duration::from_secs(2);
    let (partition, moved) = partition.rebalance(&wider, later).expect("no fault");
    assert!(moved);
    assert_eq!(tree.read("halcyon-t-polluting/cpus_list").expect("there"), "2-3,6-7\n");
    assert_eq!(tree.read("halcyon-t-sensitive/cpus_list").expect("there"), "0-1,4-5\n");
    tree.check();
    let later = later + Duration::from_secs(2);
    tree.write("cpus_list", "0-7\n").expect("online");
    tree.make_folder("other").expect("room");
    tree.write("other/cpus_list", "0\n").expect("online");
    let refused = partition.rebalance(&split(), later).err().expect("a processor is gone");
    // Processors that somebody gave back to the default group are free; the one taken away is not.
    assert!(matches!(&refused.why, Why::CpusTaken { cpus } if *cpus == [0]), "{refused}");
    assert_eq!(refused.left, Vec::<String>::new());
    tree.remove_folder("other").expect("there");
    assert_eq!(tree.configuration(), before);
}
