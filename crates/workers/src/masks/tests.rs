//! Masks on fakes of machines.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use halcyon_cache::ResctrlFs;
use halcyon_cache::fake::{Fake, Profile};
use halcyon_machine::Topology;
use halcyon_task::WorkerId;

use super::*;
use crate::config::{Bed, config};

/// A fake machine, whose journals go away with the test.
struct Machine {
    fake: Arc<Fake>,
    folder: PathBuf,
    workers: Workers,
    masks: Masks,
}

impl Machine {
    /// A machine of `cpus` processors, `per_island` on each island.
    fn new(profile: Profile, cpus: u32, per_island: u32, workers: Workers) -> Machine {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("halcyon-masks-{}-{count}", std::process::id()));
        let fake = Arc::new(Fake::new(profile));
        let place = Place::fake(fake.clone(), &folder);
        let mut topology = Topology::flat(&(0..cpus).collect::<Vec<_>>());
        for processor in &mut topology.processors {
            processor.island = processor.cpu / per_island;
        }
        let workers = Workers { bed: Some(Bed::new(topology, place)), ..workers };
        Machine { fake, folder, masks: Masks::new(workers.place()), workers }
    }

    fn runtime(&self) -> Runtime {
        Runtime::new(config(&self.workers, &self.workers.topology())).expect("a few threads")
    }

    fn switch(&self, is_on: bool, polluting: usize, runtime: Option<&Runtime>) -> Vec<String> {
        self.masks.switch(is_on, polluting, &self.workers, runtime)
    }

    fn cpus(&self, group: &str) -> String {
        let groups = self.fake.folders("").expect("a tree");
        let name = groups.into_iter().find(|name| name.ends_with(group)).expect("the group");
        self.fake.read(&format!("{name}/cpus_list")).expect("it is there").trim().to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn parts_of(runtime: &Runtime) -> Vec<Part> {
    (0..runtime.worker_count()).map(|worker| runtime.part(WorkerId(worker as u16))).collect()
}

const NONE: [String; 0] = [];

#[test]
fn workers_fill_the_parts_of_their_processors_before_and_after_they_are_started() {
    use Part::{Polluting, Sensitive};
    for profile in [Profile::broadwell(), Profile::broadwell_cdp(), Profile::epyc()] {
        let machine = Machine::new(profile, 8, 4, Workers::default());
        let before = machine.fake.configuration();
        assert_eq!(machine.switch(true, 0, None), NONE);
        assert_eq!(
            (machine.cpus("-polluting"), machine.cpus("-sensitive")),
            ("3,7".into(), "0-2,4-6".into())
        );
        let runtime = machine.runtime();
        assert_eq!(machine.masks.started(&runtime), NONE);
        let one = [Sensitive, Sensitive, Sensitive, Polluting];
        assert_eq!(parts_of(&runtime), [one, one].concat());
        assert_eq!(machine.switch(true, 2, Some(&runtime)), NONE);
        let two = [Sensitive, Sensitive, Polluting, Polluting];
        assert_eq!(parts_of(&runtime), [two, two].concat());
        assert_eq!(machine.cpus("-polluting"), "2-3,6-7");
        assert_eq!(machine.switch(false, 2, Some(&runtime)), NONE);
        assert!(!runtime.is_divided());
        assert_eq!(machine.fake.configuration(), before);
        assert_eq!(machine.masks.rows()[0].reason.as_deref(), Some(OFF));
        assert_eq!(machine.switch(true, 0, Some(&runtime)), NONE);
        assert!(runtime.is_divided());
        assert_eq!(machine.masks.close(Some(&runtime)), NONE);
        assert_eq!((machine.fake.configuration(), runtime.is_divided()), (before, false));
        assert_eq!(machine.switch(true, 1, Some(&runtime)), NONE, "it stays closed");
        assert!(!runtime.is_divided());
    }
}

#[test]
fn a_machine_whose_caches_cannot_be_divided_is_told_once_with_the_reason() {
    let check = |machine: Machine, why: &str| {
        let before = machine.fake.configuration();
        let told = machine.switch(true, 0, None);
        assert_eq!(told.len(), 1, "one warning: {told:?}");
        assert!(told[0].contains(why), "{told:?}");
        assert_eq!(machine.masks.rows()[0].reason.as_ref(), told.first());
        assert_eq!(machine.switch(true, 0, None), NONE, "the same wish is not told again");
        let runtime = machine.runtime();
        assert_eq!(machine.masks.started(&runtime), NONE);
        assert!(!runtime.is_divided());
        assert_eq!(machine.fake.configuration(), before);
    };
    let of = |profile| Machine::new(profile, 8, 4, Workers::default());
    check(of(Profile::monitor_only()), "divides no last-level cache");
    check(of(Profile { loses_masks: true, ..Profile::broadwell() }), "were taken and not kept");
    check(of(Profile { groups_max: 2, ..Profile::broadwell() }), "there may be 2 groups");
    let two = Workers { count: 2, ..Workers::default() };
    check(Machine::new(Profile::broadwell(), 8, 4, two), "have 2 processors, and 3 are the least");
    check(Machine::new(Profile::broadwell(), 2, 2, Workers::default()), "have 2 processors");
    let alone = Workers::default();
    check(Machine::new(Profile::broadwell(), 4, 1, alone), "no last-level cache has two workers");
    let simulated = Workers { simulated: Some(1), ..Workers::default() };
    check(Machine::new(Profile::broadwell(), 8, 4, simulated), "statements run on no workers");
}

#[test]
fn dedicated_workers_and_lone_processors_keep_theirs() {
    let topology = {
        let mut topology = Topology::flat(&[0, 1, 2, 3, 4]);
        topology.processors[4].island = 1;
        topology
    };
    let workers = Workers { dedicated: vec![1], ..Workers::default() };
    let seats = seats(&workers, &topology);
    let split = split(&islands(&seats), 1);
    assert_eq!((&split.polluting[..], &split.sensitive[..]), (&[3][..], &[0, 1, 2][..]));
    let part = |part, cpus: &[u32]| WorkerPart { part, cpus: cpus.to_vec() };
    let wanted = [
        part(Part::Sensitive, &[1]),
        part(Part::Sensitive, &[0, 2]),
        part(Part::Sensitive, &[0, 2]),
        part(Part::Polluting, &[3]),
        part(Part::Whole, &[4]),
    ];
    assert_eq!(parts(&seats, &split, true), wanted);
}
