//! `halcyon serve`: a database behind the PostgreSQL wire, and a web console if asked for, until a signal ends it.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use halcyon::{Database, Matrix, Workers};
use halcyon_console::{Console, ConsoleConfig};
use halcyon_noise::watch::Watch;
use halcyon_server::{Server, ServerConfig, TlsFiles, UnixSocket, serve};

use crate::demo::Demo;
use crate::logs;
use crate::processors::{Processors, any_processors, processors};
use crate::service::Manager;
use crate::shield::{self, Shielded};

/// Options of `halcyon serve`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Keep the database in DIR
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub tuning: crate::data::Tuning,
    /// Let sorts, groups and joins that exceed their memory go on in files in DIR
    #[arg(long, value_name = "DIR")]
    pub spill: Option<PathBuf>,
    /// Address and port to listen at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5433")]
    pub listen: SocketAddr,
    /// Folder of a Unix socket beside the address: .s.PGSQL.PORT
    #[arg(long, value_name = "DIR")]
    pub unix_socket: Option<PathBuf>,
    /// Mode of the Unix socket's file, in octal; who may open it may log in as from this machine
    #[arg(long, value_name = "MODE", default_value = "700", requires = "unix_socket", value_parser = file_mode)]
    pub unix_socket_mode: u32,
    /// Address and port of the web console, of /metrics, /health and /ready
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// Fill the database with a market, a shop and TPC-H, and let orders, transactions and reports run against these
    #[arg(long)]
    pub demo: bool,
    /// Scale factor of the demo's TPC-H data
    #[arg(long, value_name = "SF", default_value_t = 0.1, requires = "demo", value_parser = scale_factor)]
    pub demo_sf: f64,
    /// Certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// File whose first line becomes the first superuser's password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Threads that run analytical statements; 0: one for each processor that is left
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub workers: usize,
    /// Processors that each get a worker of their own, which never sleeps: 2,4-7
    #[arg(long, value_name = "LIST", value_parser = processors, default_value = "", group = "placed")]
    pub dedicated: Processors,
    /// As --dedicated, with everything else kept off these processors while the server runs; root only
    #[arg(long, value_name = "LIST", value_parser = any_processors, default_value = "", group = "placed")]
    pub shield: Processors,
    /// Shield the processors although other programs use them, or may go on to
    #[arg(long, requires = "shield")]
    pub shield_force: bool,
    /// Seconds without a sign of life after which the shield's guardian kills the server
    #[arg(long, value_name = "SECONDS", requires = "shield", default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(2..=3_600))]
    pub shield_dead_man: u64,
    /// Priority (1 to 99) of these workers under SCHED_FIFO; locks the process's memory
    #[arg(long, value_name = "PRIORITY", requires = "placed",
        value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub connections: usize,
    /// Form of the log on standard error; json: one object a line, and nothing on standard output
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: crate::logs::LogFormat,
    /// Send a span per statement to a collector of OpenTelemetry's at URL, http://127.0.0.1:4318; OTEL_… variables say the rest
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// Of these, only statements that took at least so many milliseconds, or failed
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub otlp_slower_than: u64,
    /// Microseconds that a thread looks for the next message of a client that answers at once before it sleeps; 0: never
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 150, value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub busy_poll: u64,
    /// Watch what interrupts the server's threads while they run, by the kernel's tracer (as root); the view halcyon.noise tells
    #[arg(long)]
    pub noise_watch: bool,
    /// File that `halcyon lab interference --matrix` wrote on this machine: it decides which statements share a cache
    #[arg(long, value_name = "FILE", value_parser = matrix)]
    pub slowdown_matrix: Option<Arc<Matrix>>,
}

/// Beginnings of the names of threads that run statements: workers of tasks and network threads.
const WATCHED: [&str; 2] = ["worker-", "halcyon-lane-"];

/// The slowdown matrix in a file.
fn matrix(path: &str) -> Result<Arc<Matrix>, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    Matrix::parse(&bytes).map(Arc::new).map_err(|error| error.to_string())
}

/// The rights of a file, in octal.
fn file_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o777) => Ok(mode),
        _ => Err("it is an octal number up to 777".into()),
    }
}

/// TPC-H's rule for the suppliers of a part gives the same one twice if there are few.
fn scale_factor(text: &str) -> Result<f64, String> {
    let sf: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if (0.01..=100.0).contains(&sf) {
        Ok(sf)
    } else {
        Err("it is 0.01 at least, 100 at most".into())
    }
}

impl Options {
    fn workers(&self) -> Workers {
        let dedicated = [&self.dedicated.0[..], &self.shield.0].concat();
        let fifo = self.fifo.or_else(|| shield::priority(&self.shield.0));
        let matrix = self.slowdown_matrix.clone();
        Workers { count: self.workers, dedicated, fifo, matrix, ..Workers::default() }
    }

    /// The files of certificate and key.
    pub fn tls(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsFiles { certificate, key })
    }
}

/// Serves until SIGINT or SIGTERM.
pub fn run(options: &Options) -> ExitCode {
    // The console answers while the database is being opened: /health, and /ready with 503.
    let console = match options.http.map(|listen| console(options, listen)).transpose() {
        Ok(console) => console,
        Err(message) => {
            logs::failure(&message);
            return ExitCode::FAILURE;
        }
    };
    let begin = Instant::now();
    let manager = Manager::of_environment();
    // Before the database has threads: each passes the shield's door when it chooses its processors.
    let dead_man = Duration::from_secs(options.shield_dead_man);
    let shield = match Shielded::up(&options.shield.0, options.shield_force, dead_man) {
        Ok(shield) => shield,
        Err(message) => {
            logs::failure(&message);
            return ExitCode::FAILURE;
        }
    };
    manager.status("opening the database");
    let folder = options.data.as_deref();
    let spill = options.spill.as_deref();
    let database = match crate::data::open(folder, &options.tuning, options.workers(), spill) {
        Ok(database) => database,
        Err(code) => return code,
    };
    let result = start(options, database, console, &manager, begin);
    drop(shield);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            logs::failure(&message);
            ExitCode::FAILURE
        }
    }
}

/// Listens at the console's address, with the server's certificate if there is one.
fn console(options: &Options, listen: SocketAddr) -> Result<Console, String> {
    let config = ConsoleConfig { listen, tls: options.tls(), ..ConsoleConfig::default() };
    Console::listen(config).map_err(|error| error.to_string())
}

fn start(
    options: &Options,
    database: Database,
    console: Option<Console>,
    manager: &Manager,
    begin: Instant,
) -> Result<(), String> {
    let config = config(options)?;
    let demo = match options.demo {
        true => Some(Demo::load(&database, options.demo_sf).map_err(|error| error.to_string())?),
        false => None,
    };
    let signals = Signals::new().map_err(|error| format!("signals cannot be heard: {error}"))?;
    // Ends when the server has ended.
    let _watch = options.noise_watch.then(watch).transpose()?;
    let server = serve(database.clone(), config).map_err(|error| error.to_string())?;
    if let Some(console) = &console {
        let opened = console.open(database.clone(), server.logins());
        opened.map_err(|error| error.to_string())?;
    }
    let traffic = demo.map(Demo::start);
    tell_ready(&server, console.as_ref(), begin);
    // A service's journal needs no advice, and no keyboard ends it.
    if !logs::is_json() && !manager.is_there() {
        let _ = writeln!(std::io::stdout(), "{}", invitation(server.address(), options.demo));
    }
    manager.ready(&server.address().to_string());
    signals.wait();
    manager.stopping();
    logs::remark("ending");
    drop(traffic);
    drop(console);
    server.shutdown();
    // A session that is still ending must not keep the log's last bytes in memory.
    database.close();
    Ok(())
}

/// Watches the server's threads; an error, and so no server, if the kernel does not let this process.
fn watch() -> Result<Watch, String> {
    let cpus = halcyon_machine::affinity::get().map_err(|error| error.to_string())?;
    Watch::start(&WATCHED, &cpus).map_err(|error| format!("--noise-watch: {error}"))
}

/// Says where the server listens: to people on standard output, or to the log if that is for programs.
fn tell_ready(server: &Server, console: Option<&Console>, begin: Instant) {
    let (address, seconds) = (server.address(), begin.elapsed().as_secs_f64());
    if logs::is_json() {
        let console = console.map(|console| console.url().to_string());
        let unix_socket = server.unix_socket().map(|path| path.display().to_string());
        return tracing::info!(%address, seconds, console, unix_socket, "ready");
    }
    // Nobody may be reading: a server outlives the program that has started it and waited for this.
    let mut out = std::io::stdout();
    let _ = writeln!(out, "ready after {seconds:.1} s at {address}");
    if let Some(console) = console {
        let _ = writeln!(out, "console at {}", console.url());
    }
    if let Some(path) = server.unix_socket() {
        let _ = writeln!(out, "Unix socket at {}", path.display());
    }
}

fn config(options: &Options) -> Result<ServerConfig, String> {
    let password = match &options.password_file {
        None => None,
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let first = text.lines().next().unwrap_or("").to_owned();
            if first.is_empty() {
                return Err(format!("{}: the first line is empty", file.display()));
            }
            Some(first)
        }
    };
    Ok(ServerConfig {
        listen: options.listen,
        unix_socket: (options.unix_socket.clone())
            .map(|folder| UnixSocket { folder, mode: options.unix_socket_mode }),
        tls: options.tls(),
        password,
        connections_max: options.connections,
        busy_poll: Duration::from_micros(options.busy_poll),
        traces: traces(options)?,
        ..ServerConfig::default()
    })
}

/// Where traces go, by the command line and the environment.
fn traces(options: &Options) -> Result<Option<halcyon_traces::Config>, String> {
    let variable = |name: &str| std::env::var(name).ok();
    let found = halcyon_traces::Config::new(options.otlp.as_deref(), variable)?;
    let least = Duration::from_millis(options.otlp_slower_than);
    Ok(found.map(|config| halcyon_traces::Config { least, ..config }))
}

/// How to connect, and for the demo what to ask.
fn invitation(address: SocketAddr, demo: bool) -> String {
    let host = match address.ip() {
        ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
        ip => ip.to_string(),
    };
    let url = format!("postgresql://halcyon@{host}:{}/halcyon", address.port());
    let mut text = format!("\nconnect with\n  psql {url}\n  halcyon shell --connect {url}\n");
    if demo {
        text.push_str("\nworth running\n");
        for query in crate::demo::QUERIES {
            text.push_str(&format!("  {query}\n"));
        }
        text.push_str(&format!("\na live view, until Ctrl-C\n  {}\n", crate::demo::FOLLOW));
        text.push_str(&format!(
            "\na trade that an assertion refuses\n  {}\n",
            crate::demo::REFUSED
        ));
    }
    text.push_str("\nCtrl-C ends it.");
    text
}

/// SIGINT and SIGTERM, heard from the moment this exists.
struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let _entered = runtime.enter();
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        drop(_entered);
        Ok(Signals { runtime, terminate, interrupt })
    }

    fn wait(mut self) {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_factors_that_tpch_has_no_data_for_are_refused() {
        assert_eq!(scale_factor("0.01"), Ok(0.01));
        for text in ["0.001", "0", "-1", "NaN", "1000", "many"] {
            assert!(scale_factor(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_slowdown_matrix_is_read_before_the_server_starts() {
        let path = std::env::temp_dir().join(format!("halcyon-matrix-{}", std::process::id()));
        let name = path.to_str().unwrap();
        assert!(matrix(name).unwrap_err().contains("No such file"));
        std::fs::write(&path, "{\"operators\": 7}").unwrap();
        let refused = matrix(name).unwrap_err();
        assert!(refused.contains("\"operators\" of the slowdown matrix"), "{refused}");
        let sound = r#"{"operators": ["scan"], "partners": ["nobody"], "slowdown": [[1.0]], "conclusive": false}"#;
        std::fs::write(&path, sound).unwrap();
        assert_eq!(matrix(name).unwrap().rows().len(), 1);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_invitation_names_an_address_that_can_be_connected_to() {
        let text = invitation("0.0.0.0:6000".parse().unwrap(), true);
        assert!(text.contains("psql postgresql://halcyon@127.0.0.1:6000/halcyon"), "{text}");
        for offered in
            crate::demo::QUERIES.iter().chain([&crate::demo::FOLLOW, &crate::demo::REFUSED])
        {
            assert!(text.contains(offered), "{offered} is not in {text}");
        }
    }
}
