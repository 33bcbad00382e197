//! PostgreSQL on a socket in a temporary folder: started for an arm, removed after it.
//!
//! PostgreSQL refuses to run as root: then it runs as the user `postgres`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls};

use crate::{Failure, Result};

const USER: &str = "halcyon";

/// Where Debian and its kin put the newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).max_by_key(|path| number(path))?;
    let folder = newest.join("bin");
    folder.join("initdb").exists().then_some(folder)
}

/// The reason why PostgreSQL cannot run here, with the command that helps; `None` if it can.
pub fn missing() -> Option<String> {
    programs().is_none().then(|| {
        "needs /usr/lib/postgresql/*/bin/initdb (Debian: apt-get install postgresql)".to_owned()
    })
}

/// A server, stopped and removed when dropped.
pub struct Server {
    process: Child,
    folder: PathBuf,
    programs: PathBuf,
}

/// Whether this process runs as root, who then owns `/proc/self`.
fn we_are_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A command for one of PostgreSQL's programs, as a user that PostgreSQL accepts.
fn program(programs: &Path, name: &str) -> Command {
    let path = programs.join(name);
    if !we_are_root() {
        return Command::new(path);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(path);
    command
}

impl Server {
    /// Starts a server with its data in a new folder below `parent`.
    pub fn start(parent: &Path, settings: &[&str]) -> Result<Self> {
        let programs = programs().ok_or_else(|| Failure::Engine("no PostgreSQL here".into()))?;
        let folder = parent.join(format!("halcyon-pg-{}", std::process::id()));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        if we_are_root() {
            let (user, group) = user_postgres()?;
            chown(&folder, Some(user), Some(group))?;
        }
        let data = folder.join("data");
        let mut make = program(&programs, "initdb");
        make.args(["--no-sync", "--auth=trust", "--locale=C", "--encoding=UTF8", "-U", USER]);
        let made = make.arg("-D").arg(&data).current_dir(&folder).stdout(Stdio::null()).status()?;
        if !made.success() {
            return Err(Failure::Engine("initdb failed".into()));
        }
        let mut run = program(&programs, "postgres");
        run.arg("-D").arg(&data).arg("-k").arg(&folder).current_dir(&folder);
        for setting in ["listen_addresses=", "max_connections=300"].iter().chain(settings) {
            run.args(["-c", setting]);
        }
        let process = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Server { process, folder, programs })
    }

    /// The process that was started; under root the server is its child.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// A connection, once the server listens; within half a minute.
    pub fn connect(&self) -> Result<(Runtime, Client)> {
        // One thread for the connection and its client: enough for a program that only waits.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut config = Config::new();
        config.host_path(&self.folder).user(USER).dbname("postgres");
        let since = Instant::now();
        let (client, connection) = loop {
            match runtime.block_on(config.connect(NoTls)) {
                Ok(connected) => break connected,
                Err(error) if since.elapsed() > Duration::from_secs(30) => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        runtime.spawn(connection);
        Ok((runtime, client))
    }
}

/// Numbers of the user that Debian's package makes.
fn user_postgres() -> Result<(u32, u32)> {
    let missing =
        || Failure::Engine("PostgreSQL does not run as root, nor is there a user postgres".into());
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find(|line| line.starts_with("postgres:")).ok_or_else(missing)?;
    let mut numbers = line.split(':').skip(2).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(user)), Some(Ok(group))) => Ok((user, group)),
        _ => Err(missing()),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = program(&self.programs, "pg_ctl");
        stop.args(["stop", "--mode=immediate", "--silent", "-D"]).arg(self.folder.join("data"));
        // Nothing needs to be kept, and an error could not be reported: a server that does not stop
        // is killed.
        let stopped = stop.current_dir("/").stdout(Stdio::null()).status();
        if !stopped.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let detail = error.as_db_error().map(|error| format!(": {error}")).unwrap_or_default();
        Failure::Engine(format!("{error}{detail}"))
    }
}
