//! Engines behind JDBC, spoken to by a Java process: `crates/lab/peers/jdbc`. H2 and HSQLDB, the engines
//! of P1, run in that process; Halcyon and PostgreSQL are servers on TCP and share PostgreSQL's driver.
//!
//! The driver gets tables, statements, conditions and inputs as files and runs the same loop; the
//! inputs of a client are the first hundred thousand of its stream, over and over. Jars are fetched
//! once from Maven Central and kept in `~/.cache/halcyon` (or `$HALCYON_CACHE`).

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use halcyon::Value;

use super::Content;
use crate::peers::{self, cache, succeeds};
use crate::programs::Program;
use crate::tpcc::consistency::conditions;
use crate::tpcc::input::{Inputs, Mix};
use crate::tpcc::load::populate;
use crate::tpcc::measured::{Measured, RoundOf};
use crate::tpcc::random::Random;
use crate::tpcc::schema::{ColumnKind, Dialect, Table, statements};
use crate::tpcc::sql::{Sql, question_marks};
use crate::{Failure, Result};

/// Sources of the driver, built when first needed.
const SOURCES: [(&str, &str); 5] = [
    ("Driver.java", include_str!("../../../peers/jdbc/Driver.java")),
    ("Client.java", include_str!("../../../peers/jdbc/Client.java")),
    ("Histogram.java", include_str!("../../../peers/jdbc/Histogram.java")),
    ("Inputs.java", include_str!("../../../peers/jdbc/Inputs.java")),
    ("Transactions.java", include_str!("../../../peers/jdbc/Transactions.java")),
];

/// Inputs of a client before they come again.
const INPUTS: usize = 100_000;

/// A server that the JDBC driver of PostgreSQL speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// `halcyon serve`, in memory.
    Halcyon,
    /// PostgreSQL, whose commits need not be durable.
    Postgres,
}

/// An engine with a JDBC driver, in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Coordinates on Maven Central.
    group: &'static str,
    artifact: &'static str,
    version: &'static str,
    /// Of an engine in the driver's process: its address without the database's name, which goes before
    /// the options.
    url: &'static str,
    /// The server, if the engine is no part of the driver's process.
    pub served: Option<Served>,
    /// Whether it locks tables rather than rows.
    table_locks: bool,
}

/// H2 as it is now: versions of rows.
pub const H2: Peer = Peer {
    group: "com.h2database",
    artifact: "h2",
    version: "2.5.252",
    url: "jdbc:h2:mem:;LOCK_TIMEOUT=10000",
    served: None,
    table_locks: false,
};

/// H2 as P1 had it: locks on tables.
pub const H2_OLD: Peer = Peer {
    version: "1.3.169",
    url: "jdbc:h2:mem:;MVCC=FALSE;LOCK_TIMEOUT=10000",
    table_locks: true,
    ..H2
};

/// HSQLDB as it is now, with locks on tables.
pub const HSQLDB: Peer = Peer {
    group: "org.hsqldb",
    artifact: "hsqldb",
    version: "2.7.4",
    url: "jdbc:hsqldb:mem:;hsqldb.tx=locks",
    served: None,
    table_locks: true,
};

/// HSQLDB as P1 had it.
pub const HSQLDB_OLD: Peer = Peer { version: "2.3.1", ..HSQLDB };

/// A server, with the newest driver of PostgreSQL's.
pub const fn served(server: Served) -> Peer {
    Peer {
        group: "org.postgresql",
        artifact: "postgresql",
        version: "42.7.14",
        url: "",
        served: Some(server),
        table_locks: false,
    }
}

/// A job for the driver.
pub struct Job<'a> {
    /// The binary `halcyon` that serves; without, the one beside this program.
    pub binary: Option<&'a Path>,
    /// A server parses each statement whenever it runs; else once, after the driver's five runs.
    pub parse_each: bool,
    /// What is loaded.
    pub content: Content,
    /// Mix of transactions.
    pub mix: Mix,
    /// Number of clients.
    pub clients: u32,
    /// Seconds over all rounds.
    pub seconds: f64,
    /// Rounds.
    pub rounds: u32,
    /// Seconds before the first round, in which code is compiled.
    pub warm_seconds: f64,
    /// SERIALIZABLE, else READ COMMITTED.
    pub serializable: bool,
    /// A database for every client.
    pub ideal: bool,
}

/// A folder that the driver reads from, removed when it is done.
pub struct Exchange {
    folder: PathBuf,
    /// The content of the tables in the folder.
    content: Option<Content>,
}

impl Exchange {
    /// The folder of this run, made when first needed.
    pub fn of(run: &mut Option<Exchange>) -> Result<&mut Exchange> {
        Ok(match run {
            Some(exchange) => exchange,
            none => none.insert(Exchange::new()?),
        })
    }

    fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("halcyon-tpcc-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Exchange { folder, content: None })
    }

    /// Where the files are, after [`Exchange::fill`]: `NAME.tsv` for every table.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes tables, once for all jobs with the same content, statements and conditions.
    pub fn fill(&mut self, content: Content) -> Result<()> {
        if self.content == Some(content) {
            return Ok(());
        }
        write_tables(&self.folder, content)?;
        let schema = statements(Dialect::Java).join("\n");
        fs::write(self.folder.join("schema.sql"), schema)?;
        let named = |sql: Sql| {
            // H2 and HSQLDB see that the first row is enough only with all columns of the index in
            // ORDER BY. FOR UPDATE would make H2 read all waiting orders (3 ms instead of 10 µs);
            // the DELETE shows the driver whether another client was faster.
            let whole = "ORDER BY no_w_id, no_d_id, no_o_id LIMIT 1";
            let text = sql.text().replace("ORDER BY no_o_id LIMIT 1 FOR UPDATE", whole);
            format!("{}\t{}\n", sql.name(), question_marks(&text))
        };
        let texts: String = Sql::all().map(named).collect();
        fs::write(self.folder.join("statements.tsv"), texts)?;
        let named = |sql: Sql| format!("{}\t{}\n", sql.name(), question_marks(&sql.text()));
        fs::write(self.folder.join("served.tsv"), Sql::all().map(named).collect::<String>())?;
        let mut texts = String::new();
        for condition in conditions(content.scale) {
            writeln!(texts, "{}\t{}", condition.number, condition.text).expect("text");
        }
        fs::write(self.folder.join("conditions.tsv"), texts)?;
        self.content = Some(content);
        Ok(())
    }

    fn write_inputs(&self, job: &Job<'_>) -> Result<()> {
        for client in 0..job.clients {
            let random = Random::new(job.content.scale, job.content.seed, u64::from(client));
            let mut inputs = Inputs::new(random, job.mix, client);
            let path = self.folder.join(format!("inputs-{client}.txt"));
            let mut file = BufWriter::new(File::create(path)?);
            for _ in 0..INPUTS {
                writeln!(file, "{}", inputs.draw().line())?;
            }
            file.flush()?;
        }
        Ok(())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // A folder that is gone already, or cannot be removed, does no harm in a temporary place.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn write_tables(folder: &Path, content: Content) -> Result<()> {
    let mut list = String::new();
    let mut files = Vec::new();
    for table in Table::ALL {
        let letter = |kind: ColumnKind| match kind {
            ColumnKind::Int => 'i',
            ColumnKind::Money(_) => 'm',
            ColumnKind::Rate => 'r',
            ColumnKind::Text(_) => 't',
            ColumnKind::Time => 'd',
        };
        let letters: String = table.columns().iter().map(|column| letter(column.kind)).collect();
        writeln!(list, "{} {letters}", table.name()).expect("text");
        let path = folder.join(format!("{}.tsv", table.name()));
        files.push(BufWriter::new(File::create(path)?));
    }
    fs::write(folder.join("tables.txt"), list)?;
    populate(content.scale, content.seed, &mut |table, values| {
        let file = &mut files[table as usize];
        for (at, value) in values.iter().enumerate() {
            let before = if at == 0 { "" } else { "\t" };
            match value {
                Value::Null => write!(file, "{before}\\N")?,
                Value::Int32(value) => write!(file, "{before}{value}")?,
                Value::Decimal(value) => write!(file, "{before}{value}")?,
                Value::Timestamp(value) => write!(file, "{before}{value}")?,
                Value::Text(value) => write!(file, "{before}{value}")?,
                other => unreachable!("TPC-C has no {other:?}"),
            }
        }
        Ok(writeln!(file)?)
    })?;
    files.iter_mut().try_for_each(|file| Ok(file.flush()?))
}

/// The reason why Java engines cannot run here, with the command that helps; `None` if they can.
pub fn missing() -> Option<String> {
    let found = |tool: &str| {
        let mut command = Command::new(tool);
        succeeds(command.arg("-version").stdout(Stdio::null()).stderr(Stdio::null()))
    };
    match (found("java"), found("javac")) {
        (true, true) => None,
        _ => Some("needs java and javac (Debian: apt-get install default-jdk-headless)".into()),
    }
}

impl Served {
    fn start(self, binary: Option<&Path>) -> Result<Program> {
        match self {
            Served::Halcyon => Ok(Program::halcyon(binary)?),
            Served::Postgres => Ok(Program::postgres()?),
        }
    }
}

impl Peer {
    /// The engine's jar, fetched if it is not here yet. Errors: what to install, if it cannot be
    /// fetched.
    pub fn jar(&self) -> Result<PathBuf> {
        let Peer { group, artifact, version, .. } = self;
        let folder = cache().join("jdbc");
        let jar = folder.join(format!("{artifact}-{version}.jar"));
        if jar.exists() {
            return Ok(jar);
        }
        fs::create_dir_all(&folder)?;
        let mut fetch = Command::new("mvn");
        fetch.args(["--quiet", "--batch-mode", "dependency:copy"]);
        fetch.arg(format!("-Dartifact={group}:{artifact}:{version}"));
        fetch.arg(format!("-DoutputDirectory={}", folder.display())).stdout(Stdio::null());
        if succeeds(&mut fetch) && jar.exists() {
            return Ok(jar);
        }
        Err(Failure::Engine(format!(
            "needs {} from Maven Central, which mvn fetches (Debian: apt-get install maven)",
            jar.display()
        )))
    }

    /// Runs a job; returns what the clients did, and which conditions are broken afterwards.
    pub fn measure(
        &self,
        job: &Job<'_>,
        exchange: &mut Exchange,
    ) -> Result<(Measured, Option<String>)> {
        let jar = self.jar()?;
        let classes = compile()?;
        exchange.fill(job.content)?;
        exchange.write_inputs(job)?;
        // Ends with this function: the driver closes its connections before.
        let program = self.served.map(|server| server.start(job.binary)).transpose()?;
        let url =
            program.as_ref().map_or(self.url.to_owned(), |server| server.jdbc(job.parse_each));
        let mut command = Command::new("java");
        command.arg("-XX:+UseParallelGC").arg(format!("-Xmx{}m", heap_mib(job)));
        command.arg("-cp").arg(format!("{}:{}", jar.display(), classes.display()));
        command.args(["Driver", &url]).arg(&exchange.folder);
        command.arg(job.clients.to_string()).arg(job.seconds.to_string());
        command.arg(job.rounds.to_string()).arg(job.warm_seconds.to_string());
        command.arg(if job.serializable { "serializable" } else { "read-committed" });
        command.arg(if self.table_locks { "tables" } else { "rows" });
        command.arg(job.ideal.to_string());
        command.arg(if program.is_some() { "served.tsv" } else { "statements.tsv" });
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let read = Answer::read(lines, job);
        child.wait()?;
        let answer = read?;
        let broken = answer.broken.join(", ");
        let broken =
            (!broken.is_empty()).then(|| format!("consistency conditions broken: {broken}"));
        Ok((answer.measured, broken))
    }
}

/// Size of the heap: the tables of an engine in the process take about half a gigabyte per warehouse.
fn heap_mib(job: &Job<'_>) -> u64 {
    let databases = if job.ideal { job.clients } else { 1 };
    2_048 + 640 * job.content.scale.warehouses as u64 * u64::from(databases)
}

/// Builds the driver where its sources have not been built yet.
fn compile() -> Result<PathBuf> {
    let folder = peers::folder("tpcc-driver", &SOURCES);
    if folder.join("Driver.class").exists() {
        return Ok(folder);
    }
    peers::unpack(&folder, &SOURCES)?;
    let names = SOURCES.iter().map(|(name, _)| *name);
    match succeeds(Command::new("javac").args(names).current_dir(&folder)) {
        true => Ok(folder),
        false => Err(Failure::Engine("javac does not build the driver".into())),
    }
}

/// The driver's output.
struct Answer {
    measured: Measured,
    broken: Vec<String>,
}

impl Answer {
    fn read(lines: impl Iterator<Item = std::io::Result<String>>, job: &Job<'_>) -> Result<Self> {
        let mut answer = Answer { measured: Measured::default(), broken: Vec::new() };
        let mut rounds: Vec<Vec<RoundOf>> = Vec::new();
        for line in lines {
            let line = line?;
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
            let need = |at: usize| {
                number(at).ok_or_else(|| Failure::Engine(format!("the driver says {line:?}")))
            };
            match words[0] {
                "round" => {
                    let nanos = need(3)?;
                    let round = RoundOf { done: need(1)?, new_orders: need(2)?, nanos };
                    match rounds.last_mut() {
                        Some(of_client) if of_client.len() < job.rounds as usize => {
                            of_client.push(round);
                        }
                        _ => rounds.push(vec![round]),
                    }
                }
                "done" => {
                    answer.measured.done += need(1)?;
                    answer.measured.rolled_back += need(2)?;
                    for at in 0..3 {
                        answer.measured.aborts[at] += need(3 + at)?;
                    }
                }
                "latency" => {
                    let histogram = &mut answer.measured.latencies[need(1)? as usize];
                    histogram.record_n(need(2)?, need(3)?).expect("the histogram grows");
                }
                "broken" => answer.broken.push(format!("3.3.2.{} ({})", need(1)?, need(2)?)),
                "loaded" => {}
                "failed" => return Err(Failure::Engine(line[7..].to_owned())),
                "end" => {
                    answer.measured.add_rounds(&rounds);
                    return Ok(answer);
                }
                _ => return Err(Failure::Engine(format!("the driver says {line:?}"))),
            }
        }
        Err(Failure::Engine("the driver ended without an answer".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::random::Scale;

    fn job() -> Job<'static> {
        Job {
            binary: None,
            parse_each: false,
            content: Content { scale: Scale::tiny(1), seed: 1 },
            mix: Mix::Standard,
            clients: 2,
            seconds: 1.0,
            rounds: 2,
            warm_seconds: 0.0,
            serializable: true,
            ideal: false,
        }
    }

    fn read(text: &str) -> Result<Answer> {
        Answer::read(text.lines().map(|line| Ok(line.to_owned())), &job())
    }

    #[test]
    fn rounds_of_all_clients_are_added_up() {
        let text = "loaded\nround 10 4 1000000000\nround 20 8 1000000000\ndone 30 1 2 0 0\n\
                    latency 0 5000 12\nround 30 0 1000000000\nround 40 0 2000000000\n\
                    done 70 0 0 0 1\nlatency 1 9000 70\nbroken 3 2\nend\n";
        let answer = read(text).unwrap();
        assert_eq!(answer.broken, ["3.3.2.3 (2)"]);
        let measured = answer.measured;
        assert_eq!((measured.done, measured.rolled_back, measured.aborts), (100, 1, [2, 0, 1]));
        assert_eq!(measured.rates.median(), 40.0);
        assert_eq!(measured.new_orders.median(), 6.0);
        assert_eq!(measured.latencies[1].len(), 70);
    }

    #[test]
    fn a_driver_that_fails_or_stops_is_an_error() {
        assert!(
            read("loaded\nfailed no table\n").is_err_and(|e| e.to_string().contains("no table"))
        );
        assert!(read("loaded\n").is_err());
        assert!(read("what\n").is_err());
    }
}
