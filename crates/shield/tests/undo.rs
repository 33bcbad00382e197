//! Any prefix of a shield's changes, ended by a refusal or by death at any of them, is undone to the initial
//! tree; what others changed meanwhile is kept. Exhaustive over the changes, on trees in memory.

use std::panic::{AssertUnwindSafe, catch_unwind};

use halcyon_base::rng::Rng;
use halcyon_machine::Topology;
use halcyon_shield::change::{Restored, raise, restore};
use halcyon_shield::fake::{Event, Fake, Groups, Killed};
use halcyon_shield::journal::Journal;
use halcyon_shield::{Knobs, Plan, Request, SHIELD, Survey, plan};

const CPUS: u32 = 8;

/// A machine's name, and what makes it.
type Machine = (&'static str, fn() -> Fake);

/// Every kind of machine that is modelled.
fn machines() -> Vec<Machine> {
    vec![
        ("v2, off", || Fake::new(CPUS, Groups::V2 { enabled: false })),
        ("v2, on", || Fake::new(CPUS, Groups::V2 { enabled: true })),
        ("v2, workqueues follow", || {
            Fake::new(CPUS, Groups::V2 { enabled: false }).with_workqueues_that_follow()
        }),
        ("v1", || Fake::new(CPUS, Groups::V1)),
        ("none", || Fake::new(CPUS, Groups::Missing)),
        ("v2 without a watchdog", || {
            let fake = Fake::new(CPUS, Groups::V2 { enabled: false });
            fake.remove_knob("/proc/sys/kernel/watchdog_cpumask");
            fake.remove_knob("/proc/irq/default_smp_affinity");
            fake
        }),
    ]
}

fn planned(fake: &Fake) -> (Plan, Journal) {
    let topology = Topology::flat(&(0..CPUS).collect::<Vec<u32>>());
    let request = Request { cpus: vec![6, 7], is_forced: true };
    let plan = plan(&topology, &Survey::of(fake), &request).expect("it can be planned");
    let journal = Journal::of(&plan, "b7-1f", 1, 5);
    // What is undone is what was on the disk.
    let journal = Journal::parse(journal.text().as_bytes()).expect("it was just written");
    (plan, journal)
}

/// Runs something in which the process may die.
fn until_death(run: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(()) => false,
        Err(payload) => {
            assert!(payload.is::<Killed>(), "only the planned death ends a run");
            true
        }
    }
}

fn assert_initial(fake: &Fake, initial: &str, result: &Restored, case: &str) {
    assert!(result.is_whole(), "{case}: {result}");
    assert_eq!(result.foreign, [], "{case}");
    assert_eq!(fake.snapshot(), initial, "{case}");
}

#[test]
fn a_raised_shield_has_every_mask_without_its_processors_and_is_undone() {
    for (name, machine) in machines() {
        let fake = machine();
        let initial = fake.snapshot();
        let (plan, journal) = planned(&fake);
        let raised = raise(&fake, &plan, &mut || {}).expect(name);
        let refused: Vec<&str> = raised.withheld.iter().map(|held| held.path.as_str()).collect();
        assert_eq!(refused, ["/proc/irq/91/smp_affinity_list"], "{name}: the managed interrupt");
        assert_ne!(fake.snapshot(), initial, "{name}");
        for irq in 0..CPUS {
            let path = format!("/proc/irq/{irq}/smp_affinity_list");
            assert_eq!(fake.text(&path).unwrap(), "0-5", "{name}");
        }
        assert_eq!(fake.text("/proc/irq/90/smp_affinity_list").unwrap(), "0-5", "{name}: was 7");
        let queues = fake.text("/sys/devices/virtual/workqueue/cpumask").unwrap();
        assert_eq!(queues, "00000000,0000003f", "{name}");
        assert_eq!(fake.text("/proc/sys/vm/stat_interval").unwrap(), "10", "{name}");
        if let Some(entrance) = &plan.entrance {
            fake.write(&entrance.inside, "0").expect("a thread gets in");
        }
        let result = restore(&fake, &journal);
        assert_initial(&fake, &initial, &result, name);
        let again = restore(&fake, &journal);
        assert_eq!(again.restored, 0, "{name}: nothing is left to be undone");
        assert_initial(&fake, &initial, &again, name);
    }
}

#[test]
fn a_refusal_or_a_death_at_any_change_is_undone() {
    let mut cases = 0;
    for (name, machine) in machines() {
        let whole = machine();
        let (plan, _) = planned(&whole);
        let _ = raise(&whole, &plan, &mut || {});
        for at in 0..whole.changes() {
            for event in [
                Event::Refuse(libc::EIO),
                Event::Refuse(libc::EBUSY),
                Event::DieBefore,
                Event::DieAfter,
            ] {
                let case = format!("{name}, {event:?} at change {at}");
                let fake = machine();
                let initial = fake.snapshot();
                let (plan, journal) = planned(&fake);
                fake.plan_event(Some((at, event)));
                let died = until_death(|| {
                    let _ = raise(&fake, &plan, &mut || {});
                });
                assert_eq!(died, !matches!(event, Event::Refuse(_)), "{case}");
                fake.plan_event(None);
                let result = restore(&fake, &journal);
                assert_initial(&fake, &initial, &result, &case);
                cases += 1;
            }
        }
    }
    assert!(cases > 400, "{cases}");
}

#[test]
fn a_death_at_any_change_of_undoing_is_mended_by_undoing_again() {
    for (name, machine) in machines() {
        let whole = machine();
        let (plan, journal) = planned(&whole);
        let _ = raise(&whole, &plan, &mut || {});
        let before = whole.changes();
        let _ = restore(&whole, &journal);
        for at in 0..whole.changes() - before {
            for event in [Event::DieBefore, Event::DieAfter] {
                let case = format!("{name}, {event:?} at change {at} of undoing");
                let fake = machine();
                let initial = fake.snapshot();
                let (plan, journal) = planned(&fake);
                let _ = raise(&fake, &plan, &mut || {});
                fake.plan_event(Some((at, event)));
                assert!(until_death(|| drop(restore(&fake, &journal))), "{case}");
                fake.plan_event(None);
                let result = restore(&fake, &journal);
                assert_initial(&fake, &initial, &result, &case);
            }
        }
    }
}

#[test]
fn what_cannot_be_undone_is_told_and_everything_else_is_undone_and_the_rest_later() {
    for (name, machine) in machines() {
        let fake = machine();
        let initial = fake.snapshot();
        let (plan, journal) = planned(&fake);
        raise(&fake, &plan, &mut || {}).expect(name);
        let broken = "/proc/irq/3/smp_affinity_list";
        fake.break_knob(broken, Some(libc::EIO));
        let result = restore(&fake, &journal);
        assert!(!result.is_whole(), "{name}");
        assert_eq!(result.failed.len(), 1, "{name}: {result}");
        assert!(result.to_string().contains("DID NOT COME BACK: /proc/irq/3"), "{name}: {result}");
        let rest = Journal { entries: result.rest.clone(), ..journal.clone() };
        fake.break_knob(broken, None);
        let result = restore(&fake, &rest);
        assert_eq!(result.restored, 1, "{name}");
        assert_initial(&fake, &initial, &result, name);
    }
}

#[test]
fn what_others_change_at_any_moment_is_kept_and_told() {
    let edits: [(&str, &str, &str); 4] = [
        ("/proc/irq/2/smp_affinity_list", "1", "/proc/irq/2/smp_affinity_list=1\n"),
        ("/proc/sys/vm/stat_interval", "5", "/proc/sys/vm/stat_interval=5\n"),
        (
            "/sys/devices/virtual/workqueue/writeback/cpumask",
            "3",
            "writeback/cpumask=00000000,00000003\n",
        ),
        ("/proc/sys/kernel/watchdog_cpumask", "0", "/proc/sys/kernel/watchdog_cpumask=0\n"),
    ];
    let mut rng = Rng::new(19);
    for round in 0..300 {
        let (name, machine) = machines().swap_remove(rng.below(5) as usize);
        let fake = machine();
        let initial = fake.snapshot();
        let (plan, journal) = planned(&fake);
        let steps = plan.steps.len() as u64;
        let (path, text, line) = *rng.pick(&edits);
        // The other program writes before a change of ours, or after all of them.
        let (moment, mut now) = (rng.below(steps + 1), 0);
        let death = rng.chance(1, 2).then(|| (rng.below(40) as usize, Event::DieAfter));
        fake.plan_event(death);
        let mut wrote = false;
        until_death(|| {
            let _ = raise(&fake, &plan, &mut || {
                if now == moment {
                    fake.write_as_other(path, text);
                    wrote = true;
                }
                now += 1;
            });
        });
        fake.plan_event(None);
        if !wrote {
            fake.write_as_other(path, text);
        }
        let case = format!("round {round}, {name}, {path} at {moment}, {death:?}");
        let result = restore(&fake, &journal);
        assert!(result.is_whole(), "{case}: {result}");
        assert_eq!(result.foreign.len(), 1, "{case}: {result}");
        assert_eq!(result.foreign[0].path, path, "{case}");
        let snapshot = fake.snapshot();
        assert!(snapshot.contains(line), "{case}: {snapshot}");
        let others = |snapshot: &str| -> Vec<String> {
            let lines = snapshot.lines().filter(|line| !line.contains(path));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(others(&snapshot), others(&initial), "{case}");
    }
}

#[test]
fn what_others_change_while_a_shield_is_undone_is_kept_and_no_failure() {
    let path = "/proc/irq/2/smp_affinity_list";
    for (name, machine) in machines() {
        let whole = machine();
        let (plan, journal) = planned(&whole);
        let _ = raise(&whole, &plan, &mut || {});
        let before = whole.changes();
        let _ = restore(&whole, &journal);
        for at in 0..whole.changes() - before {
            let case = format!("{name}, at change {at}");
            let fake = machine();
            let (plan, journal) = planned(&fake);
            let _ = raise(&fake, &plan, &mut || {});
            fake.plan_event(Some((at, Event::Interfere(path, "1"))));
            let result = restore(&fake, &journal);
            // Right behind our own write the other program cannot be told from the kernel.
            let is_told = result.foreign.iter().chain(&result.failed).any(|left| left.path == path);
            assert!(is_told, "{case}: {result}");
            assert_eq!(fake.text(path).unwrap(), "1", "{case}");
            let rest = Journal { entries: result.rest.clone(), ..journal.clone() };
            let again = restore(&fake, &rest);
            assert!(again.is_whole(), "{case}: {again}");
            assert_eq!(fake.text(path).unwrap(), "1", "{case}");
        }
    }
}

#[test]
fn a_controller_that_others_have_come_to_use_stays_on() {
    let fake = Fake::new(CPUS, Groups::V2 { enabled: false });
    let (plan, journal) = planned(&fake);
    raise(&fake, &plan, &mut || {}).unwrap();
    fake.mkdir("/sys/fs/cgroup/other.slice").unwrap();
    fake.write_as_other("/sys/fs/cgroup/other.slice/cpuset.cpus", "0-1");
    let result = restore(&fake, &journal);
    assert!(result.is_whole(), "{result}");
    assert_eq!(result.foreign.len(), 1, "{result}");
    assert!(result.to_string().contains("other.slice uses it now"), "{result}");
    assert_eq!(fake.text("/sys/fs/cgroup/other.slice/cpuset.cpus").unwrap(), "0-1");
    assert!(!fake.exists(&format!("/sys/fs/cgroup/{SHIELD}/cgroup.threads")));
}

#[test]
fn tasks_that_start_while_a_shield_is_up_are_back_in_the_root_afterwards() {
    let fake = Fake::new(CPUS, Groups::V1);
    let (plan, journal) = planned(&fake);
    let raised = raise(&fake, &plan, &mut || {}).unwrap();
    assert_eq!((raised.moved, raised.bound), (3, 2));
    fake.start_task(900);
    let entrance = plan.entrance.expect("version 1 has one");
    fake.write_as_other(&entrance.inside, "700");
    fake.write_as_other(&entrance.outside, "900");
    assert!(restore(&fake, &journal).is_whole());
    let root = fake.text("/sys/fs/cgroup/cpuset/tasks").unwrap();
    assert_eq!(root.lines().collect::<Vec<_>>(), ["1", "2", "40", "41", "700", "900"]);
}

#[test]
fn a_partition_that_the_kernel_calls_invalid_is_no_shield() {
    let fake = Fake::new(CPUS, Groups::V2 { enabled: true });
    let initial = fake.snapshot();
    let (plan, journal) = planned(&fake);
    fake.mkdir("/sys/fs/cgroup/other").unwrap();
    fake.write_as_other("/sys/fs/cgroup/other/cpuset.cpus", "7");
    fake.write_as_other("/sys/fs/cgroup/other/cpuset.cpus.partition", "isolated");
    let error = raise(&fake, &plan, &mut || {}).unwrap_err();
    assert!(error.path.ends_with("halcyon.shield/cpuset.cpus.partition"), "{error}");
    assert!(error.why.contains("not exclusive"), "{error}");
    assert!(restore(&fake, &journal).is_whole());
    fake.rmdir("/sys/fs/cgroup/other").unwrap();
    assert_eq!(fake.snapshot(), initial);
}
