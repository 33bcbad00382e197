//! A shield that is up: its owner, its guardian, and the lock that both hold.
//!
//! The *owner* is the process that asked for the shield. The *guardian* is a process of its own, started before
//! the first change, whose standard input is a socket to the owner and whose standard output is the lock's file:
//! so it needs no descriptor passed by number, and the lock is held until both have ended. The owner *beats*: it
//! sends a byte now and then. When the socket ends, because the owner asked for it, ended or was killed, the
//! guardian undoes the journal; when no beat comes for the dead-man's time, it kills the owner first.
//!
//! When the guardian is killed, the owner finds out at its next beat and undoes the journal itself. When both
//! are, whoever takes the lock next does (`shield restore`, or the next shield).

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, parent_id};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use halcyon_machine::schedule::{self, Policy};
use halcyon_machine::{Topology, affinity};

use crate::change::{Raised, Restored, Withheld, raise, restore};
use crate::door::Door;
use crate::journal::{Damage, Journal, Place};
use crate::knobs::{Kernel, Knobs};
use crate::load;
use crate::plan::{Plan, Refusal, Request, plan};
use crate::process::{self, Process};
use crate::survey::Survey;

/// Where a shield is raised, and by what it is guarded.
#[derive(Clone, Debug)]
pub struct Config {
    /// The tree of knobs.
    pub kernel: Kernel,
    /// Where journal and lock are: a folder of root's, in a file system that ends with the boot.
    pub place: Place,
    /// The program and its first arguments by which a guardian is started.
    pub guardian: Vec<std::ffi::OsString>,
    /// Time without a beat after which the guardian kills the owner.
    pub dead_man: Duration,
}

/// Time without a beat after which a guardian kills the owner, unless told otherwise.
pub const DEAD_MAN: Duration = Duration::from_secs(30);
/// The folder of journal and lock.
pub const FOLDER: &str = "/run/halcyon-shield";
/// How long an owner waits for its guardian to be ready.
const READY_WAIT: Duration = Duration::from_secs(20);
/// How long an owner waits for its guardian to restore, before it does so itself: thousands of tasks are moved back.
const REPORT_WAIT: Duration = Duration::from_secs(300);
/// How long an owner waits for its guardian to take a beat.
const BEAT_WAIT: Duration = Duration::from_secs(5);
/// How long a guardian waits for a killed owner to be gone.
const KILL_WAIT: Duration = Duration::from_secs(10);

/// Why no shield is up. What was changed before is undone.
#[derive(Debug)]
#[non_exhaustive]
pub enum UpError {
    /// Only root may.
    NotRoot,
    /// Another shield is up, or being taken down.
    Busy,
    /// What an earlier shield left cannot be undone.
    Left(Restored),
    /// There is no plan.
    Refused(Refusal),
    /// Other programs use the processors, in cores.
    Loaded {
        /// Their use of the processors that would be shielded.
        covered: f64,
        /// Their use of the whole machine.
        total: f64,
    },
    /// The kernel refused a change that no shield can do without.
    Withheld(Withheld, String),
    /// The operating system refused a file or a process: which one, and why.
    System(&'static str, io::Error),
}

impl std::fmt::Display for UpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UpError::NotRoot => f.write_str("only root may shield processors"),
            UpError::Busy => f.write_str("another shield is up, or is being taken down"),
            UpError::Left(left) => write!(f, "an earlier shield cannot be undone: {left}"),
            UpError::Refused(refusal) => refusal.fmt(f),
            UpError::Loaded { covered, total } => write!(
                f,
                "other programs use {covered:.1} of the cores that would be shielded and {total:.1} in all, and \
                 would have to share what is left; --force goes on"
            ),
            UpError::Withheld(withheld, after) => {
                write!(f, "the kernel refuses: {withheld}; taken back: {after}")
            }
            UpError::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for UpError {}

/// What was found at a journal's place, and done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was no journal.
    Nothing,
    /// The journal was never finished, so that nothing had been changed, or is no journal of ours.
    Unusable(Damage),
    /// The journal was of an earlier boot, which no change outlives.
    EarlierBoot,
    /// The journal was undone.
    Undone(Restored),
}

impl Outcome {
    /// Whether nothing of a shield is left.
    pub fn is_whole(&self) -> bool {
        match self {
            Outcome::Undone(restored) => restored.is_whole(),
            _ => true,
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Nothing => f.write_str("there was nothing to be undone"),
            Outcome::Unusable(Damage::Torn) => {
                f.write_str("the journal was never finished: nothing had been changed")
            }
            Outcome::Unusable(Damage::Foreign) => f.write_str(
                "the journal names what no shield changes: it was removed, nothing was done",
            ),
            Outcome::EarlierBoot => {
                f.write_str("the journal was of an earlier boot: nothing of it is left")
            }
            Outcome::Undone(restored) => restored.fmt(f),
        }
    }
}

/// Undoes the journal that is there. The caller holds the lock.
pub fn settle(kernel: &Kernel, place: &Place) -> io::Result<Outcome> {
    let outcome = match place.read()? {
        None => return Ok(Outcome::Nothing),
        Some(Err(damage)) => Outcome::Unusable(damage),
        Some(Ok(journal)) if journal.boot != boot(kernel) => Outcome::EarlierBoot,
        Some(Ok(journal)) => {
            let restored = restore(kernel, &journal);
            if !restored.is_whole() {
                // What did not come back is tried again later.
                place.write(&Journal { entries: restored.rest.clone(), ..journal })?;
                return Ok(Outcome::Undone(restored));
            }
            Outcome::Undone(restored)
        }
    };
    place.remove()?;
    Ok(outcome)
}

fn boot(kernel: &Kernel) -> String {
    kernel.text("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Takes the lock. None: another process has it.
///
/// Errors: the folder cannot be made, or belongs to somebody else, who could have written the journal.
pub fn lock(place: &Place) -> io::Result<Option<File>> {
    let folder = place.folder();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let (data, own) = (fs::symlink_metadata(folder)?, fs::metadata("/proc/self")?.uid());
    if !data.is_dir() || data.uid() != own || data.mode() & 0o022 != 0 {
        let text = format!("{} must be a folder that its owner alone writes to", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let file =
        File::options().create(true).truncate(false).write(true).open(folder.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// A shield that is up. Dropped, it is taken down.
#[derive(Debug)]
pub struct Shield {
    config: Config,
    plan: Plan,
    raised: Raised,
    before: Outcome,
    link: UnixStream,
    guardian: Child,
    door: Door,
    /// Held as long as the shield is up: the kernel lets no processor sleep deeply meanwhile.
    latency: Option<File>,
    is_up: bool,
    _lock: File,
}

/// The guardian is gone; the shield should be taken down.
#[derive(Debug)]
pub struct GuardianLost;

/// What taking a shield down has come to.
#[derive(Debug)]
pub struct Down {
    /// Whether everything is as it was, but for what others changed.
    pub is_whole: bool,
    /// The report, in words.
    pub text: String,
}

impl Shield {
    /// Raises a shield.
    ///
    /// Errors: see [`UpError`]; nothing is left changed then, or the error says what.
    pub fn up(config: &Config, request: &Request) -> Result<Shield, UpError> {
        let at = |what| move |error| UpError::System(what, error);
        let is_running = config.kernel.place("/").as_os_str() == "/";
        let own = fs::metadata("/proc/self").map_err(at("/proc"))?.uid();
        if is_running && own != 0 {
            return Err(UpError::NotRoot);
        }
        let lock = lock(&config.place).map_err(at("the lock"))?.ok_or(UpError::Busy)?;
        let before = settle(&config.kernel, &config.place).map_err(at("the journal"))?;
        if let Outcome::Undone(left) = &before
            && !left.is_whole()
        {
            return Err(UpError::Left(left.clone()));
        }
        let allowed = affinity::get().unwrap_or_default();
        let topology = Topology::read(&config.kernel.place("/"), &allowed);
        let topology = topology.map_err(at("the topology"))?;
        let plan =
            plan(&topology, &Survey::of(&config.kernel), request).map_err(UpError::Refused)?;
        if !request.is_forced
            && let Some(load) = load::foreign(&config.kernel, &plan.covered)
            && load.is_too_much(plan.housekeeping.len())
        {
            return Err(UpError::Loaded { covered: load.covered, total: load.total });
        }
        let (guardian, link) = start_guardian(config, &lock).map_err(at("the guardian"))?;
        let door = Door::new(config.kernel.clone(), &plan);
        let mut shield = Shield {
            config: config.clone(),
            plan,
            raised: Raised::default(),
            before,
            link,
            guardian,
            door,
            latency: None,
            is_up: true,
            _lock: lock,
        };
        shield.change().map_err(|error| match error {
            UpError::Withheld(withheld, _) => {
                let after = shield.take_down();
                UpError::Withheld(withheld, after.text)
            }
            other => {
                shield.take_down();
                other
            }
        })?;
        Ok(shield)
    }

    /// Writes the journal, and makes the changes.
    fn change(&mut self) -> Result<(), UpError> {
        let pid = std::process::id();
        let journal = Journal::of(
            &self.plan,
            &boot(&self.config.kernel),
            pid,
            process::started(pid).unwrap_or(0),
        );
        let written = self.config.place.write(&journal);
        written.map_err(|error| UpError::System("the journal", error))?;
        if self.plan.holds_latency {
            self.latency = hold_latency(&self.config.kernel, &mut self.raised.withheld);
        }
        let (kernel, plan, mut link) = (&self.config.kernel, &self.plan, &self.link);
        let raised = raise(kernel, plan, &mut || {
            let _ = link.write_all(b".");
        });
        let raised = raised.map_err(|withheld| UpError::Withheld(withheld, String::new()))?;
        self.raised.withheld.extend(raised.withheld);
        self.raised.moved = raised.moved;
        self.raised.bound = raised.bound;
        Ok(())
    }

    /// The plan that was carried out.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What came of the plan.
    pub fn raised(&self) -> &Raised {
        &self.raised
    }

    /// What an earlier shield had left, and what was done about it.
    pub fn before(&self) -> &Outcome {
        &self.before
    }

    /// The guardian's process.
    pub fn guardian(&self) -> u32 {
        self.guardian.id()
    }

    /// The way for threads into the shielded processors.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// Tells the guardian that the owner is well; to be called several times within the dead-man's time.
    pub fn beat(&mut self) -> Result<(), GuardianLost> {
        let is_gone = !matches!(self.guardian.try_wait(), Ok(None));
        match is_gone || self.link.write_all(b".").is_err() {
            true => Err(GuardianLost),
            false => Ok(()),
        }
    }

    /// Takes the shield down: by the guardian, or if that is gone by this process.
    pub fn down(mut self) -> Down {
        self.take_down()
    }

    fn take_down(&mut self) -> Down {
        self.is_up = false;
        self.latency = None;
        self.door.shut();
        let _ = self.link.shutdown(Shutdown::Write);
        let mut report = String::new();
        if self.link.read_to_string(&mut report).is_err() {
            // A guardian that was stopped must not hold the restoring up.
            let _ = self.guardian.kill();
        }
        let ended = self.guardian.wait();
        let told = report.strip_prefix("whole\n").map(|text| (true, text));
        let told = told.or_else(|| report.strip_prefix("left\n").map(|text| (false, text)));
        let down = match told {
            Some((is_whole, text)) if ended.is_ok() => {
                Down { is_whole, text: text.trim_end().to_owned() }
            }
            // The guardian was killed, perhaps in the middle of restoring.
            _ => match settle(&self.config.kernel, &self.config.place) {
                Ok(outcome) => Down { is_whole: outcome.is_whole(), text: outcome.to_string() },
                Err(error) => Down { is_whole: false, text: format!("DID NOT COME BACK: {error}") },
            },
        };
        self.door.put_back();
        down
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        if self.is_up {
            let down = self.take_down();
            if !down.is_whole {
                let _ = writeln!(io::stderr(), "shield: {}", down.text);
            }
        }
    }
}

/// Keeps processors from deep sleep until the file is closed.
fn hold_latency(kernel: &Kernel, withheld: &mut Vec<Withheld>) -> Option<File> {
    let path = "/dev/cpu_dma_latency";
    let held = File::options().write(true).open(kernel.place(path)).and_then(|mut file| {
        file.write_all(&0_i32.to_ne_bytes())?;
        Ok(file)
    });
    held.map_err(|error| withheld.push(Withheld { path: path.to_owned(), why: error.to_string() }))
        .ok()
}

fn start_guardian(config: &Config, lock: &File) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let [program, arguments @ ..] = config.guardian.as_slice() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program is named"));
    };
    let mut guardian = Command::new(program)
        .args(arguments)
        .arg("--owner")
        .arg(std::process::id().to_string())
        .arg("--dead-man-ms")
        .arg(config.dead_man.as_millis().to_string())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(lock.try_clone()?))
        // Signals of the terminal go to the owner's group.
        .process_group(0)
        .current_dir("/")
        .spawn()?;
    ours.set_read_timeout(Some(READY_WAIT))?;
    let mut ready = [0; 1];
    match (&ours).read_exact(&mut ready) {
        Ok(()) => {
            ours.set_read_timeout(Some(REPORT_WAIT))?;
            ours.set_write_timeout(Some(BEAT_WAIT))?;
            Ok((guardian, ours))
        }
        Err(error) => {
            let _ = guardian.kill();
            let _ = guardian.wait();
            Err(error)
        }
    }
}

/// The guardian's whole life: called with the socket to the owner as standard input.
///
/// Errors: the owner is not the parent, or cannot be watched; nothing has been changed then.
pub fn guard(kernel: &Kernel, place: &Place, owner: u32, dead_man: Duration) -> io::Result<()> {
    process::ignore_endings();
    let mut link = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let watched = Process::open(owner)?;
    if parent_id() != owner {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the owner is gone"));
    }
    if kernel.place("/").as_os_str() == "/" {
        // The guardian must run when nothing else gets to, and live when memory is short.
        let _ = schedule::set(Policy::Fifo(99));
        let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    }
    link.set_read_timeout(Some(dead_man))?;
    link.write_all(b"r")?;
    wait_for_the_end(&mut link, &watched);
    let (is_whole, text) = match settle(kernel, place) {
        Ok(outcome) => (outcome.is_whole(), outcome.to_string()),
        Err(error) => (false, format!("DID NOT COME BACK: the journal: {error}")),
    };
    let kind = if is_whole { "whole" } else { "left" };
    let is_told = link.write_all(format!("{kind}\n{text}\n").as_bytes()).is_ok();
    if !is_told || !is_whole {
        say(&text);
    }
    Ok(())
}

/// Returns when the owner has ended, or wants its shield to end.
fn wait_for_the_end(link: &mut UnixStream, owner: &Process) {
    let mut beats = [0; 64];
    loop {
        match link.read(&mut beats) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                say("the owner has not been heard of for too long, and is killed");
                if let Err(error) = owner.signal(libc::SIGKILL) {
                    say(&format!("it cannot be killed: {error}"));
                }
                let begin = Instant::now();
                if !owner.has_ended(KILL_WAIT) {
                    say(&format!("it is still there after {:?}", begin.elapsed()));
                }
                return;
            }
            Err(_) => return,
        }
    }
}

/// Says something on standard error, whose reader may be gone.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "halcyon shield guardian: {text}");
}
