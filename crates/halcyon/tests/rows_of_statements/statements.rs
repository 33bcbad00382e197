//! Random statements over small tables: joins of all kinds, subqueries within subqueries that name the
//! rows around them, aggregates, set operations, writes.
//!
//! Tables hold few small numbers, NULLs and copies, and share the names of their columns: what is confused
//! or lost shows in the rows. No statement depends on an order that SQL leaves open, divides, or overflows.

use halcyon_base::rng::Rng;

/// Tables and their columns, all INTEGER.
const TABLES: &[(&str, &[&str])] =
    &[("a", &["id", "k"]), ("c", &["k", "x", "y"]), ("w", &["k", "y"]), ("e", &["k", "x"])];

/// A table of a FROM: by which name, with which columns.
type Named = (String, Vec<String>);

/// Makes statements; all of them follow from a seed.
pub struct Statements {
    rng: Rng,
    /// What can be named: the tables of each query around the place, the innermost last.
    levels: Vec<Vec<Named>>,
    aliases: usize,
}

impl Statements {
    pub fn new(seed: u64) -> Self {
        Statements { rng: Rng::new(seed), levels: Vec::new(), aliases: 0 }
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.rng.below(of.len() as u64) as usize]
    }

    /// Statements that make the tables and fill them; table `e` stays empty.
    pub fn tables(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for (name, columns) in TABLES {
            let typed: Vec<String> = columns
                .iter()
                .map(|column| match *column {
                    "id" => "id INTEGER PRIMARY KEY".to_owned(),
                    other => format!("{other} INTEGER"),
                })
                .collect();
            all.push(format!("CREATE TABLE {name} ({})", typed.join(", ")));
            let count = if *name == "e" { 0 } else { 1 + self.rng.below(5) };
            for at in 0..count {
                let value = |this: &mut Self, column: &str| match column {
                    "id" => (at + 1).to_string(),
                    _ => this.constant(),
                };
                let row: Vec<String> = columns.iter().map(|column| value(self, column)).collect();
                all.push(format!("INSERT INTO {name} VALUES ({})", row.join(", ")));
            }
        }
        all
    }

    /// Names of the tables.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLES.iter().map(|(name, _)| *name)
    }

    fn constant(&mut self) -> String {
        match self.rng.below(6) {
            0 | 1 => "NULL".to_owned(),
            number => (number - 1).to_string(),
        }
    }

    /// A query of any form.
    pub fn query(&mut self) -> String {
        let columns = 1 + self.rng.below(3) as usize;
        let one = self.select(columns, 2);
        if self.chance(75) {
            return one;
        }
        let kinds = ["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"];
        let kind = self.pick(&kinds.each_ref().map(|kind| *kind));
        format!("({one}) {kind} ({})", self.select(columns, 1))
    }

    /// A FROM and a condition over its rows.
    pub fn condition_over(&mut self) -> (String, String) {
        self.levels.push(Vec::new());
        let from = self.from(1);
        let condition = self.condition(2);
        self.levels.pop();
        (from, condition)
    }

    /// A write, and the table it writes.
    pub fn write(&mut self) -> (String, &'static str) {
        let (name, columns) = TABLES[1 + self.rng.below(2) as usize];
        let named = columns.iter().map(|column| (*column).to_owned()).collect();
        self.levels.push(vec![(name.to_owned(), named)]);
        let column = self.pick(columns);
        let statement = match self.rng.below(3) {
            0 => format!("DELETE FROM {name} WHERE {}", self.condition(2)),
            1 => {
                let (value, condition) = (self.number(1), self.condition(2));
                format!("UPDATE {name} SET {column} = {value} WHERE {condition}")
            }
            _ => {
                self.levels.clear();
                format!("INSERT INTO {name} {}", self.select(columns.len(), 1))
            }
        };
        self.levels.clear();
        (statement, name)
    }

    fn select(&mut self, columns: usize, depth: usize) -> String {
        self.levels.push(Vec::new());
        let from = self.from(depth);
        let filter = match self.chance(70) {
            true => format!(" WHERE {}", self.condition(depth)),
            false => String::new(),
        };
        let text = match self.rng.below(10) {
            0 | 1 => {
                let items = self.list(columns, |this| this.aggregate());
                let having = match self.chance(30) {
                    true => format!(" HAVING {} > {}", self.aggregate(), self.rng.below(3)),
                    false => String::new(),
                };
                format!("SELECT {items} FROM {from}{filter}{having}")
            }
            2 | 3 => {
                let key = self.column();
                let items = self.list(columns - 1, |this| this.aggregate());
                let items = if items.is_empty() { key.clone() } else { format!("{key}, {items}") };
                let having = match self.chance(40) {
                    true => format!(" HAVING {} >= {}", self.aggregate(), self.rng.below(3)),
                    false => String::new(),
                };
                format!("SELECT {items} FROM {from}{filter} GROUP BY {key}{having}")
            }
            kind => {
                let items = self.list(columns, |this| this.number(depth.saturating_sub(1)));
                let distinct = if kind == 4 { "DISTINCT " } else { "" };
                let mut text = format!("SELECT {distinct}{items} FROM {from}{filter}");
                if self.chance(15) {
                    let places: Vec<String> = (1..=columns).map(|at| at.to_string()).collect();
                    let limit = 1 + self.rng.below(3);
                    text.push_str(&format!(" ORDER BY {} LIMIT {limit}", places.join(", ")));
                }
                text
            }
        };
        self.levels.pop();
        text
    }

    fn list(&mut self, count: usize, mut item: impl FnMut(&mut Self) -> String) -> String {
        let items: Vec<String> = (0..count).map(|_| item(self)).collect();
        items.join(", ")
    }

    /// One to three tables; they belong to the innermost level from now on.
    fn from(&mut self, depth: usize) -> String {
        let mut text = self.table(depth);
        let more = self.rng.below(4).min(self.rng.below(4)).min(2);
        for _ in 0..more {
            let on_left = self.own().clone();
            let right = self.table(depth);
            let last = self.levels.last().expect("a query").len() - 1;
            let right_name = self.levels.last().expect("a query")[last].clone();
            let left_name = on_left[self.rng.below(on_left.len() as u64) as usize].clone();
            let column = |this: &mut Self, (name, columns): &Named| {
                let at = this.rng.below(columns.len() as u64) as usize;
                format!("{name}.{}", columns[at])
            };
            let (a, b) = (column(self, &left_name), column(self, &right_name));
            let op = self.pick(&["=", "=", "=", "<", ">=", "<>"]);
            text = match self.rng.below(7) {
                0 => format!("{text} CROSS JOIN {right}"),
                1 => format!("{text} JOIN {right} ON {a} {op} {b}"),
                2 => format!("{text} LEFT JOIN {right} ON {a} {op} {b}"),
                3 => format!("{text} RIGHT JOIN {right} ON {a} {op} {b}"),
                4 => format!("{text} FULL JOIN {right} ON {a} = {b}"),
                5 if on_left.len() == 1 && shares_k(&on_left[0]) && shares_k(&right_name) => {
                    let kind = self.pick(&["", "LEFT ", "RIGHT ", "FULL "]);
                    // The merged column has no table before it.
                    let merged = (String::new(), vec!["k".to_owned()]);
                    self.levels.last_mut().expect("a query").push(merged);
                    return format!("{text} {kind}JOIN {right} USING (k)");
                }
                _ => format!("{text} JOIN {right} ON {a} = {b} AND {}", self.simple()),
            };
        }
        text
    }

    fn own(&self) -> &Vec<Named> {
        self.levels.last().expect("a query around")
    }

    fn table(&mut self, depth: usize) -> String {
        self.aliases += 1;
        let alias = format!("t{}", self.aliases);
        if depth > 0 && self.chance(12) {
            // What stands in FROM names nothing around it but by LATERAL.
            let around = std::mem::take(&mut self.levels);
            let query = self.select(2, depth - 1);
            self.levels = around;
            let columns = vec!["k".to_owned(), "y".to_owned()];
            self.levels.last_mut().expect("a query").push((alias.clone(), columns));
            return format!("({query}) {alias} (k, y)");
        }
        let (name, columns) = TABLES[self.rng.below(TABLES.len() as u64) as usize];
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        self.levels.last_mut().expect("a query").push((alias.clone(), columns));
        format!("{name} {alias}")
    }

    /// A column of the innermost query.
    fn column(&mut self) -> String {
        let tables = self.own().clone();
        let (name, columns) = &tables[self.rng.below(tables.len() as u64) as usize];
        let column = &columns[self.rng.below(columns.len() as u64) as usize];
        if name.is_empty() { column.clone() } else { format!("{name}.{column}") }
    }

    /// A column of this query or one around it.
    fn any_column(&mut self) -> String {
        if self.levels.len() < 2 || self.chance(55) {
            return self.column();
        }
        let outer = self.rng.below(self.levels.len() as u64 - 1) as usize;
        let named = |(name, _): &&Named| !name.is_empty();
        let tables: Vec<Named> = self.levels[outer].iter().filter(named).cloned().collect();
        let (name, columns) = &tables[self.rng.below(tables.len() as u64) as usize];
        format!("{name}.{}", columns[self.rng.below(columns.len() as u64) as usize])
    }

    /// An aggregate of the innermost query: a column of it is among its arguments.
    fn aggregate(&mut self) -> String {
        let own = self.column();
        let argument = match self.rng.below(5) {
            0 => format!("{own} - {}", self.any_column()),
            1 => format!("coalesce({own}, {})", self.any_column()),
            _ => own,
        };
        match self.rng.below(6) {
            0 => "count(*)".to_owned(),
            1 => format!("count({argument})"),
            2 => format!("count(DISTINCT {argument})"),
            3 => format!("min({argument})"),
            4 => format!("max({argument})"),
            _ => format!("sum({argument})"),
        }
    }

    /// A number that may be NULL.
    fn number(&mut self, depth: usize) -> String {
        match self.rng.below(if depth == 0 { 8 } else { 11 }) {
            0..=4 => self.any_column(),
            5 => self.constant().replace("NULL", "NULL::int"),
            6 => format!("{} + {}", self.any_column(), self.rng.below(3)),
            7 => format!("coalesce({}, {})", self.any_column(), self.any_column()),
            8 => {
                let condition = self.condition(depth - 1);
                let (a, b) = (self.any_column(), self.number(depth - 1));
                format!("CASE WHEN {condition} THEN {a} ELSE {b} END")
            }
            _ => self.scalar(depth - 1),
        }
    }

    /// A subquery of one value.
    fn scalar(&mut self, depth: usize) -> String {
        self.levels.push(Vec::new());
        let from = self.from(depth);
        let condition = self.condition(depth);
        let text = if self.chance(80) {
            format!("(SELECT {} FROM {from} WHERE {condition})", self.aggregate())
        } else {
            let item = self.any_column();
            format!("(SELECT {item} FROM {from} WHERE {condition} ORDER BY 1 LIMIT 1)")
        };
        self.levels.pop();
        text
    }

    fn simple(&mut self) -> String {
        let op = self.pick(&["=", "=", "<>", "<", "<=", ">", ">="]);
        format!("{} {op} {}", self.any_column(), self.any_column())
    }

    fn condition(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.rng.below(4) {
                0 => format!("{} IS NULL", self.any_column()),
                1 => format!("{} IS DISTINCT FROM {}", self.any_column(), self.any_column()),
                _ => self.simple(),
            };
        }
        let not = if self.chance(35) { "NOT " } else { "" };
        match self.rng.below(12) {
            0 => format!("({} AND {})", self.condition(depth - 1), self.condition(depth - 1)),
            1 => format!("({} OR {})", self.condition(depth - 1), self.condition(depth - 1)),
            2 => format!("NOT ({})", self.condition(depth - 1)),
            3 | 4 => format!("{not}EXISTS ({})", self.select(1, depth - 1)),
            5 | 6 => {
                let (number, query) = (self.number(depth - 1), self.select(1, depth - 1));
                format!("{number} {not}IN ({query})")
            }
            7 => {
                let op = self.pick(&["=", "<>", "<", ">="]);
                let any = self.pick(&["ANY", "ALL"]);
                let (number, query) = (self.any_column(), self.select(1, depth - 1));
                format!("{number} {op} {any} ({query})")
            }
            8 => {
                let (a, b) = (self.any_column(), self.any_column());
                format!("({a}, {b}) {not}IN ({})", self.select(2, depth - 1))
            }
            9 => {
                let (number, item) = (self.number(depth - 1), self.number(depth - 1));
                format!("{number} {not}IN ({item}, {})", self.constant())
            }
            10 => {
                let op = self.pick(&["=", "=", "<", ">=", "<>"]);
                format!("{} {op} {}", self.number(depth - 1), self.scalar(depth - 1))
            }
            _ => self.simple(),
        }
    }
}

fn shares_k((_, columns): &Named) -> bool {
    columns.iter().any(|column| column == "k")
}
