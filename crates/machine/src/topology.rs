//! The topology of the machine: its processors, and the cores, caches and memory that they share.
//!
//! Words: a *processor* is a hardware thread (Linux: CPU); a *core* is the processors that share
//! execution units (SMT siblings); an *island* is the processors that share a last-level cache, or a
//! NUMA node where the kernel shows no such cache; a *node* is a NUMA node.
//! Invariants, checked by [`Topology::check`]:
//! 1. Processors are sorted by number, each in exactly one island; only online ones are listed.
//! 2. Cores, islands and nodes are numbered from 0 without gaps, by their first processor.
//!
//! Source: the kernel's `Documentation/admin-guide/cputopology.rst` and `ABI/stable/sysfs-devices-node`.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// A hardware thread that is online.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Processor {
    /// The kernel's number.
    pub cpu: u32,
    /// Core, counted over the machine.
    pub core: u32,
    /// Socket, by the kernel's number.
    pub package: u32,
    /// Island.
    pub island: u32,
    /// NUMA node.
    pub node: u32,
    /// Position among the threads of the core; 0 is the first.
    pub thread: u32,
    /// Kept out of the kernel's load balancing at boot (`isolcpus=`).
    pub isolated: bool,
    /// Whether this process may use it (affinity, cpuset).
    pub allowed: bool,
}

/// A cache, and the processors that share it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// 2 or 3, seldom 4.
    pub level: u32,
    /// Size, bytes.
    pub bytes: u64,
    /// The processors that share it.
    pub cpus: Vec<u32>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The kernel's number.
    pub number: u32,
    /// Memory of the node, bytes; 0 if it has none or the kernel does not say.
    pub memory_bytes: u64,
    /// Online processors of the node.
    pub cpus: Vec<u32>,
    /// Distances to all nodes, 10 being local; empty if the kernel does not say.
    pub distances: Vec<u32>,
}

/// The processors of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// Online processors by number.
    pub processors: Vec<Processor>,
    /// Processors that exist and are switched off.
    pub offline: Vec<u32>,
    /// Shared caches of level 2 and above, by level and first processor.
    pub caches: Vec<Cache>,
    /// NUMA nodes by number.
    pub nodes: Vec<Node>,
}

impl Topology {
    /// The topology of this machine, and what of it this process may use.
    ///
    /// Errors: the operating system's, if sysfs is not there: then one core per processor that
    /// [`crate::affinity::get`] names is what is known ([`Topology::flat`]).
    pub fn of_this_machine() -> io::Result<Topology> {
        Self::read(Path::new("/"), &crate::affinity::get()?)
    }

    /// As [`Topology::of_this_machine`], without sysfs as processors that share nothing known.
    pub fn of_this_machine_or_flat() -> Topology {
        let allowed = crate::affinity::get().unwrap_or_else(|_| vec![0]);
        Self::read(Path::new("/"), &allowed).unwrap_or_else(|_| Self::flat(&allowed))
    }

    /// Processors of one island and node, each a core.
    pub fn flat(cpus: &[u32]) -> Topology {
        let processor = |(core, &cpu): (usize, &u32)| Processor {
            cpu,
            core: core as u32,
            package: 0,
            island: 0,
            node: 0,
            thread: 0,
            isolated: false,
            allowed: true,
        };
        let node = Node { number: 0, memory_bytes: 0, cpus: cpus.to_vec(), distances: vec![] };
        Topology {
            processors: cpus.iter().enumerate().map(processor).collect(),
            offline: Vec::new(),
            caches: Vec::new(),
            nodes: vec![node],
        }
    }

    /// The topology under `root` (`/`, or a recorded tree), and `allowed` as what may be used.
    pub fn read(root: &Path, allowed: &[u32]) -> io::Result<Topology> {
        let cpus = root.join("sys/devices/system/cpu");
        let online = list(&fs::read_to_string(cpus.join("online"))?)?;
        let present = read_list(&cpus.join("present")).unwrap_or_else(|| online.clone());
        let isolated = read_list(&cpus.join("isolated")).unwrap_or_default();
        let nodes = nodes(root, &online);
        let caches = caches(&cpus, &online);
        let island_of = islands(&caches, &nodes, &online);
        let mut cores: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        let mut processors = Vec::with_capacity(online.len());
        for &cpu in &online {
            let topology = cpus.join(format!("cpu{cpu}/topology"));
            let siblings = read_list(&topology.join("core_cpus_list"))
                .or_else(|| read_list(&topology.join("thread_siblings_list")));
            let mut siblings = siblings.unwrap_or_else(|| vec![cpu]);
            siblings.retain(|sibling| online.contains(sibling));
            let thread = siblings.iter().position(|&sibling| sibling == cpu).unwrap_or(0) as u32;
            let next = cores.len() as u32;
            processors.push(Processor {
                cpu,
                core: *cores.entry(siblings).or_insert(next),
                package: number(&topology.join("physical_package_id")).unwrap_or(0) as u32,
                island: island_of[&cpu],
                node: nodes.iter().find(|n| n.cpus.contains(&cpu)).map_or(0, |n| n.number),
                thread,
                isolated: isolated.contains(&cpu),
                allowed: allowed.contains(&cpu),
            });
        }
        let offline = present.into_iter().filter(|cpu| !online.contains(cpu)).collect();
        Ok(Topology { processors, offline, caches, nodes })
    }

    /// How many islands there are.
    pub fn island_count(&self) -> usize {
        self.processors.iter().map(|processor| processor.island as usize + 1).max().unwrap_or(0)
    }

    /// How many cores there are.
    pub fn core_count(&self) -> usize {
        self.processors.iter().map(|processor| processor.core as usize + 1).max().unwrap_or(0)
    }

    /// The first thread that this process may use of each core, by number: what workers are put on.
    pub fn one_per_core(&self) -> Vec<&Processor> {
        let mut first: BTreeMap<u32, &Processor> = BTreeMap::new();
        for processor in self.processors.iter().filter(|processor| processor.allowed) {
            first.entry(processor.core).or_insert(processor);
        }
        let mut chosen: Vec<&Processor> = first.into_values().collect();
        chosen.sort_by_key(|processor| processor.cpu);
        chosen
    }

    /// Panics unless the invariants hold.
    pub fn check(&self) {
        assert!(self.processors.is_sorted_by(|one, next| one.cpu < next.cpu));
        assert!(self.processors.iter().all(|processor| !self.offline.contains(&processor.cpu)));
        for of in [|p: &Processor| p.core, |p: &Processor| p.island] {
            let mut next = 0;
            for processor in &self.processors {
                assert!(of(processor) <= next, "numbered by the first processor, without gaps");
                next = next.max(of(processor) + 1);
            }
        }
    }
}

/// The island of each processor.
fn islands(caches: &[Cache], nodes: &[Node], online: &[u32]) -> BTreeMap<u32, u32> {
    let mut numbers: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    let mut island_of = BTreeMap::new();
    let last = caches.iter().filter(|cache| cache.level >= 3).map(|cache| cache.level).max();
    for &cpu in online {
        let cache = caches.iter().find(|c| Some(c.level) == last && c.cpus.contains(&cpu));
        let node = nodes.iter().find(|node| node.cpus.contains(&cpu));
        let members = cache.map(|cache| cache.cpus.clone());
        let members = members.or_else(|| node.map(|node| node.cpus.clone()));
        let next = numbers.len() as u32;
        let island = *numbers.entry(members.unwrap_or_else(|| online.to_vec())).or_insert(next);
        island_of.insert(cpu, island);
    }
    island_of
}

fn caches(cpus: &Path, online: &[u32]) -> Vec<Cache> {
    let mut found: BTreeMap<(u32, Vec<u32>), u64> = BTreeMap::new();
    for cpu in online {
        for index in 0..8 {
            let cache = cpus.join(format!("cpu{cpu}/cache/index{index}"));
            let Some(level) = number(&cache.join("level")).filter(|&level| level >= 2) else {
                continue;
            };
            let mut shared = read_list(&cache.join("shared_cpu_list")).unwrap_or_default();
            shared.retain(|cpu| online.contains(cpu));
            let bytes = fs::read_to_string(cache.join("size")).ok().and_then(|text| size(&text));
            found.insert((level as u32, shared), bytes.unwrap_or(0));
        }
    }
    found.into_iter().map(|((level, cpus), bytes)| Cache { level, bytes, cpus }).collect()
}

fn nodes(root: &Path, online: &[u32]) -> Vec<Node> {
    let folder = root.join("sys/devices/system/node");
    let numbers = read_list(&folder.join("online")).unwrap_or_default();
    let nodes = numbers.into_iter().map(|node| {
        let folder = folder.join(format!("node{node}"));
        let mut cpus = read_list(&folder.join("cpulist")).unwrap_or_default();
        cpus.retain(|cpu| online.contains(cpu));
        let meminfo = fs::read_to_string(folder.join("meminfo")).unwrap_or_default();
        let total = meminfo.lines().find(|line| line.contains("MemTotal:"));
        let kib = total.and_then(|line| line.split_ascii_whitespace().rev().nth(1)?.parse().ok());
        let distances = fs::read_to_string(folder.join("distance")).unwrap_or_default();
        let distances = distances.split_ascii_whitespace().filter_map(|text| text.parse().ok());
        Node {
            number: node,
            memory_bytes: kib.unwrap_or(0u64) * 1024,
            cpus,
            distances: distances.collect(),
        }
    });
    let nodes: Vec<Node> = nodes.collect();
    if nodes.is_empty() {
        let cpus = online.to_vec();
        return vec![Node { number: 0, memory_bytes: 0, cpus, distances: vec![] }];
    }
    nodes
}

fn number(path: &Path) -> Option<u64> {
    // A package number may be -1 where the platform does not know.
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

pub(crate) fn read_list(path: &Path) -> Option<Vec<u32>> {
    list(&fs::read_to_string(path).ok()?).ok()
}

/// Numbers of a kernel list such as `0-3,8,10-11`, ascending; of an empty one none.
///
/// Errors: the text is no such list.
pub fn list(text: &str) -> io::Result<Vec<u32>> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("not a list: {text:?}"));
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().map_err(|_| wrong())?;
        let last: u32 = last.trim().parse().map_err(|_| wrong())?;
        if last < first || last - first > 65_536 {
            return Err(wrong());
        }
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Numbers as the kernel lists them: `0-3, 8`.
pub fn list_text(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let shown = runs.iter().map(|&(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Bytes of a size such as `48K`.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (digits, &text[digits.len()..]),
        None => (text, ""),
    };
    let unit = match unit {
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => 1,
    };
    digits.parse::<u64>().ok().map(|count| count * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_are_read_and_nonsense_is_refused() {
        assert_eq!(list("0-3,8,10-11\n").unwrap(), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(list("\n").unwrap(), []);
        assert!(list("3-1").is_err() && list("a").is_err() && list("0-99999999").is_err());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            ["48K", "32M", "1G", "64"].map(size),
            [49_152, 33_554_432, 1 << 30, 64].map(Some)
        );
        assert_eq!(size("much"), None);
    }

    #[test]
    fn this_machine_has_what_this_process_may_use() {
        let topology = Topology::of_this_machine_or_flat();
        topology.check();
        let allowed = crate::affinity::get().expect("affinity can be asked for");
        let listed = topology.processors.iter().filter(|processor| processor.allowed);
        assert_eq!(listed.map(|processor| processor.cpu).collect::<Vec<_>>(), allowed);
        assert!(!topology.one_per_core().is_empty());
    }
}
