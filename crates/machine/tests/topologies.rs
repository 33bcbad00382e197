//! Machines of other shapes, as trees like those that kernels show under `/sys`.
//!
//! `recorded/guest-2.txt` was read off a guest with two processors, the other recorded ones off guests
//! under QEMU (`tests/guests/run --record` reads them again). The rest are written out from a shape by the kernel's documentation of these files: sockets, cores, threads, caches, nodes.

use halcyon_machine::{Availability, Topology, recorded};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder that goes away with the test.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Tree {
        let place = std::env::temp_dir().join(format!("halcyon-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).expect("a folder can be made");
        Tree(place)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }

    /// Files as lines of `path: text`.
    fn unpack(&self, lines: &str) {
        for line in lines.lines().filter(|line| !line.is_empty()) {
            let (path, text) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
            self.write(path, &format!("{text}\n"));
        }
    }

    fn topology(&self, allowed: &[u32]) -> Topology {
        let topology = Topology::read(&self.0, allowed).expect("the tree is whole");
        topology.check();
        topology
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A machine by its shape; threads of a core are numbered after all first threads, as Linux does.
struct Shape {
    packages: u32,
    islands_per_package: u32,
    cores_per_island: u32,
    threads: u32,
    nodes: u32,
    offline: &'static [u32],
}

impl Shape {
    fn tree(&self, name: &str) -> Tree {
        let tree = Tree::new(name);
        let cores = self.packages * self.islands_per_package * self.cores_per_island;
        let cpus = cores * self.threads;
        let online: Vec<u32> = (0..cpus).filter(|cpu| !self.offline.contains(cpu)).collect();
        let join =
            |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let with = |wanted: &dyn Fn(u32) -> bool| {
            join(&online.iter().copied().filter(|&cpu| wanted(cpu % cores)).collect::<Vec<_>>())
        };
        let base = "sys/devices/system/cpu";
        tree.write(&format!("{base}/online"), &join(&online));
        tree.write(&format!("{base}/present"), &format!("0-{}\n", cpus - 1));
        tree.write(&format!("{base}/isolated"), "\n");
        for &cpu in &online {
            let core = cpu % cores;
            let island = core / self.cores_per_island;
            let topology = format!("{base}/cpu{cpu}/topology");
            let siblings = with(&|other| other == core);
            tree.write(&format!("{topology}/core_cpus_list"), &siblings);
            let package = island / self.islands_per_package;
            tree.write(&format!("{topology}/physical_package_id"), &package.to_string());
            let shared = with(&|other| other / self.cores_per_island == island);
            for (index, level, size, sharing) in
                [(0, 1, "48K", &siblings), (2, 2, "1280K", &siblings), (3, 3, "32M", &shared)]
            {
                let cache = format!("{base}/cpu{cpu}/cache/index{index}");
                tree.write(&format!("{cache}/level"), &level.to_string());
                tree.write(&format!("{cache}/size"), size);
                tree.write(&format!("{cache}/shared_cpu_list"), sharing);
            }
        }
        let nodes = "sys/devices/system/node";
        tree.write(&format!("{nodes}/online"), &format!("0-{}", self.nodes - 1));
        for node in 0..self.nodes {
            let members = with(&|core| core / (cores / self.nodes) == node);
            tree.write(&format!("{nodes}/node{node}/cpulist"), &members);
            let memory = format!("Node {node} MemTotal:       1048576 kB\n");
            tree.write(&format!("{nodes}/node{node}/meminfo"), &memory);
            let distance = |to| if to == node { "10" } else { "21" };
            let distances: Vec<&str> = (0..self.nodes).map(distance).collect();
            tree.write(&format!("{nodes}/node{node}/distance"), &distances.join(" "));
        }
        tree
    }
}

#[test]
fn two_sockets_with_threads_are_two_islands() {
    let shape = Shape {
        packages: 2,
        islands_per_package: 1,
        cores_per_island: 8,
        threads: 2,
        nodes: 2,
        offline: &[],
    };
    let topology = shape.tree("sockets").topology(&(0..32).collect::<Vec<_>>());
    assert_eq!((topology.processors.len(), topology.core_count()), (32, 16));
    assert_eq!((topology.island_count(), topology.nodes.len()), (2, 2));
    assert_eq!(topology.processors[17].core, topology.processors[1].core);
    assert_eq!((topology.processors[17].thread, topology.processors[8].island), (1, 1));
    assert_eq!(topology.one_per_core().len(), 16);
    assert_eq!(topology.nodes[1].distances, [21, 10]);
    assert_eq!(topology.nodes[1].memory_bytes, 1 << 30);
    assert_eq!(topology.caches.iter().filter(|cache| cache.level == 3).count(), 2);
    assert_eq!(topology.caches.iter().filter(|cache| cache.level == 2).count(), 16);
}

#[test]
fn several_last_level_caches_in_a_socket_are_several_islands() {
    let shape = Shape {
        packages: 1,
        islands_per_package: 8,
        cores_per_island: 8,
        threads: 2,
        nodes: 1,
        offline: &[],
    };
    let topology = shape.tree("complexes").topology(&[0, 8, 9, 72]);
    assert_eq!((topology.island_count(), topology.nodes.len()), (8, 1));
    let chosen: Vec<u32> = topology.one_per_core().iter().map(|p| p.cpu).collect();
    assert_eq!(chosen, [0, 8, 9], "processor 72 is the second thread of core 8");
    assert_eq!(topology.processors[72].island, 1);
}

#[test]
fn offline_processors_are_told_and_belong_to_nothing() {
    let shape = Shape {
        packages: 1,
        islands_per_package: 2,
        cores_per_island: 2,
        threads: 2,
        nodes: 1,
        offline: &[1, 4],
    };
    let topology = shape.tree("offline").topology(&[0, 2, 3, 5, 6, 7]);
    assert_eq!(topology.offline, [1, 4]);
    assert_eq!((topology.processors.len(), topology.core_count()), (6, 4));
    let lone = topology.processors.iter().find(|p| p.cpu == 5).expect("it is online");
    assert_eq!((lone.thread, lone.island), (0, 0), "its sibling is offline");
}

#[test]
fn recorded_guest_is_read() {
    let tree = Tree::new("guest");
    tree.unpack(include_str!("recorded/guest-2.txt"));
    let topology = tree.topology(&[1]);
    assert_eq!((topology.processors.len(), topology.island_count()), (2, 1));
    assert_eq!(topology.one_per_core().iter().map(|p| p.cpu).collect::<Vec<_>>(), [1]);
    assert_eq!(topology.caches.last().map(|cache| cache.bytes), Some(48 << 20));
}

#[test]
fn recorded_guest_with_two_nodes_and_threads() {
    let tree = Tree::new("numa");
    tree.unpack(include_str!("recorded/numa.txt"));
    let topology = tree.topology(&(0..8).collect::<Vec<_>>());
    assert_eq!((topology.processors.len(), topology.core_count()), (8, 4));
    assert_eq!((topology.island_count(), topology.nodes.len()), (2, 2));
    let fifth = &topology.processors[5];
    assert_eq!((fifth.core, fifth.thread, fifth.island, fifth.package), (2, 1, 1, 1));
    assert_eq!(topology.one_per_core().iter().map(|p| p.cpu).collect::<Vec<_>>(), [0, 2, 4, 6]);
    assert_eq!(topology.nodes[0].distances, [10, 21]);
    assert!(topology.nodes.iter().all(|node| node.memory_bytes > 400 << 20));
}

#[test]
fn recorded_guests_with_an_offline_and_with_isolated_processors() {
    let tree = Tree::new("offline");
    tree.unpack(include_str!("recorded/offline.txt"));
    let topology = tree.topology(&[0, 1, 2]);
    assert_eq!((topology.processors.len(), topology.island_count()), (3, 1));
    assert_eq!(topology.offline, [3]);
    let tree = Tree::new("isolated");
    tree.unpack(include_str!("recorded/isolated.txt"));
    let topology = tree.topology(&[0, 1, 2, 3]);
    let isolated = topology.processors.iter().filter(|processor| processor.isolated);
    assert_eq!(isolated.map(|processor| processor.cpu).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(state(&tree.0, "isolated cores"), Availability::Present);
}

fn state(root: &Path, name: &str) -> Availability {
    let features = recorded(root);
    features.into_iter().find(|feature| feature.name == name).expect("it is looked for").state
}

#[test]
fn empty_root_has_nothing_and_is_reported_without_panic() {
    let tree = Tree::new("empty");
    let features = recorded(&tree.0);
    assert!(features.iter().all(|feature| feature.state == Availability::Absent), "{features:?}");
    assert!(Topology::read(&tree.0, &[0]).is_err());
}

#[test]
fn features_follow_what_the_kernel_shows() {
    let tree = Tree::new("features");
    tree.write("sys/devices/system/cpu/isolated", "2-3\n");
    tree.write("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
    tree.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io\n");
    tree.write("sys/fs/cgroup/cgroup.subtree_control", "\n");
    tree.write("sys/fs/cgroup/cpu.max", "150000 100000\n");
    tree.write("proc/filesystems", "nodev\tresctrl\n");
    tree.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    tree.write("sys/kernel/sched_ext/state", "disabled\n");
    let root = tree.0.as_path();
    assert_eq!(state(root, "isolated cores"), Availability::Present);
    assert_eq!(state(root, "cpuset, version 2"), Availability::Present);
    assert_eq!(state(root, "cpuset, version 1"), Availability::Absent);
    assert_eq!(state(root, "quota of processor time"), Availability::Present);
    assert_eq!(state(root, "cache partitions (resctrl)"), Availability::NotPermitted);
    assert_eq!(state(root, "transparent huge pages"), Availability::NotPermitted);
    assert_eq!(state(root, "extensible scheduler (sched_ext)"), Availability::Present);
    assert_eq!(state(root, "virtual machines (KVM)"), Availability::Absent);
}

#[test]
fn cells_can_be_had_in_software_or_by_the_processor_or_not_at_all() {
    let cells = |tree: &Tree| {
        let features = recorded(&tree.0);
        features.into_iter().find(|feature| feature.name == "cells").expect("it is looked for")
    };
    let tree = Tree::new("cells");
    tree.write("proc/cpuinfo", "flags\t\t: fpu vmx sse2\n");
    let none = cells(&tree);
    assert_eq!((none.state, &none.why[..5]), (Availability::Absent, "none:"));
    tree.write("dev/kvm", "");
    let by_vmx = cells(&tree);
    assert_eq!((by_vmx.state, &by_vmx.why[..7]), (Availability::Present, "by VMX:"));
    tree.write("proc/cpuinfo", "flags\t\t: fpu svm sse2\n");
    assert!(cells(&tree).why.starts_with("by SVM:"));
    tree.write("sys/module/kvm_pvm/initstate", "live\n");
    assert!(cells(&tree).why.starts_with("in software (kvm_pvm):"));
}
