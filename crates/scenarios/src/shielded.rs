//! The shield of crate `shield` for the scenarios that want one: raised when such a scenario begins and taken down when it
//! ends, however it ends. Only an option of the command line asks for it.
//!
//! While the shield is up a thread beats for its guardian, a process of its own, which is this program again
//! ([`guard`]): if this process ends or stops to beat, the guardian puts everything back.

use std::ffi::OsString;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use halcyon_gauge::{Failure, Result};
use halcyon_machine::affinity;
use halcyon_noise::Shield;
use halcyon_shield::guard::{self as guarding, Config, DEAD_MAN, Down, FOLDER};
use halcyon_shield::journal::Place;
use halcyon_shield::{Door, Kernel, Request};

/// Name of the hidden experiment that the guardian is.
const GUARDIAN: &str = "noise-guardian";
/// Time between two signs of life.
const BEAT: Duration = Duration::from_secs(1);

/// What a guardian is told at its start.
#[derive(Args, Debug, Clone)]
pub struct Guardian {
    /// The process that is watched
    #[arg(long)]
    owner: u32,
    /// Milliseconds without a sign of life
    #[arg(long)]
    dead_man_ms: u64,
}

/// The guardian's whole life.
///
/// Errors: the owner cannot be watched; nothing has been changed then.
pub fn guard(options: &Guardian) -> Result<()> {
    let dead_man = Duration::from_millis(options.dead_man_ms);
    Ok(guarding::guard(&Kernel::running(), &Place::new(FOLDER), options.owner, dead_man)?)
}

/// The way of threads into the shield that is up.
static DOOR: Mutex<Option<Door>> = Mutex::new(None);

/// Lets the calling thread through the door of the shield that is up, if there is one.
fn pass(cpus: &[u32]) -> io::Result<()> {
    let door = DOOR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    door.map_or(Ok(()), |door| door.pass(cpus))
}

/// A shield that can be raised and taken down again and again.
pub(crate) struct Shielded {
    config: Config,
    is_forced: bool,
    up: Option<Up>,
}

/// The thread that beats for a shield that is up.
struct Up {
    end: Sender<()>,
    heart: JoinHandle<Down>,
}

impl Shielded {
    /// A shield that is down.
    pub(crate) fn new(is_forced: bool) -> Result<Shielded> {
        let own: OsString = std::env::current_exe()?.into();
        let config = Config {
            kernel: Kernel::running(),
            place: Place::new(FOLDER),
            guardian: vec![own, GUARDIAN.into()],
            dead_man: DEAD_MAN,
        };
        if !affinity::prepare_by(Box::new(pass)) {
            return Err(Failure::Engine("this process has a shield already".into()));
        }
        Ok(Shielded { config, is_forced, up: None })
    }
}

impl Shield for Shielded {
    fn up(&mut self, cpu: u32) -> Result<(), String> {
        let request = Request { cpus: vec![cpu], is_forced: self.is_forced };
        let shield =
            guarding::Shield::up(&self.config, &request).map_err(|error| error.to_string())?;
        let door = shield.door().clone();
        let (end, ended) = channel();
        let heart = std::thread::Builder::new().name("shield".to_owned());
        // A shield whose thread cannot be had is dropped, and so taken down.
        let heart = heart.spawn(move || beat(shield, &ended)).map_err(|error| error.to_string())?;
        *DOOR.lock().unwrap_or_else(PoisonError::into_inner) = Some(door);
        self.up = Some(Up { end, heart });
        Ok(())
    }

    fn down(&mut self) -> Result<(), String> {
        let Some(Up { end, heart }) = self.up.take() else { return Ok(()) };
        drop(end);
        let down = heart.join().map_err(|_| "the thread that beats for the shield has panicked")?;
        *DOOR.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if down.is_whole { Ok(()) } else { Err(format!("the shield: {}", down.text)) }
    }
}

impl Drop for Shielded {
    fn drop(&mut self) {
        if let Err(what) = self.down() {
            eprintln!("error: {what}");
        }
    }
}

/// Beats until the end, and takes the shield down; sooner if the guardian is gone.
fn beat(mut shield: guarding::Shield, ended: &Receiver<()>) -> Down {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(BEAT) {
        if shield.beat().is_err() {
            let down = shield.down();
            let text = format!("its guardian was gone before the scenario ended; {}", down.text);
            return Down { is_whole: false, text };
        }
    }
    shield.down()
}
