//! Owner and guardian as processes over a copied tree of plain files: killed, stopped, started twice. The knobs of
//! the machine that runs the tests are not touched; control groups need a kernel, and are tested in guests
//! (docs/testing.md).

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use halcyon_base::rng::Rng;
use halcyon_shield::process::Process;

/// A tree of four processors without control groups, in a folder of its own.
struct Tree(PathBuf);

const KNOBS: [(&str, &str); 8] = [
    ("proc/irq/default_smp_affinity", "f\n"),
    ("proc/irq/1/smp_affinity_list", "0-3\n"),
    ("proc/irq/2/smp_affinity_list", "3\n"),
    ("proc/irq/3/smp_affinity_list", "0\n"),
    ("sys/devices/virtual/workqueue/cpumask", "f\n"),
    ("sys/devices/virtual/workqueue/writeback/cpumask", "f\n"),
    ("proc/sys/kernel/watchdog_cpumask", "0-3\n"),
    ("proc/sys/vm/stat_interval", "1\n"),
];

impl Tree {
    fn new(name: &str) -> Tree {
        let folder = std::env::temp_dir().join(format!("halcyon-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let tree = Tree(folder);
        for (path, text) in KNOBS {
            tree.write(path, text);
        }
        tree.write("sys/devices/system/cpu/online", "0-3\n");
        tree.write("sys/devices/system/cpu/present", "0-3\n");
        tree.write("proc/sys/kernel/random/boot_id", "b-1\n");
        tree.write("proc/cmdline", "quiet\n");
        tree.write("proc/self/mounts", "proc /proc proc rw 0 0\n");
        tree.write("dev/cpu_dma_latency", "");
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let place = self.0.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap().trim().to_owned()
    }

    fn run_folder(&self) -> PathBuf {
        self.0.join("run")
    }

    fn is_initial(&self) -> bool {
        // A plain file shows a value as it was written.
        KNOBS.iter().all(|(path, text)| self.read(path) == text.trim())
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program().expect("looked for before"));
        command.args([name, "--root"]).arg(&self.0).arg("--run").arg(self.run_folder());
        command
    }

    fn up(&self, more: &[&str]) -> Owner {
        let mut command = self.command("up");
        command.args(["2-3", "--force"]).args(more).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the example runs");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let ready = lines.find_map(|line| line.strip_prefix("up; guardian ")?.parse().ok());
        Owner { child, guardian: ready.expect("it says that it is up") }
    }

    /// Waits until lock and journal are free again.
    fn restore(&self) -> String {
        let output = self.command("restore").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Owner {
    child: Child,
    guardian: u32,
}

impl Owner {
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The example's program, which cargo has built beside this one.
fn program() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let program = own.parent()?.parent()?.join("examples/shield");
    if !Path::new(&program).exists() {
        eprintln!(
            "skipped: {} is not there; cargo test -p halcyon-shield builds it",
            program.display()
        );
        return None;
    }
    Some(program)
}

fn kill(pid: u32, signal: i32) {
    Process::open(pid).and_then(|process| process.signal(signal)).expect("the process is there");
}

#[test]
fn an_owner_that_is_asked_to_end_leaves_everything_as_it_was() {
    if program().is_none() {
        return;
    }
    let tree = Tree::new("ask");
    let mut owner = tree.up(&[]);
    assert_eq!(tree.read("proc/irq/1/smp_affinity_list"), "0-1");
    assert_eq!(tree.read("proc/irq/2/smp_affinity_list"), "0-1");
    assert_eq!(tree.read("sys/devices/virtual/workqueue/cpumask"), "3");
    let status = tree.command("status").output().unwrap();
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.starts_with("up, or being taken down: processors 2-3"), "{status}");
    let second = tree.command("up").args(["1", "--force"]).output().unwrap();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("another shield is up"));
    let down = tree.command("down").output().unwrap();
    assert!(down.status.success(), "{}", String::from_utf8_lossy(&down.stderr));
    assert!(tree.is_initial());
    assert!(owner.child.wait().unwrap().success());
}

#[test]
fn an_owner_without_a_guardian_restores_itself() {
    if program().is_none() {
        return;
    }
    let tree = Tree::new("lost");
    let mut owner = tree.up(&["--dead-man-ms", "2000"]);
    kill(owner.guardian, libc::SIGKILL);
    assert_eq!(owner.child.wait().unwrap().code(), Some(1), "and says that it had to");
    assert!(tree.is_initial());
}

#[test]
fn a_guardian_ignores_signals_that_would_end_it_and_kills_an_owner_that_stands_still() {
    if program().is_none() {
        return;
    }
    let tree = Tree::new("still");
    let mut owner = tree.up(&["--dead-man-ms", "1000"]);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        kill(owner.guardian, signal);
    }
    thread::sleep(Duration::from_millis(300));
    assert!(!tree.is_initial(), "the shield is up still");
    kill(owner.child.id(), libc::SIGSTOP);
    let begin = Instant::now();
    owner.child.wait().unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(500), "not at once");
    tree.restore();
    assert!(tree.is_initial());
}

#[test]
fn killed_processes_leave_the_knobs_as_they_were_and_what_others_changed_is_kept() {
    if program().is_none() {
        return;
    }
    let tree = Tree::new("kill");
    let mut rng = Rng::new(5);
    for round in 0..24 {
        let mut owner = tree.up(&["--dead-man-ms", "2000"]);
        let foreign = round % 4 == 3;
        if foreign {
            tree.write("proc/sys/vm/stat_interval", "7\n");
        }
        thread::sleep(Duration::from_millis(rng.below(30)));
        match round % 3 {
            0 => owner.kill(),
            1 => {
                kill(owner.guardian, libc::SIGKILL);
                owner.child.wait().unwrap();
            }
            _ => {
                // Neither must get to restore.
                kill(owner.child.id(), libc::SIGSTOP);
                kill(owner.guardian, libc::SIGKILL);
                owner.kill();
                assert!(!tree.is_initial(), "nobody is left who could have restored");
            }
        }
        let told = tree.restore();
        if foreign {
            assert_eq!(tree.read("proc/sys/vm/stat_interval"), "7", "round {round}: {told}");
            tree.write("proc/sys/vm/stat_interval", "1\n");
        }
        assert!(tree.is_initial(), "round {round}: {told}");
        assert!(!tree.run_folder().join("journal").exists(), "round {round}");
    }
}

#[test]
fn the_next_shield_restores_first_unless_the_machine_was_started_anew() {
    if program().is_none() {
        return;
    }
    let tree = Tree::new("next");
    let leave = || {
        let mut owner = tree.up(&[]);
        kill(owner.child.id(), libc::SIGSTOP);
        kill(owner.guardian, libc::SIGKILL);
        owner.kill();
    };
    leave();
    assert_eq!(tree.read("proc/irq/1/smp_affinity_list"), "0-1");
    // Journalled are the values before the first shield, not those that it left.
    tree.up(&[]).kill();
    tree.restore();
    assert!(tree.is_initial());

    leave();
    tree.write("proc/sys/kernel/random/boot_id", "b-2\n");
    assert!(tree.restore().contains("earlier boot"));
    assert_eq!(tree.read("proc/irq/1/smp_affinity_list"), "0-1", "it was not ours to undo");
}

#[test]
fn a_folder_that_others_write_to_is_refused() {
    if program().is_none() {
        return;
    }
    use std::os::unix::fs::PermissionsExt as _;
    let tree = Tree::new("folder");
    fs::create_dir_all(tree.run_folder()).unwrap();
    fs::set_permissions(tree.run_folder(), fs::Permissions::from_mode(0o777)).unwrap();
    let refused = tree.command("up").args(["2", "--force"]).output().unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("its owner alone writes to"));
    assert!(tree.is_initial());
}
