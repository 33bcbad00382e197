//! A database for tests: tables with rows, a view's engine beside them, and recomputation of the
//! view's query by DataFusion over the same rows.

#![allow(dead_code)]

pub mod queries;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Analyzer;
use datafusion::prelude::{SessionConfig, SessionContext};
use halcyon_delta::{Compiled, Encoding, Facts, Unsupported, compile};
use halcyon_view::program::Type;
use halcyon_view::{Engine, Executor, Options};

/// A row.
pub type ScalarRow = Vec<ScalarValue>;

/// A table and its rows.
pub struct Table {
    pub name: String,
    pub schema: Arc<Schema>,
    pub unique: Vec<Vec<usize>>,
    pub never_negative: Vec<usize>,
    pub rows: Vec<ScalarRow>,
}

impl Table {
    pub fn new(name: &str, columns: &[(&str, DataType, bool)], unique: &[&[usize]]) -> Table {
        let fields: Vec<Field> =
            columns.iter().map(|(name, ty, null)| Field::new(*name, ty.clone(), *null)).collect();
        Table {
            name: name.to_owned(),
            schema: Arc::new(Schema::new(fields)),
            unique: unique.iter().map(|key| key.to_vec()).collect(),
            never_negative: Vec::new(),
            rows: Vec::new(),
        }
    }

    fn batch(&self) -> RecordBatch {
        let columns: Vec<ArrayRef> = (0..self.schema.fields().len())
            .map(|at| {
                let values: Vec<ScalarValue> =
                    self.rows.iter().map(|row| row[at].clone()).collect();
                match values.is_empty() {
                    true => arrow::array::new_empty_array(self.schema.field(at).data_type()),
                    false => ScalarValue::iter_to_array(values).unwrap(),
                }
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).unwrap()
    }
}

/// A database: tables with their rows.
pub struct Db {
    pub tables: Vec<Table>,
    runtime: tokio::runtime::Runtime,
}

impl Facts for Db {
    fn unique_keys(&self, table: &TableReference) -> Vec<Vec<usize>> {
        self.table(table.table()).unique.clone()
    }

    fn never_negative(&self, table: &TableReference, column: usize) -> bool {
        self.table(table.table()).never_negative.contains(&column)
    }
}

impl Db {
    pub fn new(tables: Vec<Table>) -> Db {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Db { tables, runtime }
    }

    pub fn table(&self, name: &str) -> &Table {
        self.tables.iter().find(|table| table.name == name).unwrap()
    }

    fn context(&self) -> SessionContext {
        let mut config = SessionConfig::new().with_target_partitions(1);
        config.options_mut().sql_parser.parse_float_as_decimal = true;
        let context = SessionContext::new_with_config(config);
        for table in &self.tables {
            let memory = MemTable::try_new(table.schema.clone(), vec![vec![table.batch()]]);
            context.register_table(table.name.as_str(), Arc::new(memory.unwrap())).unwrap();
        }
        context
    }

    /// The bound plan of a query, as the compiler takes it.
    pub fn plan(&self, sql: &str) -> LogicalPlan {
        let context = self.context();
        self.runtime.block_on(async {
            let state = context.state();
            let plan =
                state.create_logical_plan(sql).await.unwrap_or_else(|e| panic!("{sql}\n{e}"));
            let options = state.config_options();
            let rules = Analyzer::new().rules;
            rules.iter().fold(plan, |plan, rule| {
                rule.analyze(plan, options).unwrap_or_else(|e| panic!("{sql}\n{e}"))
            })
        })
    }

    /// The rows of a query as DataFusion computes them: as text, sorted.
    pub fn recompute(&self, sql: &str) -> Result<Vec<String>, String> {
        let context = self.context();
        self.runtime.block_on(async {
            let frame = context.sql(sql).await.map_err(|e| e.to_string())?;
            let batches = frame.collect().await.map_err(|e| e.to_string())?;
            let mut rows = Vec::new();
            for batch in &batches {
                for row in 0..batch.num_rows() {
                    let values: Vec<String> = batch
                        .columns()
                        .iter()
                        .map(|column| show(&ScalarValue::try_from_array(column, row).unwrap()))
                        .collect();
                    rows.push(values.join("|"));
                }
            }
            rows.sort();
            Ok(rows)
        })
    }
}

fn show(value: &ScalarValue) -> String {
    match value {
        value if value.is_null() => "NULL".to_owned(),
        ScalarValue::Float64(Some(value)) => show_float(*value),
        ScalarValue::Float32(Some(value)) => show_float((*value).into()),
        ScalarValue::Decimal128(Some(value), _, scale) => format!("{value}e-{scale}"),
        ScalarValue::Date32(Some(days)) => format!("day {days}"),
        ScalarValue::TimestampMicrosecond(Some(us), _) => format!("us {us}"),
        ScalarValue::Boolean(Some(value)) => i64::from(*value).to_string(),
        other => other.to_string(),
    }
}

fn show_float(value: f64) -> String {
    format!("{:.9e}", value + 0.0)
}

/// A view: its query, program and engine.
pub struct View {
    pub sql: String,
    pub compiled: Compiled,
    pub engine: Engine,
    /// The view's rows as its reported changes make them, by group.
    mirror: HashMap<Vec<u64>, Vec<u64>>,
}

impl View {
    pub fn new(db: &Db, sql: &str) -> Result<View, Unsupported> {
        let plan = db.plan(sql);
        let compiled = compile(&plan, db)?;
        let program = compiled.program.clone();
        // The tests must pass with any executor.
        let executor = match std::env::var("HALCYON_EXECUTOR").as_deref() {
            Ok("interpreted") => Executor::Interpreted,
            Ok("operations") => Executor::Operations,
            _ => Executor::Compiled,
        };
        let options = Options { executor, ..Options::default() };
        let mut engine = Engine::new(program, options)
            .unwrap_or_else(|e| panic!("{sql}\n{e}\n{}", compiled.program));
        // Before the first event only a view without groups has a row.
        let mut mirror = HashMap::new();
        engine.for_each_row(|row| drop(mirror.insert(Vec::new(), row.to_vec()))).unwrap();
        engine.begin().unwrap();
        Ok(View { sql: sql.to_owned(), compiled, engine, mirror })
    }

    /// Applies an event of a table, if the view reads that table.
    pub fn apply(&mut self, table: &str, row: &ScalarRow, weight: i64) -> Result<(), String> {
        for input in self.compiled.inputs.clone() {
            if input.table.table() != table {
                continue;
            }
            let mut words = Vec::new();
            for (column, encoding) in &input.columns {
                encode(&row[*column], *encoding, &mut self.engine, &mut words);
            }
            let applied = self.engine.apply(input.relation, &words, weight);
            applied.map_err(|e| format!("{e:?}"))?;
        }
        self.drain()
    }

    fn drain(&mut self) -> Result<(), String> {
        let (mirror, mut wrong) = (&mut self.mirror, None);
        let drained = self.engine.drain_changes(|change| {
            let old = match change.new {
                Some(new) => mirror.insert(change.key.to_vec(), new.to_vec()),
                None => mirror.remove(change.key),
            };
            if old.as_deref() != change.old {
                wrong = Some(format!("{:?}: {old:?} was, not {:?}", change.key, change.old));
            }
        });
        drained.map_err(|e| format!("{e:?}"))?;
        wrong.map_or(Ok(()), |wrong| Err(format!("{wrong}\n{}", self.engine.program())))
    }

    /// The view's rows, as text, sorted.
    pub fn rows(&mut self) -> Vec<String> {
        self.drain().unwrap();
        let types: Vec<Type> = {
            let program = self.engine.program();
            program.relations[usize::from(program.output.0)].columns.clone()
        };
        let repeats = self.engine.program().output_repeats;
        let mut raw: Vec<Vec<u64>> = Vec::new();
        self.engine.for_each_row(|row| raw.push(row.to_vec())).unwrap();
        let mut told: Vec<Vec<u64>> = self.mirror.values().cloned().collect();
        let mut seen = raw.clone();
        told.sort();
        seen.sort();
        assert_eq!(told, seen, "{}: changes tell another view", self.sql);
        let mut rows = Vec::new();
        for words in raw {
            let mut at = 0;
            let mut shown = Vec::new();
            for (column, ty) in self.compiled.columns.iter().zip(&types) {
                let value = &words[at..at + ty.words()];
                at += ty.words();
                shown.push(self.decode(value, *ty, column.encoding));
            }
            let times = if repeats { words[at] as i64 } else { 1 };
            assert!(times >= 0, "{}: {times} times {shown:?}", self.sql);
            for _ in 0..times {
                rows.push(shown.join("|"));
            }
        }
        rows.sort();
        rows
    }

    fn decode(&self, words: &[u64], ty: Type, encoding: Encoding) -> String {
        use halcyon_view::program::{NULL_FLOAT_BITS, NULL_INT, NULL_WIDE};
        let wide = || u128::from(words[0]) as i128 | ((words[1] as i128) << 64);
        let value = match ty {
            Type::Float if words[0] == NULL_FLOAT_BITS => return "NULL".to_owned(),
            Type::Float => return show_float(f64::from_bits(words[0])),
            Type::Int if words[0] as i64 == NULL_INT => return "NULL".to_owned(),
            Type::Int => i128::from(words[0] as i64),
            Type::Wide if wide() == NULL_WIDE => return "NULL".to_owned(),
            Type::Wide => wide(),
        };
        match encoding {
            Encoding::Decimal { scale, .. } => format!("{value}e-{scale}"),
            Encoding::Date => format!("day {value}"),
            Encoding::TimestampMicros => format!("us {value}"),
            Encoding::Text => self.engine.dictionary().text(value as i64).to_owned(),
            _ => value.to_string(),
        }
    }

    /// Errors unless the view equals its query over the tables.
    pub fn check(&mut self, db: &Db) -> Result<(), String> {
        let sql = self.sql.clone();
        self.check_against(db, &sql)
    }

    /// Errors unless the view equals another query over the tables.
    pub fn check_against(&mut self, db: &Db, sql: &str) -> Result<(), String> {
        let expected = db.recompute(sql)?;
        let found = self.rows();
        let averages = sql.contains("AVG(");
        let is_alike = |(expected, found): (&String, &String)| {
            expected == found || averages && differs_by_rounding(expected, found)
        };
        if expected.len() == found.len() && expected.iter().zip(&found).all(is_alike) {
            return Ok(());
        }
        let missing: Vec<_> = expected.iter().filter(|row| !found.contains(row)).take(5).collect();
        let wrong: Vec<_> = found.iter().filter(|row| !expected.contains(row)).take(5).collect();
        Err(format!(
            "{}\nexpected {} rows, found {}\nmissing {missing:?}\nwrong {wrong:?}\n{}",
            self.sql,
            expected.len(),
            found.len(),
            self.engine.program()
        ))
    }
}

/// Whether two rows differ in the last digits of decimals alone, by one: DataFusion truncates
/// averages, views round them.
fn differs_by_rounding(expected: &str, found: &str) -> bool {
    let digits = |cell: &str| {
        let (digits, places) = cell.split_once("e-")?;
        Some((digits.parse::<i128>().ok()?, places.to_owned()))
    };
    let is_close = |(expected, found): (&str, &str)| {
        expected == found
            || match (digits(expected), digits(found)) {
                (Some((a, a_places)), Some((b, b_places))) => {
                    a_places == b_places && a.abs_diff(b) <= 1
                }
                _ => false,
            }
    };
    let (expected, found) = (expected.split('|'), found.split('|'));
    expected.clone().count() == found.clone().count() && expected.zip(found).all(is_close)
}

/// Appends the words of a value.
pub fn encode(value: &ScalarValue, encoding: Encoding, engine: &mut Engine, words: &mut Vec<u64>) {
    use halcyon_view::program::{NULL_FLOAT_BITS, NULL_INT, NULL_WIDE};
    let int = |value: Option<i64>| value.unwrap_or(NULL_INT) as u64;
    match (value, encoding.ty()) {
        (value, Type::Int) if value.is_null() => words.push(int(None)),
        (value, Type::Float) if value.is_null() => words.push(NULL_FLOAT_BITS),
        (ScalarValue::Boolean(value), _) => words.push(int(value.map(i64::from))),
        (ScalarValue::Int32(value), _) => words.push(int(value.map(i64::from))),
        (ScalarValue::Int64(value), _) => words.push(int(*value)),
        (ScalarValue::Date32(value), _) => words.push(int(value.map(i64::from))),
        (ScalarValue::Decimal128(value, ..), Type::Int) => {
            words.push(int(value.map(|value| value as i64)));
        }
        (ScalarValue::Decimal128(value, ..), _) => {
            let value = value.unwrap_or(NULL_WIDE);
            words.extend([value as u64, (value >> 64) as u64]);
        }
        (ScalarValue::Float64(Some(value)), _) => words.push(value.to_bits()),
        (ScalarValue::Utf8(Some(text)), _) => words.push(engine.intern(text) as u64),
        (other, _) => panic!("no test has {other:?}"),
    }
}

/// A small, fast generator of pseudo-random numbers (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
