//! Random schemas and queries, of all forms that views may have.

use arrow::datatypes::DataType::{self, Date32, Float64, Int32, Int64, Utf8};

use super::{Db, Random, Table};

pub const NAMES: [&str; 3] = ["t", "u", "v"];

/// Three tables of three to six columns; the first columns are small integers, to be joined on.
pub fn database(random: &mut Random) -> Db {
    let tables = NAMES.iter().map(|name| {
        let unique = random.chance(50);
        let mut columns = vec![
            ("k", Int32, !unique && random.chance(30)),
            ("a", Int32, random.chance(40)),
            ("b", Int32, random.chance(20)),
        ];
        if random.chance(70) {
            columns.push(("x", Int64, random.chance(40)));
        }
        if random.chance(50) {
            columns.push(("d", DataType::Decimal128(9, 2), random.chance(40)));
        }
        if random.chance(40) {
            columns.push(("f", Float64, random.chance(40)));
        }
        if random.chance(40) {
            columns.push(("s", Utf8, random.chance(40)));
        }
        if random.chance(30) {
            columns.push(("w", Date32, random.chance(40)));
        }
        let mut table = Table::new(name, &columns, &[]);
        table.unique = if unique { vec![vec![0]] } else { Vec::new() };
        table.never_negative = vec![1];
        table
    });
    Db::new(tables.collect())
}

/// A writer of random queries.
pub struct Writer<'w> {
    db: &'w Db,
    random: &'w mut Random,
    aliases: usize,
}

/// A relation in FROM: its alias, and the table's number.
type From = (String, usize);

impl<'w> Writer<'w> {
    pub fn new(db: &'w Db, random: &'w mut Random) -> Self {
        Writer { db, random, aliases: 0 }
    }

    fn from(&mut self) -> From {
        self.aliases += 1;
        (format!("q{}", self.aliases), self.random.below(3))
    }

    fn join_column(&mut self, from: &From) -> String {
        format!("{}.{}", from.0, self.random.pick(&["k", "a", "b"]))
    }

    fn column_where(&mut self, from: &From, wanted: impl Fn(&DataType) -> bool) -> String {
        let fields = self.db.tables[from.1].schema.fields();
        let all: Vec<&str> =
            fields.iter().filter(|f| wanted(f.data_type())).map(|f| f.name().as_str()).collect();
        format!("{}.{}", from.0, self.random.pick(&all))
    }

    fn column(&mut self, from: &From) -> String {
        self.column_where(from, |_| true)
    }

    fn integer(&mut self, from: &From) -> String {
        self.column_where(from, |ty| matches!(ty, Int32 | Int64))
    }

    fn number(&mut self, of: &[From]) -> String {
        let from = self.random.pick(of).clone();
        match self.random.below(6) {
            0 => {
                let other = self.random.pick(of).clone();
                let op = *self.random.pick(&["+", "-", "*"]);
                format!("{} {op} {}", self.integer(&from), self.integer(&other))
            }
            1 => {
                let other = self.random.pick(of).clone();
                let condition = self.comparison(&other);
                format!("CASE WHEN {condition} THEN {} ELSE 0 END", self.integer(&from))
            }
            2 => format!("COALESCE({}, 1)", self.integer(&from)),
            _ => self.column_where(&from, |ty| !matches!(ty, Utf8 | Date32)),
        }
    }

    fn comparison(&mut self, from: &From) -> String {
        let op = *self.random.pick(&["=", "<>", "<", "<=", ">", ">="]);
        let column = self.integer(from);
        match self.random.below(8) {
            0 => format!("{column} IS NULL"),
            1 => format!("{column} IS NOT NULL"),
            2 => format!("{column} BETWEEN 0 AND {}", self.random.below(5)),
            3 => format!("{column} IN (1, 3)"),
            4 => {
                let other = self.integer(from);
                format!("{column} {op} {other}")
            }
            5 => format!("NOT ({column} {op} 2)"),
            _ => format!("{column} {op} {}", self.random.below(5)),
        }
    }

    /// FROM, and the conditions of WHERE.
    fn source(&mut self, relations: usize) -> (String, Vec<String>, Vec<From>) {
        let first = self.from();
        let mut text = format!("{} {}", NAMES[first.1], first.0);
        let (mut all, mut conditions) = (vec![first], Vec::new());
        for _ in 1..relations {
            let next = self.from();
            let partner = self.random.pick(&all).clone();
            let (a, b) = (self.join_column(&partner), self.join_column(&next));
            let table = format!("{} {}", NAMES[next.1], next.0);
            match self.random.below(10) {
                0..=4 => {
                    text = format!("{text} CROSS JOIN {table}");
                    conditions.push(format!("{a} = {b}"));
                }
                5 => {
                    let op = *self.random.pick(&["<", ">=", "<>"]);
                    let (x, y) = (self.integer(&partner), self.integer(&next));
                    text = format!("{text} CROSS JOIN {table}");
                    conditions.push(format!("{x} {op} {y}"));
                }
                6 => text = format!("{text} JOIN {table} ON {a} = {b}"),
                kind => {
                    let side = match kind {
                        7 | 8 => "LEFT",
                        _ => *self.random.pick(&["RIGHT", "FULL"]),
                    };
                    let extra = match (kind, self.random.below(3)) {
                        (7, 0) => format!(" AND {}", self.comparison(&next)),
                        (7 | 8, 1) => format!(" AND {}", self.comparison(&partner)),
                        _ => String::new(),
                    };
                    text = format!("{text} {side} JOIN {table} ON {a} = {b}{extra}");
                }
            }
            all.push(next);
        }
        (text, conditions, all)
    }

    fn condition(&mut self, of: &[From], depth: usize) -> String {
        let from = self.random.pick(of).clone();
        match self.random.below(if depth == 0 { 6 } else { 14 }) {
            0..=3 => self.comparison(&from),
            4 => format!("({} OR {})", self.comparison(&from), self.condition(of, 0)),
            5 => {
                let other = self.random.pick(of).clone();
                let op = *self.random.pick(&["<", ">", "<>", "="]);
                let (a, b) = (self.integer(&from), self.integer(&other));
                // Under an outer join, DataFusion takes `x = x` for true of NULL (seed 1005174).
                if a == b { self.comparison(&from) } else { format!("{a} {op} {b}") }
            }
            6 | 7 => {
                let not = if self.random.chance(50) { "NOT " } else { "" };
                let inner = self.inner(&from, depth - 1, "1");
                format!("{not}EXISTS ({inner})")
            }
            8 | 9 => {
                let not = if self.random.chance(50) { "NOT " } else { "" };
                let column = self.join_column(&from);
                let inner = self.uncorrelated_list(depth - 1);
                format!("{column} {not}IN ({inner})")
            }
            10 => {
                let inner = self.inner(&from, 0, "1");
                let comparison = self.comparison(&from);
                match self.random.below(3) {
                    0 => format!("({comparison} OR EXISTS ({inner}))"),
                    1 => format!("NOT ({comparison} AND EXISTS ({inner}))"),
                    _ => {
                        let (column, list) = (self.join_column(&from), self.uncorrelated_list(0));
                        // DataFusion answers NOT IN wrongly under OR where there are NULLs.
                        format!("({comparison} OR {column} IN ({list}))")
                    }
                }
            }
            _ => {
                let op = *self.random.pick(&["<", ">", "=", ">="]);
                let column = self.integer(&from);
                let call =
                    *self.random.pick(&["SUM(#)", "COUNT(*)", "MAX(#)", "MIN(#)", "COUNT(#)"]);
                format!("{column} {op} ({})", self.inner(&from, depth - 1, call))
            }
        }
    }

    fn uncorrelated_list(&mut self, depth: usize) -> String {
        let (text, mut conditions, of) = self.source(1);
        conditions.push(self.condition(&of, depth));
        format!(
            "SELECT {} FROM {text} WHERE {}",
            self.join_column(&of[0]),
            conditions.join(" AND ")
        )
    }

    /// A subquery, correlated by equality or not at all; `#` in `what` stands for one of its
    /// columns.
    fn inner(&mut self, outer: &From, depth: usize, what: &str) -> String {
        let relations = 1 + self.random.below(2);
        let (text, mut conditions, of) = self.source(relations);
        if what == "1" || self.random.chance(60) {
            let own = self.random.pick(&of).clone();
            let (a, b) = (self.join_column(&own), self.join_column(outer));
            conditions.push(format!("{a} = {b}"));
        }
        // Over a join, DataFusion answers these wrongly (seed 20487 was such a query).
        if what == "1" && relations == 1 && self.random.chance(25) {
            let own = self.random.pick(&of).clone();
            let op = *self.random.pick(&["<>", "<", ">"]);
            conditions.push(format!("{} {op} {}", self.integer(&own), self.integer(outer)));
        }
        if self.random.chance(40) || conditions.is_empty() {
            conditions.push(self.condition(&of, depth));
        }
        let own = self.random.pick(&of).clone();
        let what = what.replace('#', &self.integer(&own));
        format!("SELECT {what} FROM {text} WHERE {}", conditions.join(" AND "))
    }

    fn aggregate(&mut self, of: &[From]) -> String {
        let from = self.random.pick(of).clone();
        match self.random.below(9) {
            0 | 1 => "COUNT(*)".to_owned(),
            2 => format!("COUNT({})", self.column(&from)),
            3 | 4 => format!("SUM({})", self.number(of)),
            5 => format!("AVG({})", self.integer(&from)),
            6 => format!("MIN({})", self.column_where(&from, |ty| *ty != Utf8)),
            7 => format!("MAX({})", self.column_where(&from, |ty| *ty != Utf8)),
            _ => format!("COUNT(DISTINCT {})", self.column(&from)),
        }
    }

    pub fn query(&mut self) -> String {
        let relations = 1 + self.random.below(3);
        let (text, mut conditions, of) = self.source(relations);
        for _ in 0..self.random.below(3) {
            let condition = self.condition(&of, 2);
            conditions.push(condition);
        }
        let filter = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        let width = 1 + self.random.below(2);
        let mut columns: Vec<String> = (0..width)
            .map(|_| {
                let from = self.random.pick(&of).clone();
                self.column(&from)
            })
            .collect();
        // DataFusion wants columns of different names.
        columns.dedup();
        match self.random.below(13) {
            10 => {
                let from = self.random.pick(&of).clone();
                let call = *self.random.pick(&["SUM(#)", "COUNT(*)", "MAX(#)", "MIN(#)"]);
                let inner = self.inner(&from, 1, call);
                format!("SELECT {}, ({inner}) AS n FROM {text}{filter}", columns[0])
            }
            11 => {
                let own = self.random.pick(&of).clone();
                let own = self.integer(&own);
                let relations = 1 + self.random.below(2);
                let (more, conditions, others) = self.source(relations);
                let conditions = match conditions.is_empty() {
                    true => "1 = 1".to_owned(),
                    false => conditions.join(" AND "),
                };
                let other = self.integer(&others[0]);
                let set = *self.random.pick(&["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]);
                format!(
                    "SELECT {own} AS g FROM {text}{filter} {set} \
                     SELECT {other} AS g FROM {more} WHERE {conditions}"
                )
            }
            12 => {
                let (a, b) = (self.aggregate(&of), self.from());
                let column = self.integer(&b);
                format!(
                    "SELECT {}, {a} FROM {text}{filter} GROUP BY {} HAVING COUNT(*) > \
                     (SELECT MIN({column}) FROM {} {})",
                    columns[0], columns[0], NAMES[b.1], b.0
                )
            }
            0 | 1 => format!("SELECT {} FROM {text}{filter}", columns.join(", ")),
            2 => format!("SELECT DISTINCT {} FROM {text}{filter}", columns.join(", ")),
            3 => {
                let (a, b) = (self.aggregate(&of), self.aggregate(&of));
                format!("SELECT {a} AS n1, {b} AS n2 FROM {text}{filter}")
            }
            4 => {
                let a = self.aggregate(&of);
                let inner = format!(
                    "SELECT {} AS g, {a} AS n, COUNT(*) AS m FROM {text}{filter} GROUP BY {}",
                    columns[0], columns[0]
                );
                let outer = *self.random.pick(&["n", "m", "g"]);
                format!("SELECT {outer}, COUNT(*), SUM(m) FROM ({inner}) z GROUP BY {outer}")
            }
            5 => {
                let other = self.from();
                let inner = format!(
                    "SELECT {} AS g, COUNT(*) AS m FROM {text}{filter} GROUP BY {}",
                    columns[0], columns[0]
                );
                let more = self.comparison(&other);
                format!(
                    "SELECT {}.k, z.m FROM {} {} LEFT JOIN ({inner}) z ON z.m = {}.b WHERE {more}",
                    other.0, NAMES[other.1], other.0, other.0
                )
            }
            _ => {
                let a = self.aggregate(&of);
                let having = match self.random.below(4) {
                    0 => " HAVING COUNT(*) > 1".to_owned(),
                    1 => format!(
                        " HAVING {} > 0",
                        self.aggregate(&of).replace("MAX", "COUNT").replace("MIN", "COUNT")
                    ),
                    _ => String::new(),
                };
                let keys = columns.join(", ");
                format!("SELECT {keys}, {a} FROM {text}{filter} GROUP BY {keys}{having}")
            }
        }
    }
}
