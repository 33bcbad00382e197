//! The tenants of the scenarios with load: stress-ng with the paper's six stressors, or six of our own.
//!
//! All tenants are descendants of one process that ends with its input: they end with this one, however it ends.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::stressors::Kind;
use halcyon_gauge::{Failure, Result};

/// What the tenants are.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// stress-ng if it is installed, else our own
    Auto,
    /// stress-ng
    StressNg,
    /// Our own
    BuiltIn,
}

impl Load {
    /// The load that is there.
    ///
    /// Errors: stress-ng was asked for by name and is not installed.
    pub fn found(self) -> Result<Load> {
        let is_installed = || {
            let mut ask = Command::new("stress-ng");
            let asked = ask.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            asked.is_ok_and(|status| status.success())
        };
        match self {
            Load::BuiltIn => Ok(Load::BuiltIn),
            Load::Auto if !is_installed() => Ok(Load::BuiltIn),
            Load::StressNg if !is_installed() => {
                Err(Failure::Engine("stress-ng is not installed".into()))
            }
            Load::Auto | Load::StressNg => Ok(Load::StressNg),
        }
    }

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Load::Auto => "auto",
            Load::StressNg => "stress-ng",
            Load::BuiltIn => "built-in",
        }
    }
}

/// Operations per second of each stressor.
pub type Operations = BTreeMap<String, f64>;

/// Running tenants. They are ended when this is dropped.
pub struct Tenants {
    children: Vec<(Option<Kind>, Child)>,
    since: Instant,
    scratch: PathBuf,
}

/// Time until all stressors have begun.
const SETTLE: Duration = Duration::from_millis(600);

impl Tenants {
    /// Starts so many of each stressor.
    pub fn start(load: Load, each: u32) -> Result<Tenants> {
        let scratch = std::env::temp_dir().join(format!("halcyon-tenants-{}", std::process::id()));
        std::fs::create_dir_all(&scratch)?;
        let mut tenants = Tenants { children: Vec::new(), since: Instant::now(), scratch };
        if load == Load::StressNg {
            tenants.add(None, &mut stress_ng(each, &tenants.scratch))?;
        } else {
            let program = std::env::current_exe()?;
            for kind in Kind::ALL {
                for _ in 0..each {
                    tenants.add(
                        Some(kind),
                        Command::new(&program).arg("noise-stressor").arg(kind.name()),
                    )?;
                }
            }
        }
        std::thread::sleep(SETTLE);
        tenants.since = Instant::now();
        Ok(tenants)
    }

    fn add(&mut self, kind: Option<Kind>, command: &mut Command) -> Result<()> {
        let child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        self.children.push((kind, child));
        Ok(())
    }

    /// The processes that the tenants are, or descend from.
    pub fn processes(&self) -> Vec<u32> {
        self.children.iter().map(|(_, child)| child.id()).collect()
    }

    /// Ends the tenants; operations per second of each stressor.
    pub fn stop(mut self) -> Result<Operations> {
        let seconds = (self.since.elapsed() + SETTLE).as_secs_f64();
        let mut all = Operations::new();
        self.children.iter_mut().for_each(|(_, child)| drop(child.stdin.take()));
        for (kind, mut child) in std::mem::take(&mut self.children) {
            let mut bytes = Vec::new();
            child
                .stdout
                .take()
                .into_iter()
                .try_for_each(|mut out| out.read_to_end(&mut bytes).map(drop))?;
            child
                .stderr
                .take()
                .into_iter()
                .try_for_each(|mut err| err.read_to_end(&mut bytes).map(drop))?;
            let text = String::from_utf8_lossy(&bytes);
            child.wait()?;
            match kind {
                Some(kind) => {
                    let done: u64 = text.trim().parse().map_err(|_| {
                        Failure::Engine(format!("stressor {} says {text:?}", kind.name()))
                    })?;
                    *all.entry(kind.name().into()).or_default() += done as f64 / seconds;
                }
                None => all.extend(operations(&text)),
            }
        }
        if all.is_empty() {
            return Err(Failure::Engine("the tenants told no operations".into()));
        }
        Ok(all)
    }
}

impl Drop for Tenants {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            drop(child.stdin.take());
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// stress-ng with the paper's stressors.
fn stress_ng(each: u32, scratch: &std::path::Path) -> Command {
    let stressors: String =
        Kind::ALL.iter().map(|kind| format!(" --{} {each}", kind.name())).collect();
    // The time limit is a second fuse.
    let line = format!(
        "stress-ng{stressors} --iomix-bytes 16m --timeout 600 --metrics-brief --temp-path \"$1\""
    );
    let mut command = ended_with_its_input(&line, STOP_SECONDS);
    command.arg(scratch);
    command
}

/// Seconds that stressors have to end.
const STOP_SECONDS: u32 = 5;

/// A command under a shell that ends it when its input ends. Children of the command that take longer than so many seconds are killed:
/// stress-ng's timers now and then do not hear a signal for minutes.
fn ended_with_its_input(line: &str, seconds: u32) -> Command {
    let script = format!(
        "{line} </dev/null & n=$!; read -r _; kill -TERM $n
         (sleep {seconds}; kill -KILL $(cat /proc/$n/task/$n/children)) </dev/null >/dev/null 2>&1 &
         late=$!; wait $n; kill $late 2>/dev/null"
    );
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg("sh");
    command
}

/// Operations per second out of stress-ng's summary: `stress-ng: metrc: [12] bsearch 345 2.00 3.97 0.00 172.4 86.9`.
fn operations(text: &str) -> Operations {
    let line = |line: &str| {
        let mut words = line.split_once("] ")?.1.split_whitespace();
        let name = words.next()?;
        let known = Kind::ALL.iter().find(|kind| kind.name() == name)?;
        let rate: f64 = words.nth(4)?.parse().ok()?;
        rate.is_finite().then(|| (known.name().to_owned(), rate))
    };
    text.lines().filter_map(line).collect()
}

/// How quick the tenants are beside others: the geometric mean of their stressors' ratios; `None` without any in common.
pub fn beside(these: &Operations, those: &Operations) -> Option<f64> {
    let ratio =
        |(name, rate): (&String, &f64)| Some(rate / those.get(name).filter(|rate| **rate > 0.0)?);
    let ratios: Vec<f64> = these.iter().filter_map(ratio).filter(|ratio| *ratio > 0.0).collect();
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (logs / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    const SUMMARY: &str = "stress-ng: info:  [7] dispatching hogs: 2 bsearch\n\
        stress-ng: metrc: [7] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s\n\
        stress-ng: metrc: [7]                           (secs)    (secs)    (secs)   (real time) (usr+sys time)\n\
        stress-ng: metrc: [7] bsearch            1014      2.00      3.97      0.00       506.77         255.4\n\
        stress-ng: metrc: [7] timer            999880      2.00      0.12      1.30    499940.00      704140.0\n";

    #[test]
    fn the_summary_of_stress_ng_is_read_and_damage_is_left_out() {
        let expected = Operations::from([("bsearch".into(), 506.77), ("timer".into(), 499_940.0)]);
        assert_eq!(operations(SUMMARY), expected);
        let mut rng = Rng::new(2);
        for _ in 0..300 {
            let mut bytes = SUMMARY.as_bytes().to_vec();
            (0..20).for_each(|_| {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            });
            assert!(operations(&String::from_utf8_lossy(&bytes)).len() <= 6);
        }
    }

    #[test]
    fn a_child_that_hears_no_signal_is_killed_and_its_parent_tells_what_it_did() {
        // The parent waits for its child when it is told to end, as stress-ng does.
        let line = "sh -c 'trap \"echo told; wait; echo done\" TERM; sleep 1000 & wait'";
        let mut command = ended_with_its_input(line, 1);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh");
        std::thread::sleep(Duration::from_millis(300));
        drop(child.stdin.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "told\ndone\n");
    }

    #[test]
    fn tenants_are_compared_by_the_mean_of_their_ratios() {
        let rates = |a, b| Operations::from([("matrix".into(), a), ("timer".into(), b)]);
        assert!((beside(&rates(8.0, 30.0), &rates(2.0, 30.0)).expect("both") - 2.0).abs() < 1e-9);
        assert_eq!(beside(&rates(1.0, 1.0), &Operations::new()), None);
    }
}
