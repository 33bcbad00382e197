//! A running server, asked through its system views.

use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

use super::diagnosis::{Diagnosis, Severity};
use super::host;
use super::size::{bytes_of, size};

/// The part of its memory that a server may have in use before it is told, in percent.
const MEMORY_PERCENT_MAX: i64 = 90;
/// The part of the time that workers may wait for their processors, in percent of what they work.
const DELAY_PERCENT_MAX: f64 = 5.0;

/// Rows of texts.
type Rows = Vec<Vec<Option<String>>>;

/// A question to the server, and what follows from the answer.
struct Question {
    about: &'static str,
    sql: &'static str,
    judge: fn(&Rows, &mut Diagnosis),
}

const QUESTIONS: &[Question] = &[
    Question {
        about: "superusers without a password",
        sql: "SELECT rolname FROM pg_authid WHERE rolsuper AND rolcanlogin AND rolpassword IS NULL ORDER BY rolname",
        judge: superusers,
    },
    Question {
        about: "log",
        sql: "SELECT l.error, l.bytes, s.value, (extract(epoch FROM now() - l.checkpointed))::bigint \
              FROM halcyon.log l, halcyon.settings s WHERE s.name = 'max_wal_size'",
        judge: log,
    },
    Question {
        about: "memory in use",
        sql: "SELECT bytes, limit_bytes, refusals FROM halcyon.memory_accounts WHERE account = 'total'",
        judge: memory,
    },
    Question {
        about: "admission",
        sql: "SELECT workload_class_name, reject_count, timeout_count FROM halcyon.m_admission_control_statistics \
              WHERE reject_count + timeout_count > 0 ORDER BY workload_class_name",
        judge: admission,
    },
    Question {
        about: "latency targets",
        sql: "SELECT workload_class_name, quantile, state, reason FROM halcyon.m_workload_controller \
              WHERE state LIKE 'TARGET%' ORDER BY workload_class_name",
        judge: targets,
    },
    Question {
        about: "processors of the workers",
        sql: "SELECT sum(run_delay_ms), sum(busy_ms) FROM halcyon.workers",
        judge: delay,
    },
    Question {
        about: "open transactions",
        sql: "SELECT session, role FROM halcyon.sessions WHERE state LIKE 'idle in transaction%' \
              AND transaction_started < now() - INTERVAL '5 minutes' ORDER BY session",
        judge: idle,
    },
    Question {
        about: "spill folder of the server",
        sql: "SELECT value FROM halcyon.settings WHERE name = 'spill_folder'",
        judge: spill,
    },
];

/// Asks the server at `url`. `memory_max`: what its process may have, if it runs on this machine.
pub fn examine(url: &str, memory_max: Option<u64>, found: &mut Diagnosis) {
    let about = "running server";
    let remedy = "halcyon shell --connect URL (is it running, is the password right?)";
    let why = "nothing of what it does could be looked at";
    let mut config: Config = match url.parse() {
        Ok(config) => config,
        Err(error) => {
            return found.find(Severity::Error, about, format!("the URL: {error}"), why, remedy);
        }
    };
    if config.get_user().is_none() {
        config.user("halcyon");
    }
    config.application_name("halcyon doctor");
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return found.unknown(about, error.to_string(), remedy),
    };
    let asked = runtime.block_on(async {
        let (client, connection) = config.connect(NoTls).await?;
        let connection = tokio::spawn(connection);
        for question in QUESTIONS {
            match client.simple_query(question.sql).await {
                Ok(messages) => (question.judge)(&rows(messages), found),
                Err(error) => {
                    let remedy = "connect as a superuser";
                    found.unknown(question.about, reason(&error), remedy);
                }
            }
        }
        limit(&client, memory_max, found).await;
        drop(client);
        let _ = connection.await;
        Ok::<(), tokio_postgres::Error>(())
    });
    match asked {
        Ok(()) => found.fine(about),
        Err(error) => found.find(Severity::Error, about, reason(&error), why, remedy),
    }
}

/// Compares the limit in force with what the process may have.
async fn limit(client: &tokio_postgres::Client, memory_max: Option<u64>, found: &mut Diagnosis) {
    let Some(most) = memory_max else { return };
    let sql = "SELECT limit_bytes FROM halcyon.memory_accounts WHERE account = 'total'";
    let answer = client.simple_query(sql).await.map(rows);
    let limit = answer.ok().and_then(|rows| number(rows.first()?, 0));
    match limit.and_then(|limit| u64::try_from(limit).ok()) {
        Some(limit) => host::memory_limit(limit, most, found),
        None => found.unknown("memory limit", "the server tells of none", "SHOW memory_limit"),
    }
}

fn reason(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => {
            let cause = std::error::Error::source(error)
                .map_or(String::new(), |cause| format!(": {cause}"));
            format!("{error}{cause}")
        }
    }
}

fn rows(messages: Vec<SimpleQueryMessage>) -> Rows {
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

/// A column of a row; empty if it is NULL or not there.
fn text(row: &[Option<String>], at: usize) -> &str {
    row.get(at).and_then(Option::as_deref).unwrap_or_default()
}

fn number(row: &[Option<String>], at: usize) -> Option<i64> {
    row.get(at)?.as_ref()?.parse().ok()
}

/// The first columns of all rows.
fn names(rows: &Rows) -> String {
    rows.iter().map(|row| text(row, 0)).collect::<Vec<_>>().join(", ")
}

fn superusers(rows: &Rows, found: &mut Diagnosis) {
    let about = "superusers without a password";
    let Some(first) = rows.first() else { return found.fine(about) };
    found.find(
        Severity::Warning,
        about,
        names(rows),
        "every user and every program of this machine can log in as them, and read files of the server by COPY",
        format!("ALTER ROLE {} PASSWORD '…' (in halcyon shell), or --password-file", text(first, 0)),
    );
}

fn log(rows: &Rows, found: &mut Diagnosis) {
    let Some(row) = rows.first() else {
        found.fine("log");
        return found.fine("checkpoints");
    };
    match text(row, 0) {
        "" => found.fine("log"),
        error => found.find(
            Severity::Error,
            "log",
            format!("no commits are taken: {error}"),
            "writes are refused until it is mended; after a failed sync until a restart",
            "df -h and dmesg, then make room, or restart the server",
        ),
    }
    let bytes = number(row, 1).and_then(|bytes| u64::try_from(bytes).ok());
    let (Some(bytes), Some(most)) = (bytes, bytes_of(text(row, 2))) else {
        return found.unknown(
            "checkpoints",
            "the size of the log is not told",
            "SELECT * FROM halcyon.log",
        );
    };
    match bytes > most.saturating_mul(2) {
        true => found.find(
            Severity::Warning,
            "checkpoints",
            format!(
                "{} of log since the last one, and max_wal_size is {}{}",
                size(bytes),
                size(most),
                number(row, 3).map_or(String::new(), |seconds| format!("; it was {seconds} s ago")),
            ),
            "checkpoints fail or do not keep up: the disk fills, and a start takes longer",
            "CHECKPOINT (in halcyon shell), which tells what is wrong; HALCYON_LOG=warn has \"no checkpoint was written\"",
        ),
        false => found.fine("checkpoints"),
    }
}

fn memory(rows: &Rows, found: &mut Diagnosis) {
    let about = "memory in use";
    let row = rows.first().map_or(&[][..], Vec::as_slice);
    let (Some(bytes), Some(limit)) = (number(row, 0), number(row, 1)) else {
        return found.unknown(
            about,
            "the server does not tell",
            "SELECT * FROM halcyon.memory_accounts",
        );
    };
    let told = |bytes: i64| size(u64::try_from(bytes).unwrap_or(0));
    match bytes > limit / 100 * MEMORY_PERCENT_MAX {
        true => found.find(
            Severity::Warning,
            about,
            format!("{} of {}", told(bytes), told(limit)),
            "statements that ask for more are refused (53200), writes among them",
            "SELECT * FROM halcyon.memory_accounts ORDER BY bytes DESC, then raise memory_limit or drop what is not needed",
        ),
        false => found.fine(about),
    }
    match number(row, 2) {
        Some(count @ 1..) => found.find(
            Severity::Warning,
            "statements refused for memory",
            format!("{count} since the start"),
            "they asked for more than halcyon.memory, their class or memory_limit allows",
            "SELECT * FROM halcyon.memory_accounts; --spill DIR lets sorts, groups and joins go on in files",
        ),
        Some(_) => found.fine("statements refused for memory"),
        None => found.unknown("statements refused for memory", "not told", "SELECT * FROM halcyon.memory_accounts"),
    }
}

fn admission(rows: &Rows, found: &mut Diagnosis) {
    let about = "admission";
    if rows.is_empty() {
        return found.fine(about);
    }
    for row in rows {
        found.find(
            Severity::Warning,
            about,
            format!(
                "class {} has turned away {} statements, and {} waited too long",
                text(row, 0),
                text(row, 1),
                text(row, 2)
            ),
            "clients got errors in place of answers: there is more work than the limits of the class let in",
            "SELECT * FROM halcyon.m_admission_control_events ORDER BY event_time DESC",
        );
    }
}

fn targets(rows: &Rows, found: &mut Diagnosis) {
    let about = "latency targets";
    if rows.is_empty() {
        return found.fine(about);
    }
    for row in rows {
        found.find(
            Severity::Warning,
            about,
            format!("{} of class {} is {}: {}", text(row, 1), text(row, 0), text(row, 2), text(row, 3)),
            "the target is not kept, and taking workers from other classes does not help",
            "SELECT * FROM halcyon.m_workload_controller, then a target that can be kept, or more processors",
        );
    }
}

fn delay(rows: &Rows, found: &mut Diagnosis) {
    let about = "processors of the workers";
    let row = rows.first().map_or(&[][..], Vec::as_slice);
    let read = |at| text(row, at).parse::<f64>().ok();
    match (read(0), read(1)) {
        // A second at least, or a few statements would decide.
        (Some(delay), Some(busy)) if busy >= 1_000.0 && delay * 100.0 > busy * DELAY_PERCENT_MAX => found.find(
            Severity::Warning,
            about,
            format!("workers waited {delay:.0} ms for them, and worked {busy:.0} ms"),
            "other programs, or the server's own threads, take the processors, and statements wait",
            "halcyon machine; keep other programs off (taskset, CPUAffinity=), or give fewer --workers",
        ),
        _ => found.fine(about),
    }
}

fn idle(rows: &Rows, found: &mut Diagnosis) {
    let about = "open transactions";
    if rows.is_empty() {
        return found.fine(about);
    }
    found.find(
        Severity::Warning,
        about,
        format!("sessions {} have done nothing for minutes within a transaction", names(rows)),
        "what they have locked others wait for",
        "SELECT pg_terminate_backend(SESSION); write_transaction_lifetime of a workload class does it by itself",
    );
}

fn spill(rows: &Rows, found: &mut Diagnosis) {
    let about = "spill folder of the server";
    match rows.first().map(|row| text(row, 0)) {
        Some("") => found.find(
            Severity::Note,
            about,
            "there is none",
            "statements that exceed their memory are refused (53200) where they could go on in files",
            "--spill DIR",
        ),
        Some(_) => found.fine(about),
        None => found.unknown(about, "the server does not tell", "SHOW spill_folder"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Severity::{Error, Warning};

    fn judged(judge: fn(&Rows, &mut Diagnosis), rows: &[&[&str]]) -> Diagnosis {
        let cell = |cell: &&str| Some((*cell).to_owned()).filter(|cell| cell != "NULL");
        let rows: Rows = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        let mut found = Diagnosis::default();
        judge(&rows, &mut found);
        found
    }

    #[test]
    fn each_answer_is_judged() {
        let told = |judge, rows: &[&[&str]], about| judged(judge, rows).severities(about);
        assert_eq!(told(superusers, &[], "superusers without a password"), []);
        assert_eq!(told(superusers, &[&["halcyon"]], "superusers without a password"), [Warning]);
        let well = &["NULL", "1000", "1GB", "NULL"];
        assert_eq!(told(log, &[well], "log"), []);
        assert_eq!(told(log, &[well], "checkpoints"), []);
        let full = &["disk full", "3000000000", "1GB", "900"];
        assert_eq!(told(log, &[full], "log"), [Error]);
        assert_eq!(told(log, &[full], "checkpoints"), [Warning]);
        assert_eq!(told(log, &[], "log"), [], "a database in memory has no log");
        assert_eq!(told(memory, &[&["10", "1000", "0"]], "memory in use"), []);
        assert_eq!(told(memory, &[&["999", "1000", "0"]], "memory in use"), [Warning]);
        assert_eq!(
            told(memory, &[&["10", "1000", "7"]], "statements refused for memory"),
            [Warning]
        );
        assert_eq!(told(admission, &[&["batch", "3", "1"]], "admission"), [Warning]);
        let unreachable: &[&str] = &["web", "P99", "TARGET_UNREACHABLE", "no workers to take"];
        assert_eq!(told(targets, &[unreachable], "latency targets"), [Warning]);
        assert_eq!(told(delay, &[&["400.0", "5000.0"]], "processors of the workers"), [Warning]);
        assert_eq!(told(delay, &[&["400.0", "500.0"]], "processors of the workers"), []);
        assert_eq!(told(delay, &[&["NULL", "NULL"]], "processors of the workers"), []);
        assert_eq!(told(idle, &[&["7", "ada"]], "open transactions"), [Warning]);
        assert_eq!(told(spill, &[&[""]], "spill folder of the server"), [Severity::Note]);
        assert_eq!(told(spill, &[&["/spill"]], "spill folder of the server"), []);
    }

    #[test]
    fn a_server_that_does_not_answer_is_an_error() {
        let mut found = Diagnosis::default();
        examine("postgresql://halcyon@127.0.0.1:1/halcyon", None, &mut found);
        assert_eq!(found.severities("running server"), [Error]);
        examine("nonsense=", None, &mut found);
        assert_eq!(found.severities("running server"), [Error, Error]);
    }
}
