//! The machine: processors, memory, limits of the process.

use halcyon_machine::conditions::Conditions;
use halcyon_machine::topology::list_text;
use halcyon_machine::{Availability, Feature, Topology};

use super::diagnosis::{Diagnosis, Severity};
use super::size::{bytes_of, size};
use crate::serve;

/// Files that a server has open beside those of its connections: the log, checkpoints, spilled files, libraries.
const OTHER_FILES: u64 = 256;
/// The part of the memory that the limit may be; the rest is for stacks, fragments and pages of files.
const MEMORY_PERCENT_MAX: u64 = 90;
/// Below this much memory a server refuses statements soon.
const MEMORY_MIN: u64 = 512 << 20;

/// The machine as it was read.
pub struct Host {
    /// Processors and what they share.
    pub topology: Topology,
    /// What the kernel offers.
    pub features: Vec<Feature>,
    /// How kernel and process are configured.
    pub conditions: Conditions,
}

impl Host {
    fn feature(&self, name: &str) -> Option<&Feature> {
        self.features.iter().find(|feature| feature.name == name)
    }

    fn has(&self, name: &str) -> bool {
        self.feature(name).is_some_and(|feature| feature.state == Availability::Present)
    }
}

/// Looks at everything; `options`: those that the server is started with, if they are known.
pub fn examine(host: &Host, options: Option<&serve::Options>, found: &mut Diagnosis) {
    cores(host, options, found);
    governor(host, found);
    clock(host, found);
    huge_pages(host, found);
    swap(host, found);
    overcommit(host, found);
    memory(host, options, found);
    open_files(host, options, found);
    caches(host, options, found);
}

fn caches(host: &Host, options: Option<&serve::Options>, found: &mut Diagnosis) {
    let given = options.and_then(|options| options.tuning.given("cache_partitioning"));
    let resctrl = host.feature("cache partitions (resctrl)");
    match resctrl.filter(|resctrl| resctrl.state != Availability::Present) {
        Some(resctrl) if given.as_deref() == Some("on") => found.find(
            Severity::Warning,
            "cache partitioning",
            &resctrl.why,
            "--cache-partitioning has no effect: statements share whole caches",
            "mount -t resctrl resctrl /sys/fs/resctrl, and run the server as root, if the processor can",
        ),
        _ => found.fine("cache partitioning"),
    }
}

fn cores(host: &Host, options: Option<&serve::Options>, found: &mut Diagnosis) {
    let allowed: Vec<u32> = (host.topology.processors.iter())
        .filter(|processor| processor.allowed)
        .map(|processor| processor.cpu)
        .collect();
    let why = "threads of the network, the log and the workers take turns on them, so that long statements \
               make short ones wait";
    match allowed.len() {
        0 => found.unknown("cores", "no processor is listed", "halcyon machine"),
        count @ 1..4 => found.find(
            if count == 1 { Severity::Warning } else { Severity::Note },
            "cores",
            format!("the process may use {count} of {}", host.topology.processors.len()),
            why,
            "give it four or more (taskset -p, CPUAffinity= of the unit, --cpus of the container)",
        ),
        _ => found.fine("cores"),
    }
    let dedicated = options.map_or(&[][..], |options| &options.dedicated.0);
    if let Some(quota) =
        host.feature("quota of processor time").filter(|quota| quota.state == Availability::Present)
    {
        let severity = if dedicated.is_empty() { Severity::Note } else { Severity::Warning };
        let remedy = "systemctl set-property halcyon.service CPUQuota= (or start the container without --cpus)";
        found.find(severity, "processor quota", &quota.why, quota.action, remedy);
    } else {
        found.fine("processor quota");
    }
    if dedicated.is_empty() {
        return;
    }
    let isolated =
        |cpu: &u32| host.topology.processors.iter().any(|one| one.cpu == *cpu && one.isolated);
    let shared: Vec<u32> = dedicated.iter().copied().filter(|cpu| !isolated(cpu)).collect();
    match shared.is_empty() {
        true => found.fine("dedicated cores"),
        false => found.find(
            Severity::Note,
            "dedicated cores",
            format!("{} not isolated", list_text(&shared)),
            "other programs may run there, and a dedicated worker then waits for its processor",
            format!(
                "start the kernel with isolcpus={0} nohz_full={0}",
                list_text(&shared).replace(' ', "")
            ),
        ),
    }
}

fn governor(host: &Host, found: &mut Diagnosis) {
    let Some(governors) = &host.conditions.governors else {
        let remedy = "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
        return found.unknown("governor", "/sys/devices/system/cpu cannot be read", remedy);
    };
    let slow: Vec<String> = (governors.iter())
        .filter(|(governor, _)| governor.as_str() != "performance")
        .map(|(governor, cpus)| format!("{governor} on processors {}", list_text(cpus)))
        .collect();
    match slow.is_empty() {
        // Without any, the hypervisor or the firmware decides, and there is nothing to set.
        true => found.fine("governor"),
        false => found.find(
            Severity::Warning,
            "governor",
            slow.join(", "),
            "a processor that has been idle runs slowly at first: statements that come one at a time take longer, \
             and unevenly long",
            "cpupower frequency-set -g performance",
        ),
    }
}

fn clock(host: &Host, found: &mut Diagnosis) {
    match host.conditions.clock_source.as_deref() {
        None => found.unknown(
            "clock source",
            "the kernel does not tell",
            "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        Some("tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "arch_sys_counter") => {
            found.fine("clock source");
        }
        Some(source) => found.find(
            Severity::Warning,
            "clock source",
            format!("the kernel's clock is {source}"),
            "each look at the time is a system call of a microsecond or more in place of some nanoseconds",
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource \
             (and tsc=reliable for the kernel, if the processor's counter is steady)",
        ),
    }
    match host.has("steady time-stamp counter") {
        true => found.fine("time-stamp counter"),
        false => found.find(
            Severity::Note,
            "time-stamp counter",
            host.feature("steady time-stamp counter").map_or("not known", |feature| &feature.why),
            "times that workers report may be wrong while the counter changes its rate",
            "nothing can be set; in a guest, let the hypervisor show invtsc",
        ),
    }
}

fn huge_pages(host: &Host, found: &mut Diagnosis) {
    let conditions = &host.conditions;
    let choice = "/sys/kernel/mm/transparent_hugepage";
    match (conditions.huge_pages.as_deref(), conditions.huge_pages_defrag.as_deref()) {
        (None, _) => found.unknown(
            "transparent huge pages",
            format!("{choice}/enabled cannot be read"),
            format!("cat {choice}/enabled"),
        ),
        (Some("never"), _) => found.find(
            Severity::Warning,
            "transparent huge pages",
            "the kernel gives none",
            "random accesses to much memory miss the processor's table of addresses: indexes and views are slower",
            format!("echo madvise > {choice}/enabled"),
        ),
        (Some("always"), Some("always")) => found.find(
            Severity::Warning,
            "transparent huge pages",
            "every program gets them, and waits while memory is defragmented for them",
            "a statement that takes memory can stop for milliseconds",
            format!("echo madvise > {choice}/enabled; echo madvise > {choice}/defrag"),
        ),
        (Some("always"), _) => found.find(
            Severity::Note,
            "transparent huge pages",
            "every program gets them, asked for or not",
            "memory that is hardly used is taken in pieces of 2 MiB; Halcyon asks for them where they help",
            format!("echo madvise > {choice}/enabled"),
        ),
        (Some(_), _) => found.fine("transparent huge pages"),
    }
}

fn swap(host: &Host, found: &mut Diagnosis) {
    let conditions = &host.conditions;
    let Some(bytes) = conditions.swap_bytes else {
        return found.unknown("swap", "/proc/swaps cannot be read", "cat /proc/swaps");
    };
    if bytes == 0 || conditions.swap_max == Some(0) {
        return found.fine("swap");
    }
    let seldom = conditions.swappiness.is_some_and(|swappiness| swappiness <= 1);
    let swappiness = conditions.swappiness.map_or_else(|| "not known".into(), |s| s.to_string());
    found.find(
        if seldom { Severity::Note } else { Severity::Warning },
        "swap",
        format!("{} of swap space, vm.swappiness is {swappiness}", size(bytes)),
        "rows that were paged out take milliseconds to read, and a database in memory has no others",
        "systemctl set-property halcyon.service MemorySwapMax=0 (for all programs: swapoff -a, or sysctl vm.swappiness=1)",
    );
}

fn overcommit(host: &Host, found: &mut Diagnosis) {
    match host.conditions.overcommit {
        None => found.unknown(
            "overcommit",
            "/proc/sys/vm/overcommit_memory cannot be read",
            "sysctl vm.overcommit_memory",
        ),
        Some(2) => found.find(
            Severity::Warning,
            "overcommit",
            "vm.overcommit_memory is 2: the kernel counts memory that is reserved and not touched",
            "it refuses memory while much is free, and a statement, or the process, ends by that",
            "sysctl vm.overcommit_memory=0",
        ),
        Some(_) => found.fine("overcommit"),
    }
}

fn memory(host: &Host, options: Option<&serve::Options>, found: &mut Diagnosis) {
    let Some(most) = host.conditions.memory_max else {
        return found.unknown("memory", "/proc/meminfo cannot be read", "cat /proc/meminfo");
    };
    match most < MEMORY_MIN {
        true => found.find(
            Severity::Warning,
            "memory",
            format!("the process may have {}", size(most)),
            "the database and all that statements hold must fit",
            "give it more (MemoryMax= of the unit, --memory of the container)",
        ),
        false => found.fine("memory"),
    }
    let Some(text) = options.and_then(|options| options.tuning.given("memory_limit")) else {
        return;
    };
    match bytes_of(&text) {
        None => found.unknown("memory limit", format!("--memory-limit {text}"), "write it as 8GB"),
        // The default is a part of what the process may have.
        Some(0) => found.fine("memory limit"),
        Some(limit) => memory_limit(limit, most, found),
    }
}

/// Compares the limit that the server keeps with what it may have, both in bytes.
pub fn memory_limit(limit: u64, most: u64, found: &mut Diagnosis) {
    let reasonable = most / 100 * MEMORY_PERCENT_MAX;
    if limit <= reasonable {
        return found.fine("memory limit");
    }
    let over = limit > most;
    found.find(
        if over { Severity::Error } else { Severity::Warning },
        "memory limit",
        format!("memory_limit is {}, and the process may have {}", size(limit), size(most)),
        match over {
            true => "the kernel kills the server before it refuses a statement",
            false => "stacks, fragments and pages of files are not counted, and the kernel kills who exceeds it",
        },
        format!("ALTER SYSTEM SET memory_limit = '{}MB' (or --memory-limit)", (most / 100 * 80) >> 20),
    );
}

fn open_files(host: &Host, options: Option<&serve::Options>, found: &mut Diagnosis) {
    let Some(limit) = host.conditions.open_files else {
        return found.unknown(
            "open files",
            "the limits of the process cannot be read",
            "ulimit -n",
        );
    };
    let connections =
        options.map_or(2_000, |options| u64::try_from(options.connections).unwrap_or(u64::MAX));
    let needed = connections.saturating_add(OTHER_FILES);
    match limit < needed {
        true => found.find(
            Severity::Warning,
            "open files",
            format!("{limit} are allowed, and {connections} connections may need {needed}"),
            "connections are refused, and files of the log cannot be opened, once they are used up",
            format!(
                "ulimit -n {0} before the start (LimitNOFILE={0} of the unit)",
                needed.next_power_of_two()
            ),
        ),
        false => found.fine("open files"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A machine on which nothing is to be said.
    fn well() -> Host {
        let conditions = Conditions {
            governors: Some([("performance".to_owned(), vec![0, 1, 2, 3])].into()),
            huge_pages: Some("madvise".into()),
            huge_pages_defrag: Some("madvise".into()),
            swap_bytes: Some(0),
            swappiness: Some(60),
            swap_max: None,
            overcommit: Some(0),
            clock_source: Some("tsc".into()),
            open_files: Some(1 << 20),
            memory_max: Some(8 << 30),
            mounts: None,
        };
        let steady = Feature {
            name: "steady time-stamp counter",
            state: Availability::Present,
            why: String::new(),
            action: "",
        };
        Host { topology: Topology::flat(&[0, 1, 2, 3]), features: vec![steady], conditions }
    }

    fn examined(change: impl Fn(&mut Host), options: &[&str]) -> Diagnosis {
        let mut host = well();
        change(&mut host);
        let options = crate::doctor::setup::parse(options).expect("options");
        let mut found = Diagnosis::default();
        examine(&host, Some(&options), &mut found);
        found
    }

    #[test]
    fn a_machine_as_it_should_be_has_no_findings() {
        let found = examined(|_| {}, &["--memory-limit", "6GB"]);
        assert_eq!(found.json()["findings"], serde_json::json!([]));
    }

    #[test]
    fn a_machine_that_tells_nothing_is_not_known_and_not_blamed() {
        let found = examined(
            |host| {
                host.conditions = Conditions::read(Path::new("/nowhere"), "self");
                host.topology.processors.clear();
            },
            &[],
        );
        for about in [
            "cores",
            "governor",
            "clock source",
            "transparent huge pages",
            "swap",
            "overcommit",
            "memory",
            "open files",
        ] {
            assert_eq!(found.severities(about), [Severity::Unknown], "{about}");
        }
        assert_eq!(found.status(), std::process::ExitCode::SUCCESS);
    }

    #[test]
    fn each_condition_is_found_alone() {
        use Severity::{Error, Note, Warning};
        type Change = fn(&mut Host);
        let cases: &[(&str, Severity, Change)] = &[
            ("cores", Warning, |host| host.topology = Topology::flat(&[0])),
            ("cores", Note, |host| host.topology = Topology::flat(&[0, 1])),
            ("governor", Warning, |host| {
                host.conditions.governors = Some([("powersave".to_owned(), vec![1])].into());
            }),
            ("clock source", Warning, |host| host.conditions.clock_source = Some("hpet".into())),
            ("time-stamp counter", Note, |host| host.features.clear()),
            ("transparent huge pages", Warning, |host| {
                host.conditions.huge_pages = Some("never".into());
            }),
            ("transparent huge pages", Note, |host| {
                host.conditions.huge_pages = Some("always".into());
            }),
            ("transparent huge pages", Warning, |host| {
                host.conditions.huge_pages = Some("always".into());
                host.conditions.huge_pages_defrag = Some("always".into());
            }),
            ("swap", Warning, |host| host.conditions.swap_bytes = Some(1 << 30)),
            ("swap", Note, |host| {
                host.conditions.swap_bytes = Some(1 << 30);
                host.conditions.swappiness = Some(1);
            }),
            ("overcommit", Warning, |host| host.conditions.overcommit = Some(2)),
            ("memory", Warning, |host| host.conditions.memory_max = Some(256 << 20)),
            ("open files", Warning, |host| host.conditions.open_files = Some(1024)),
            ("processor quota", Note, |host| {
                host.features.push(Feature {
                    name: "quota of processor time",
                    state: Availability::Present,
                    why: "the control group is limited to 50000 100000".into(),
                    action: "use shared workers",
                });
            }),
        ];
        for (about, severity, change) in cases {
            let found = examined(change, &[]);
            assert_eq!(found.severities(about), [*severity], "{about}");
            assert_eq!(found.json()["findings"].as_array().map(Vec::len), Some(1), "{found:#?}");
        }
        let limited =
            |limit| examined(|_| {}, &["--memory-limit", limit]).severities("memory limit");
        assert_eq!(
            (limited("9GB"), limited("8GB"), limited("7GB")),
            (vec![Error], vec![Warning], vec![])
        );
        let swap_is_shut = |host: &mut Host| {
            host.conditions.swap_bytes = Some(1 << 30);
            host.conditions.swap_max = Some(0);
        };
        assert!(examined(swap_is_shut, &[]).severities("swap").is_empty());
    }

    #[test]
    fn masks_that_the_machine_does_not_have_are_told_to_who_asks_for_them() {
        let lacks = |host: &mut Host| {
            host.features.push(Feature {
                name: "cache partitions (resctrl)",
                state: Availability::Absent,
                why: "the kernel or the processor has no resctrl".into(),
                action: "",
            });
        };
        let of = |options: &[&str]| examined(lacks, options).severities("cache partitioning");
        assert_eq!(of(&["--cache-partitioning", "on"]), [Severity::Warning]);
        assert!(of(&[]).is_empty() && of(&["--cache-partitioning", "off"]).is_empty());
        let has = examined(|_| {}, &["--cache-partitioning", "on"]);
        assert!(has.severities("cache partitioning").is_empty());
    }

    #[test]
    fn dedicated_cores_that_are_not_isolated_are_named() {
        let found =
            examined(|host| host.topology.processors[0].isolated = false, &["--dedicated", "0"]);
        let [finding] = found.about("dedicated cores")[..] else { panic!("{found:#?}") };
        assert!(finding.remedy.contains("isolcpus=0 "), "{finding:?}");
        let found =
            examined(|host| host.topology.processors[0].isolated = true, &["--dedicated", "0"]);
        assert!(found.severities("dedicated cores").is_empty());
    }
}
