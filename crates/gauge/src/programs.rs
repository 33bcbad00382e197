//! The servers as processes: started for an arm and ended after it; their processor time is read.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls};

use crate::{Failure, Result, bare, postgres};

/// Settings of a PostgreSQL whose commits need not be durable.
const POSTGRES: [&str; 6] = [
    "shared_buffers=1GB",
    "synchronous_commit=off",
    "fsync=off",
    "full_page_writes=off",
    "jit=off",
    "autovacuum=off",
];

/// A server that listens on TCP.
pub struct Program {
    address: SocketAddr,
    server: Server,
}

enum Server {
    Halcyon(Child),
    Postgres(postgres::Server),
    /// One that has no tables.
    Bare(Child),
}

/// Starts a server that says on one line of its output where it listens, behind the words `before`.
fn start(mut command: Command, before: &str) -> Result<(Child, SocketAddr)> {
    let name = command.get_program().to_string_lossy().into_owned();
    let started = command.stdout(Stdio::piped()).spawn();
    let mut server = started.map_err(|error| Failure::Io(format!("{name}: {error}")))?;
    let out = server.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(out).lines();
    match lines.find_map(|line| Some(line.ok()?.split_once(before)?.1.parse().ok())) {
        Some(Some(address)) => Ok((server, address)),
        _ => {
            let _ = server.kill();
            let _ = server.wait();
            Err(Failure::Engine(format!("{name} named no address")))
        }
    }
}

impl Program {
    /// Starts `halcyon serve`.
    pub fn halcyon(binary: Option<&Path>) -> Result<Self> {
        let binary = match binary {
            Some(binary) => binary.to_owned(),
            None => beside_this_program()?,
        };
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        let (server, address) = start(command, " s at ")?;
        Ok(Program { address, server: Server::Halcyon(server) })
    }

    /// Starts a server that does no work, by a command that calls [`bare::serve`].
    pub fn bare(command: Command) -> Result<Self> {
        let (server, address) = start(command, bare::LISTENS)?;
        Ok(Program { address, server: Server::Bare(server) })
    }

    /// Whether the server has no tables.
    pub fn is_bare(&self) -> bool {
        matches!(self.server, Server::Bare(_))
    }

    /// Starts PostgreSQL, on a port that was free a moment ago.
    pub fn postgres() -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let port = format!("port={}", address.port());
        let own = ["listen_addresses=127.0.0.1", port.as_str()];
        let settings: Vec<&str> = own.into_iter().chain(POSTGRES).collect();
        let server = postgres::Server::start(&std::env::temp_dir(), &settings)?;
        Ok(Program { address, server: Server::Postgres(server) })
    }

    /// Whether the server needs VACUUM ANALYZE once the tables are full.
    pub fn wants_analyze(&self) -> bool {
        matches!(self.server, Server::Postgres(_))
    }

    /// A connection, once the server listens; within half a minute.
    pub fn connect(&self) -> Result<(Runtime, Client)> {
        self.connect_as("lab")
    }

    /// A connection with this `application_name`, once the server listens; within half a minute.
    pub fn connect_as(&self, application: &str) -> Result<(Runtime, Client)> {
        // One thread for the connection and its client: enough for a program that only waits.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let config = self.config(application);
        let since = Instant::now();
        let (client, connection) = loop {
            match runtime.block_on(config.connect(NoTls)) {
                Ok(connected) => break connected,
                Err(error) if since.elapsed() > Duration::from_secs(30) => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        runtime.spawn(connection);
        Ok((runtime, client))
    }

    /// Address, user and database of the server, and the client's `application_name`.
    pub fn config(&self, application: &str) -> Config {
        let mut config = Config::new();
        config.host(self.address.ip().to_string()).port(self.address.port());
        config.user("halcyon").dbname(if self.wants_analyze() { "postgres" } else { "halcyon" });
        config.application_name(application);
        config
    }

    /// The server's address for PostgreSQL's JDBC driver. `parse_each`: nothing is ever prepared.
    pub fn jdbc(&self, parse_each: bool) -> String {
        let database = if self.wants_analyze() { "postgres" } else { "halcyon" };
        let threshold = if parse_each { 0 } else { 5 };
        let options = format!("user=halcyon&prepareThreshold={threshold}");
        format!("jdbc:postgresql://{}/{database}?{options}", self.address)
    }

    /// Processor time of the server's living processes, to a hundredth of a second.
    pub fn processor_time(&self) -> Duration {
        let parent = match &self.server {
            Server::Halcyon(server) | Server::Bare(server) => server.id(),
            Server::Postgres(server) => server.process_id(),
        };
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let stats = processes
            .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
            .filter_map(|entry| Stat::read(&entry.path().join("stat")));
        let own: Vec<Stat> = stats.collect();
        // PostgreSQL may run as the child of a program that changed its user.
        let mut family = vec![parent];
        loop {
            let found = own
                .iter()
                .find(|stat| family.contains(&stat.parent) && !family.contains(&stat.process));
            match found {
                Some(stat) => family.push(stat.process),
                None => break,
            }
        }
        let ticks: u64 =
            own.iter().filter(|stat| family.contains(&stat.process)).map(|stat| stat.ticks).sum();
        Duration::from_millis(10 * ticks)
    }
}

/// Processor time of this process, to a hundredth of a second.
pub fn own_processor_time() -> Duration {
    let own = Stat::read(Path::new("/proc/self/stat"));
    Duration::from_millis(10 * own.map_or(0, |stat| stat.ticks))
}

/// A line of `/proc/PID/stat`.
struct Stat {
    process: u32,
    parent: u32,
    ticks: u64,
}

impl Stat {
    fn read(path: &Path) -> Option<Stat> {
        let text = std::fs::read_to_string(path).ok()?;
        // The name may hold blanks and brackets.
        let (process, rest) = text.split_once(' ')?;
        let fields: Vec<&str> = rest.rsplit_once(") ")?.1.split(' ').collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Stat {
            process: process.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            ticks: ticks(11)? + ticks(12)?,
        })
    }
}

fn beside_this_program() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.with_file_name("halcyon");
    match path.exists() {
        true => Ok(path),
        false => Err(Failure::Io(format!("there is no {}; name it with --binary", path.display()))),
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Server::Halcyon(server) | Server::Bare(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
