//! Plans: what is refused, what is covered, which values are chosen, what only a start of the kernel changes.

use halcyon_machine::Topology;
use halcyon_machine::topology::{Node, Processor};
use halcyon_shield::fake::{Fake, Groups};
use halcyon_shield::{BootState, Cpusets, Knobs, Plan, Refusal, Request, Step, Survey, plan};

/// Two nodes, each of two cores with two threads: 0-1 2-3 | 4-5 6-7; 8 is offline.
fn topology() -> Topology {
    let processor = |cpu: u32| Processor {
        cpu,
        core: cpu / 2,
        package: cpu / 4,
        island: cpu / 4,
        node: cpu / 4,
        thread: cpu % 2,
        isolated: cpu == 6 || cpu == 7,
        allowed: true,
    };
    let node = |number: u32| {
        let cpus = (number * 4..number * 4 + 4).collect();
        Node { number, memory_bytes: 0, cpus, distances: vec![] }
    };
    Topology {
        processors: (0..8).map(processor).collect(),
        offline: vec![8],
        caches: vec![],
        nodes: vec![node(0), node(1)],
    }
}

fn planned(fake: &Fake, cpus: &[u32], is_forced: bool) -> Result<Plan, Refusal> {
    plan(&topology(), &Survey::of(fake), &Request { cpus: cpus.to_vec(), is_forced })
}

fn v2() -> Fake {
    Fake::new(8, Groups::V2 { enabled: false })
}

#[test]
fn what_would_leave_the_machine_without_housekeeping_is_refused() {
    for (cpus, refusal) in [
        (&[][..], Refusal::Empty),
        (&[0], Refusal::Zero),
        (&[2, 0], Refusal::Zero),
        (&[1], Refusal::SiblingOfZero(1)),
        (&[8], Refusal::Offline(8)),
        (&[9], Refusal::Unknown(9)),
        (&[4, 6], Refusal::LastOfNode(1)),
        (&[4, 5, 6, 7], Refusal::LastOfNode(1)),
    ] {
        // Force helps against none of them.
        for is_forced in [false, true] {
            let refused = planned(&v2(), cpus, is_forced).unwrap_err();
            assert_eq!(refused, refusal, "{cpus:?}");
            assert!(!refused.to_string().is_empty());
        }
    }
}

#[test]
fn siblings_are_covered_and_kept_empty() {
    let plan = planned(&v2(), &[6, 2, 2], false).unwrap();
    assert_eq!(plan.shielded, [2, 6]);
    assert_eq!(plan.covered, [2, 3, 6, 7]);
    assert_eq!(plan.housekeeping, [0, 1, 4, 5]);
    let cpus = plan.steps.iter().find_map(|step| match step {
        Step::Inside { path, value, .. } if path.ends_with("cpuset.cpus") => Some(value.as_str()),
        _ => None,
    });
    assert_eq!(cpus, Some("2-3,6-7"));
}

#[test]
fn version_two_is_taken_first_then_version_one_and_none_only_by_force() {
    let partition = planned(&v2(), &[2], false).unwrap();
    let entrance = partition.entrance.unwrap();
    assert_eq!(entrance.inside, "/sys/fs/cgroup/halcyon.shield/cgroup.threads");
    assert_eq!(entrance.process.as_deref(), Some("/sys/fs/cgroup/cgroup.procs"));
    assert!(!partition.steps.iter().any(|step| matches!(step, Step::Move { .. })));

    let halves = planned(&Fake::new(8, Groups::V1), &[2], false).unwrap();
    let entrance = halves.entrance.unwrap();
    assert_eq!(entrance.inside, "/sys/fs/cgroup/cpuset/halcyon.shield/tasks");
    assert_eq!(entrance.outside, "/sys/fs/cgroup/cpuset/halcyon.rest/tasks");
    assert!(halves.steps.iter().any(|step| matches!(step, Step::Move { .. })));

    let none = Fake::new(8, Groups::Missing);
    let refused = planned(&none, &[2], false).unwrap_err();
    assert!(matches!(&refused, Refusal::NoCpusets(why) if why.contains("mounted")), "{refused}");
    let forced = planned(&none, &[2], true).unwrap();
    assert_eq!(forced.entrance, None);
    assert!(forced.gaps[0].contains("not kept away"), "{:?}", forced.gaps);
}

#[test]
fn a_cpuset_of_others_over_the_same_processors_is_refused_unless_forced() {
    let fake = v2();
    fake.write("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset").unwrap();
    fake.mkdir("/sys/fs/cgroup/other.slice").unwrap();
    fake.write("/sys/fs/cgroup/other.slice/cpuset.cpus", "0-2").unwrap();
    let refused = planned(&fake, &[2], false).unwrap_err();
    let expected =
        Refusal::Shared { folder: "/sys/fs/cgroup/other.slice".to_owned(), cpus: vec![2] };
    assert_eq!(refused, expected);
    let forced = planned(&fake, &[2], true).unwrap();
    assert_eq!(forced.gaps[0], "tasks of /sys/fs/cgroup/other.slice may use processors 2");
    assert!(planned(&fake, &[6], false).is_ok());
}

#[test]
fn a_group_with_our_name_that_no_journal_knows_is_refused() {
    let fake = v2();
    fake.mkdir("/sys/fs/cgroup/halcyon.shield").unwrap();
    let refused = planned(&fake, &[2], true).unwrap_err();
    assert_eq!(refused, Refusal::InTheWay("/sys/fs/cgroup/halcyon.shield".to_owned()));
}

#[test]
fn settings_of_the_start_are_told_with_the_line_to_add_and_never_as_done() {
    let plan = planned(&v2(), &[2], false).unwrap();
    let states: Vec<BootState> = plan.boot.iter().map(|boot| boot.state.clone()).collect();
    let lacking = |line: &str| BootState::Lacking(line.to_owned());
    let isolated = lacking("isolcpus=managed_irq,domain,2-3");
    assert_eq!(states, [isolated, BootState::Unknown, lacking("rcu_nocbs=2-3")]);
    let tickless = v2();
    tickless.add_knob("/sys/devices/system/cpu/nohz_full", "(null)");
    let plan = planned(&tickless, &[2], false).unwrap();
    assert_eq!(plan.boot[1].state, lacking("nohz_full=2-3"));
    tickless.add_knob("/sys/devices/system/cpu/nohz_full", "2-3");
    let plan = planned(&tickless, &[2], false).unwrap();
    assert_eq!(plan.boot[1].state, BootState::There);
    assert_eq!(plan.boot[2].state, BootState::There, "tickless processors have it as well");
    // 6 and 7 are isolated since the start.
    let plan = planned(&v2(), &[6], false).unwrap();
    assert_eq!(plan.boot[0].state, BootState::There);
    assert!(plan.steps.iter().all(|step| match step {
        Step::Set { knob, .. } => !knob.path.contains("nohz_full"),
        _ => true,
    }));
}

#[test]
fn masks_that_would_be_empty_become_all_of_housekeeping_and_others_stay_as_they_are() {
    let fake = v2();
    fake.write("/proc/irq/1/smp_affinity_list", "0-1").unwrap();
    let plan = planned(&fake, &[6], false).unwrap();
    let new = |path: &str| {
        plan.steps.iter().find_map(|step| match step {
            Step::Set { knob, new, .. } if knob.path == path => Some(new.as_str()),
            _ => None,
        })
    };
    assert_eq!(new("/proc/irq/1/smp_affinity_list"), None, "no shielded processor in it");
    assert_eq!(new("/proc/irq/2/smp_affinity_list"), Some("0-5"));
    assert_eq!(new("/proc/irq/90/smp_affinity_list"), Some("0-5"), "was 7 alone");
    assert_eq!(new("/proc/irq/default_smp_affinity"), Some("3f"));
    assert_eq!(new("/proc/sys/vm/stat_interval"), Some("10"));
    fake.write("/proc/sys/vm/stat_interval", "60").unwrap();
    let plan = planned(&fake, &[6], false).unwrap();
    let is_interval =
        |step: &Step| matches!(step, Step::Set { knob, .. } if knob.path.contains("stat_interval"));
    assert!(!plan.steps.iter().any(is_interval), "longer already");
}

#[test]
fn a_container_s_part_of_the_hierarchy_is_not_taken_for_its_root() {
    let fake = v2();
    assert!(matches!(Survey::of(&fake).cpusets, Cpusets::V2 { .. }));
    fake.add_knob("/sys/fs/cgroup/cgroup.type", "domain");
    let part = Survey::of(&fake).cpusets;
    assert!(matches!(&part, Cpusets::Missing(why) if why.contains("a container's")), "{part:?}");
    let missing = Survey::of(&Fake::new(2, Groups::Missing)).cpusets;
    assert!(
        matches!(missing, Cpusets::Missing(why) if why == "no hierarchy of cpusets is mounted")
    );
}
