//! The query over tables that hold the rows: the slow twin of every view, and an arm of its own.

use std::collections::HashMap;
use std::fmt::Write as _;

use halcyon::{Database, Outcome, Session, Value};

use super::bare::Answer;
use super::events::{Column, Events};
use super::measure::{Ask, Given, Pass};
use super::queries::Query;
use crate::{Failure, Result};
use halcyon_machine::{clock, counters};

/// Bytes of rows handed over at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Reads an answer by SQL that [`Query::answer_sql`] made.
pub fn answer(session: &mut Session, query: &Query, sql: &str) -> Result<Answer> {
    let rows = session.query(sql, &[])?.collect()?;
    let row = |row: Vec<Value>| {
        let (keys, values) = row.split_at(query.key_columns);
        let keys = keys.iter().map(|key| match key {
            Value::Int64(number) => number.to_string(),
            Value::Int32(number) => number.to_string(),
            Value::Date(days) => days.to_string(),
            Value::Text(text) => text.clone(),
            other => format!("{other:?}"),
        });
        let values = values.iter().map(|value| match value {
            Value::Float64(number) => *number,
            // The sum over no rows is NULL here; by hand it is zero.
            Value::Null => 0.0,
            other => unreachable!("{other:?} is no DOUBLE PRECISION"),
        });
        (keys.collect(), values.collect())
    };
    Ok(rows.into_iter().map(row).collect())
}

/// The text of a word in a line of CSV.
pub fn csv(line: &mut String, column: Column, word: u64, texts: &[String]) {
    let done = match column {
        Column::Int => write!(line, "{}", word as i64),
        Column::Double => write!(line, "{}", f64::from_bits(word)),
        Column::Money => write!(line, "{}.{:02}", word / 100, word % 100),
        Column::Date => write!(line, "{}", date(word as i64)),
        Column::Text => write!(line, "{}", texts[word as usize]),
    };
    done.expect("writing to memory does not fail");
}

/// `YYYY-MM-DD` of days since 1970-01-01.
fn date(days: i64) -> String {
    let date = arrow::temporal_conversions::date32_to_datetime(days as i32);
    date.expect("a date of TPC-H").format("%Y-%m-%d").to_string()
}

fn create(session: &mut Session, events: &Events) -> Result<()> {
    for relation in &events.relations {
        session.batch(&format!("CREATE TABLE {}", relation.sql()))?;
    }
    Ok(())
}

/// Copies rows into a table.
fn copy<'a>(
    session: &mut Session,
    events: &Events,
    relation: usize,
    rows: impl Iterator<Item = &'a [u64]>,
) -> Result<()> {
    let relation = &events.relations[relation];
    let text = format!("COPY {} FROM STDIN WITH (FORMAT csv)", relation.name);
    let statement = session.prepare(&text)?;
    if !matches!(session.run(&statement, &[])?, Outcome::CopyIn { .. }) {
        return Err(Failure::Engine(format!("{text} asks for no data")));
    }
    let mut lines = String::new();
    for row in rows {
        for (index, (&(_, column), &word)) in relation.columns.iter().zip(row).enumerate() {
            if index > 0 {
                lines.push(',');
            }
            csv(&mut lines, column, word, &events.texts);
        }
        lines.push('\n');
        if lines.len() >= CHUNK_BYTES {
            session.copy_data(lines.as_bytes())?;
            lines.clear();
        }
    }
    session.copy_data(lines.as_bytes())?;
    session.copy_end()?;
    Ok(())
}

/// The query's answer over the rows that are left after all events.
pub fn once(query: &Query, events: &Events) -> Result<Answer> {
    let mut rows: Vec<HashMap<&[u64], i64>> = vec![HashMap::new(); events.relations.len()];
    for index in 0..events.len() {
        let event = events.get(index);
        *rows[event.relation].entry(event.row).or_default() += event.weight;
    }
    let db = Database::in_memory();
    let mut session = db.session();
    create(&mut session, events)?;
    for (relation, rows) in rows.iter().enumerate() {
        if let Some((row, count)) = rows.iter().find(|&(_, &count)| count < 0) {
            return Err(Failure::WrongAnswer(format!("row {row:?} is there {count} times")));
        }
        let rows = rows.iter().flat_map(|(&row, &count)| std::iter::repeat_n(row, count as usize));
        copy(&mut session, events, relation, rows)?;
    }
    answer(&mut session, query, &from(query))
}

fn from(query: &Query) -> String {
    let columns = query.columns().join(", ");
    query.answer_sql(&format!("({}) AS view ({columns})", query.sql))
}

/// Loads the rows in thousands and runs the query after each. Inserts only.
pub fn ask(what: Ask, query: &Query, events: &Events) -> Result<Given> {
    let Ask::Rate(seconds_max) = what else {
        return Err(Failure::Engine("recomputation has no latency per event".into()));
    };
    let db = Database::in_memory();
    let mut session = db.session();
    create(&mut session, events)?;
    let cpu_ns = || counters::process_cpu_ns().unwrap_or_default();
    let deadline = clock::monotonic_ns().saturating_add((seconds_max * 1e9) as u64);
    let start_ns = cpu_ns();
    let (mut taken, mut view) = (0, Answer::new());
    while taken < events.len() && (taken == 0 || clock::monotonic_ns() < deadline) {
        let end = events.len().min(taken + 1000);
        let batch = taken..end;
        for relation in 0..events.relations.len() {
            change(&mut session, events, relation, batch.clone())?;
        }
        view = answer(&mut session, query, &from(query))?;
        taken = end;
    }
    let cpu_ns = cpu_ns() - start_ns;
    let pass = Pass { cpu_ns, helpers_cpu_ns: 0, page_faults: 0, event_count: taken };
    Ok(Given::Rate(pass, view))
}

/// Applies the events of one relation in order: inserts by COPY, deletes one by one.
fn change(
    session: &mut Session,
    events: &Events,
    relation: usize,
    batch: std::ops::Range<usize>,
) -> Result<()> {
    let of_relation = || {
        let events = batch.clone().map(|index| events.get(index));
        events.filter(|event| event.relation == relation)
    };
    // Within a batch a row may come and go: only the sum of its weights counts.
    let mut net: HashMap<&[u64], i64> = HashMap::new();
    of_relation().for_each(|event| *net.entry(event.row).or_default() += event.weight);
    let inserts = net.iter().filter(|&(_, &count)| count > 0);
    let inserts = inserts.flat_map(|(&row, &count)| std::iter::repeat_n(row, count as usize));
    copy(session, events, relation, inserts)?;
    let table = &events.relations[relation];
    for (row, count) in net.iter().filter(|&(_, &count)| count < 0) {
        let condition = table.columns.iter().zip(row.iter()).map(|(&(name, column), &word)| {
            let mut text = String::new();
            csv(&mut text, column, word, &events.texts);
            match column {
                Column::Date => format!("{name} = DATE '{text}'"),
                Column::Text => format!("{name} = '{text}'"),
                _ => format!("{name} = {text}"),
            }
        });
        let condition = condition.collect::<Vec<_>>().join(" AND ");
        let sql = format!("DELETE FROM {} WHERE {condition}", table.name);
        let deleted = session.execute(sql.as_str(), &[])?;
        // A DELETE removes all copies of a row; copies beyond the count are inserted again.
        let back = deleted as i64 + count;
        if back < 0 {
            return Err(Failure::WrongAnswer(format!("{sql}: {deleted} rows were there")));
        }
        copy(session, events, relation, std::iter::repeat_n(*row, back as usize))?;
    }
    Ok(())
}
