//! Conditions that a database runs under, read from trees like those of kernels.

use halcyon_machine::conditions::Conditions;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder that goes away with the test.
struct Tree(PathBuf);

impl Tree {
    /// A tree with these files.
    fn new(name: &str, files: &[(&str, &str)]) -> Tree {
        let place = std::env::temp_dir().join(format!("halcyon-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).expect("a folder can be made");
        for (path, text) in files {
            let path = place.join(path);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        }
        Tree(place)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const MOUNTS: &str = "\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
22 21 0:20 / /tmp rw,nosuid - tmpfs tmpfs rw,size=1g
23 21 0:21 / /data rw - ext4 /dev/sdb1 rw
24 23 0:22 /export /data/far\\040away ro - nfs4 host:/export rw,vers=4.2
25 21 0:23 / /tmp rw - xfs /dev/sdc1 rw
";

#[test]
fn everything_is_read_where_kernels_write_it() {
    let tree = Tree::new(
        "conditions",
        &[
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpuidle/current_driver", "none\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/kernel/mm/transparent_hugepage/defrag", "[always] defer madvise never\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            (
                "proc/swaps",
                "Filename Type Size Used Priority\n/dev/sda2 partition 1024 0 -2\n/swap file 1 0 -3\n",
            ),
            ("proc/sys/vm/swappiness", "60\n"),
            ("proc/sys/vm/overcommit_memory", "2\n"),
            (
                "proc/7/limits",
                "Limit Soft Hard Units\nMax open files            1024                 524288               files\n",
            ),
            ("proc/7/mountinfo", MOUNTS),
            ("proc/7/cgroup", "0::/box\n"),
            ("proc/meminfo", "MemTotal:       4096 kB\n"),
            ("sys/fs/cgroup/box/memory.max", "1048576\n"),
            ("sys/fs/cgroup/box/memory.swap.max", "0\n"),
        ],
    );
    let found = Conditions::read(&tree.0, "7");
    let governors = found.governors.as_ref().expect("processors are listed");
    assert_eq!(
        (&governors["powersave"][..], &governors["performance"][..]),
        (&[0, 2][..], &[1][..])
    );
    assert_eq!(found.huge_pages.as_deref(), Some("madvise"));
    assert_eq!(found.huge_pages_defrag.as_deref(), Some("always"));
    assert_eq!(found.clock_source.as_deref(), Some("hpet"));
    assert_eq!((found.swap_bytes, found.swappiness), (Some(1025 << 10), Some(60)));
    assert_eq!((found.swap_max, found.memory_max), (Some(0), Some(1 << 20)));
    assert_eq!((found.overcommit, found.open_files), (Some(2), Some(1024)));
    let kind = |path: &str| found.mount_of(Path::new(path)).map(|mount| mount.kind.as_str());
    assert_eq!(kind("/data/shop"), Some("ext4"));
    assert_eq!(kind("/data/far away/shop"), Some("nfs4"));
    assert_eq!(kind("/database"), Some("ext4"));
    assert_eq!(kind("/tmp/x"), Some("xfs"), "the later mount covers the earlier one");
    assert!(found.mount_of(Path::new("/data/far away")).expect("mounted").has("ro"));
    assert!(found.mount_of(Path::new("/")).expect("mounted").has("errors=remount-ro"));
}

#[test]
fn what_cannot_be_read_is_not_known() {
    let tree = Tree::new("conditions-nothing", &[]);
    assert_eq!(Conditions::read(&tree.0, "self"), Conditions::default());
    let odd = Tree::new(
        "conditions-odd",
        &[
            ("sys/kernel/mm/transparent_hugepage/enabled", "nonsense"),
            ("proc/sys/vm/overcommit_memory", "many"),
            ("proc/self/limits", "Max open files unlimited unlimited files\n"),
            ("proc/self/mountinfo", "nonsense\n"),
            ("proc/swaps", ""),
            ("sys/devices/system/cpu/online", "0\n"),
        ],
    );
    let found = Conditions::read(&odd.0, "self");
    assert_eq!((found.huge_pages.as_deref(), found.overcommit), (None, None));
    assert_eq!((found.open_files, found.swap_bytes), (Some(u64::MAX), Some(0)));
    assert_eq!(found.mount_of(Path::new("/")), None);
    assert_eq!(
        found.governors,
        Some(std::collections::BTreeMap::new()),
        "no clock rate is governed"
    );
}

#[test]
fn this_machine_tells_of_itself() {
    let found = Conditions::read(Path::new("/"), "self");
    assert!(found.open_files.is_some() && found.memory_max.is_some(), "{found:?}");
    assert!(found.mount_of(Path::new("/")).is_some(), "{found:?}");
}
