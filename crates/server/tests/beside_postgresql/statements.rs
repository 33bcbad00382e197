//! Random statements over values of all types.
//!
//! An expression keeps the expressions that it consists of, so that one whose answer differs can be asked for
//! again part by part.

use halcyon_base::rng::Rng;

use super::templates::{AGGREGATES, CALLS, FRAMES, TYPES, Ty, WINDOWED};

/// An expression, and those within it that stand over the same tables.
#[derive(Clone, Debug, Default)]
pub struct Expression {
    pub text: String,
    pub parts: Vec<Expression>,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Statement {
    pub text: String,
    /// FROM, and expressions over it that the statement has, where that is known.
    pub from: String,
    pub parts: Vec<Expression>,
    /// Whether each row's expressions are evaluated whatever else is: whether an error must be the same.
    pub plain: bool,
    /// Whether rows come in an order.
    pub ordered: bool,
    /// The table that a write changes.
    pub changes: Option<&'static str>,
}

/// Makes statements; all of them follow from a seed.
pub struct Statements {
    rng: Rng,
    /// Aliases of the tables in FROM.
    tables: Vec<&'static str>,
    /// How many parameters the statement has, if it is one that has some.
    parameters: Option<usize>,
}

impl Statements {
    pub fn new(seed: u64) -> Self {
        Statements { rng: Rng::new(seed), tables: Vec::new(), parameters: None }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn any_type(&mut self) -> Ty {
        self.pick(TYPES)
    }

    /// Makes the tables `t`, `u` and the empty `e`, which have a column of each type, and `w`, which is
    /// written.
    pub fn tables(&mut self) -> Vec<String> {
        let columns: Vec<String> =
            TYPES.iter().map(|ty| format!("\"{}\" {}", ty.name, ty.sql)).collect();
        let columns = columns.join(", ");
        let mut all = Vec::new();
        for (name, rows) in [("t", 4 + self.below(4)), ("u", 3), ("e", 0), ("w", 2)] {
            all.push(format!("CREATE TABLE {name} (id INTEGER PRIMARY KEY, {columns})"));
            for id in 1..=rows {
                let values: Vec<String> = TYPES.iter().map(|ty| self.value(*ty)).collect();
                all.push(format!("INSERT INTO {name} VALUES ({id}, {})", values.join(", ")));
            }
        }
        all
    }

    fn value(&mut self, ty: Ty) -> String {
        if self.chance(20) { "NULL".to_owned() } else { self.quoted(ty) }
    }

    fn quoted(&mut self, ty: Ty) -> String {
        format!("'{}'", self.pick(ty.values))
    }

    fn column(&mut self, ty: Ty) -> String {
        let table = self.tables[self.rng.below(self.tables.len() as u64) as usize];
        format!("{table}.\"{}\"", ty.name)
    }

    /// The next parameter, if the statement is to have one here.
    fn parameter(&mut self, percent: usize) -> Option<String> {
        self.parameters?;
        if !self.chance(percent) {
            return None;
        }
        let count = self.parameters.as_mut()?;
        *count += 1;
        Some(format!("${count}"))
    }

    fn leaf(&mut self, ty: Ty) -> String {
        if let Some(parameter) = self.parameter(40) {
            return parameter;
        }
        match self.below(20) {
            0 => format!("CAST(NULL AS {})", ty.sql),
            1..=4 => format!("{}::{}", self.quoted(ty), ty.sql),
            5 if ty.name == "int" => self.below(5).to_string(),
            6 if ty.name == "num" => format!("{}.{}", self.below(20), self.below(100)),
            _ => self.column(ty),
        }
    }

    /// An expression of a type.
    fn expression(&mut self, ty: Ty, depth: usize) -> Expression {
        if depth == 0 || self.chance(30) {
            return Expression { text: self.leaf(ty), parts: Vec::new() };
        }
        let calls = CALLS.iter().find(|(name, _)| *name == ty.name).expect("calls of each type").1;
        let template = self.pick(calls);
        self.filled(template, depth - 1)
    }

    /// A template whose places are filled.
    fn filled(&mut self, template: &str, depth: usize) -> Expression {
        let (mut text, mut parts, mut rest) = (String::new(), Vec::new(), template);
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            if rest[at..].starts_with("{{") || rest[at..].starts_with("}}") {
                text.push_str(&rest[at..=at]);
                rest = &rest[at + 2..];
                continue;
            }
            let end = at + rest[at..].find('}').expect("a place ends");
            let name = &rest[at + 1..end];
            rest = &rest[end + 1..];
            let part = match name {
                "few" => self.below(5).to_string(),
                "order" => {
                    let keys: Vec<String> =
                        self.tables.iter().map(|table| format!("{table}.id")).collect();
                    format!("ORDER BY {}{}", keys.join(", "), self.pick(&["", " DESC"]))
                }
                quoted if quoted.starts_with('\'') => {
                    let ty = of_name(quoted.trim_matches('\''));
                    self.parameter(90).unwrap_or_else(|| self.quoted(ty))
                }
                name => {
                    let ty = match name {
                        // What has blanks at its end shows them in few places.
                        "any" => of_name(
                            Some(self.any_type().name)
                                .filter(|name| *name != "char")
                                .unwrap_or("int"),
                        ),
                        "any_ordered" => {
                            of_name(self.pick(&["int", "text", "date", "num", "span", "zoned"]))
                        }
                        name => of_name(name),
                    };
                    let part = self.expression(ty, depth);
                    let compound = !part.parts.is_empty() || part.text.contains([' ', ':']);
                    let written =
                        if compound { format!("({})", part.text) } else { part.text.clone() };
                    parts.push(part);
                    written
                }
            };
            text.push_str(&part);
        }
        text.push_str(rest);
        if parts.is_empty() {
            parts.push(Expression { text: text.clone(), parts: Vec::new() });
        }
        Expression { text, parts }
    }

    fn any_expression(&mut self, depth: usize) -> Expression {
        let ty = self.any_type();
        self.expression(ty, depth)
    }

    fn condition(&mut self, depth: usize) -> Expression {
        self.expression(of_name("bool"), depth)
    }

    fn aggregate(&mut self, depth: usize) -> Expression {
        let (_, calls) = self.pick(AGGREGATES);
        let template = self.pick(calls);
        // An aggregate is no expression over rows: its arguments are.
        self.filled(template, depth)
    }

    fn from(&mut self) -> String {
        if self.chance(55) {
            self.tables = vec!["t"];
            return "t".to_owned();
        }
        let kind = self.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]);
        let other = self.pick(&["u", "u", "u", "e"]);
        self.tables = vec!["t", "j"];
        if kind == "CROSS JOIN" {
            return format!("t CROSS JOIN {other} j");
        }
        let (a, b) = self.pick(&[
            ("int", "int"),
            ("int", "big"),
            ("small", "int"),
            ("num", "int"),
            ("text", "text"),
            ("varchar", "text"),
            ("char", "char"),
            ("date", "date"),
            ("date", "stamp"),
            ("bool", "bool"),
            ("uuid", "uuid"),
            ("double", "real"),
            ("span", "span"),
            ("bytes", "bytes"),
            ("json", "json"),
            ("ints", "ints"),
            ("zoned", "zoned"),
            ("num", "double"),
        ]);
        let op = if kind == "FULL JOIN" { "=" } else { self.pick(&["=", "=", "=", "<", "<>"]) };
        format!("t {kind} {other} j ON t.\"{a}\" {op} j.\"{b}\"")
    }

    /// A statement of any form.
    pub fn statement(&mut self) -> Statement {
        match self.below(24) {
            20.. => self.prepared(),
            0..=5 => self.plain(),
            6..=8 => self.filtered(),
            9..=11 => self.grouped(),
            12..=14 => self.windowed(),
            15 | 16 => self.set_operation(),
            _ => self.write(),
        }
    }

    fn plain(&mut self) -> Statement {
        self.tables = vec!["t"];
        let parts: Vec<Expression> =
            (0..1 + self.below(3)).map(|_| self.any_expression(3)).collect();
        let text = format!("SELECT t.id, {} FROM t", list(&parts));
        Statement { text, from: "t".to_owned(), parts, plain: true, ordered: false, changes: None }
    }

    /// A statement with parameters, which is prepared and not run.
    fn prepared(&mut self) -> Statement {
        self.tables = vec!["t"];
        self.parameters = Some(0);
        let (_, calls) = self.pick(CALLS);
        let template = self.pick(calls);
        let one = self.filled(template, 1);
        let condition = match self.chance(30) {
            true => format!(" WHERE {}", self.condition(1).text),
            false => String::new(),
        };
        let count = self.parameters.take().expect("set above");
        if count == 0 {
            return self.prepared();
        }
        let text = format!("SELECT {} FROM t{condition}", one.text);
        Statement {
            text,
            from: "t".to_owned(),
            parts: Vec::new(),
            plain: true,
            ordered: false,
            changes: None,
        }
    }

    fn filtered(&mut self) -> Statement {
        let from = self.from();
        let mut parts: Vec<Expression> =
            (0..1 + self.below(2)).map(|_| self.any_expression(2)).collect();
        let condition = self.condition(3);
        let items = list(&parts);
        let distinct = if self.chance(15) { "DISTINCT " } else { "" };
        let mut text = format!("SELECT {distinct}{items} FROM {from} WHERE {}", condition.text);
        let ordered = self.chance(40);
        if ordered {
            let keys: Vec<String> = (1..=parts.len())
                .map(|at| {
                    format!(
                        "{at}{}",
                        self.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST", " ASC"])
                    )
                })
                .collect();
            text.push_str(&format!(" ORDER BY {}", keys.join(", ")));
            if self.chance(50) {
                text.push_str(&format!(" LIMIT {} OFFSET {}", 1 + self.below(4), self.below(2)));
            }
        }
        parts.push(condition);
        Statement { text, from, parts, plain: false, ordered, changes: None }
    }

    fn grouped(&mut self) -> Statement {
        let from = self.from();
        let mut parts: Vec<Expression> =
            (0..1 + self.below(3)).map(|_| self.aggregate(1)).collect();
        let aggregates = list(&parts);
        let filter = match self.chance(30) {
            true => {
                let condition = self.condition(2);
                let text = format!(" WHERE {}", condition.text);
                parts.push(condition);
                text
            }
            false => String::new(),
        };
        let text = match self.below(4) {
            0 => format!("SELECT {aggregates} FROM {from}{filter}"),
            kind => {
                let keys: Vec<Expression> =
                    (0..kind.min(2)).map(|_| self.any_expression(1)).collect();
                let places: Vec<String> = (1..=keys.len()).map(|at| at.to_string()).collect();
                let having = match self.chance(25) {
                    true => format!(" HAVING count(*) > {}", self.below(2)),
                    false => String::new(),
                };
                let by = match self.below(6) {
                    0 => format!("ROLLUP ({})", list(&keys)),
                    1 if keys.len() == 2 => format!("CUBE ({})", list(&keys)),
                    _ => places.join(", "),
                };
                let text = format!(
                    "SELECT {}, {aggregates} FROM {from}{filter} GROUP BY {by}{having}",
                    list(&keys)
                );
                parts.extend(keys);
                text
            }
        };
        // What aggregates consist of can be asked for one by one.
        let parts = parts
            .into_iter()
            .flat_map(|part| {
                if part.text.contains("ORDER BY t.id") { part.parts.clone() } else { vec![part] }
            })
            .collect();
        Statement { text, from, parts, plain: false, ordered: false, changes: None }
    }

    fn windowed(&mut self) -> Statement {
        self.tables = vec!["t"];
        let mut parts = Vec::new();
        let items: Vec<String> = (0..1 + self.below(2))
            .map(|_| {
                let template = self.pick(WINDOWED);
                let call = self.filled(template, 1);
                let by = match self.chance(60) {
                    true => {
                        let key = self.any_expression(1);
                        format!("PARTITION BY {} ", key.text)
                    }
                    false => String::new(),
                };
                let frame = self.pick(FRAMES);
                let order = match self.chance(85) {
                    true => {
                        let column = self.any_type().name;
                        format!(
                            "ORDER BY t.\"{column}\"{}, t.id",
                            self.pick(&["", " DESC", " NULLS FIRST"])
                        )
                    }
                    false => "ORDER BY t.id".to_owned(),
                };
                let text = format!("{} OVER ({by}{order} {frame})", call.text);
                parts.push(Expression { text: text.clone(), parts: call.parts });
                text
            })
            .collect();
        let text = format!("SELECT t.id, {} FROM t", items.join(", "));
        Statement { text, from: "t".to_owned(), parts, plain: false, ordered: false, changes: None }
    }

    fn set_operation(&mut self) -> Statement {
        self.tables = vec!["t"];
        let pairs = [
            ("int", "big"),
            ("int", "num"),
            ("small", "int"),
            ("num", "double"),
            ("int", "double"),
            ("text", "varchar"),
            ("char", "text"),
            ("date", "stamp"),
            ("date", "date"),
            ("stamp", "zoned"),
            ("json", "json"),
            ("ints", "ints"),
            ("bool", "bool"),
            ("span", "span"),
            ("real", "num"),
            ("char", "varchar"),
            ("int", "text"),
            ("bytes", "bytes"),
        ];
        let (a, b) = self.pick(&pairs);
        let (a, b) = if self.chance(50) { (a, b) } else { (b, a) };
        let one = self.expression(of_name(a), 2);
        let two = match self.below(5) {
            0 => Expression { text: "NULL".to_owned(), parts: Vec::new() },
            1 => Expression { text: self.quoted(of_name(a)), parts: Vec::new() },
            _ => self.expression(of_name(b), 2),
        };
        let kind = self.pick(&[
            "UNION",
            "UNION ALL",
            "INTERSECT",
            "INTERSECT ALL",
            "EXCEPT",
            "EXCEPT ALL",
        ]);
        let ordered = self.chance(30);
        let order = if ordered { " ORDER BY 1" } else { "" };
        let text = format!("SELECT {} FROM t {kind} SELECT {} FROM t{order}", one.text, two.text);
        Statement {
            text,
            from: "t".to_owned(),
            parts: vec![one, two],
            plain: false,
            ordered,
            changes: None,
        }
    }

    fn write(&mut self) -> Statement {
        let ty = self.any_type();
        let source = match self.chance(70) {
            true => ty,
            false => self.any_type(),
        };
        self.tables = vec!["w"];
        let value = self.expression(source, 2);
        let condition = self.condition(2);
        let (text, parts) = match self.below(5) {
            0 => (format!("DELETE FROM w WHERE {}", condition.text), vec![condition]),
            1 | 2 => (
                format!(
                    "UPDATE w SET \"{}\" = {} WHERE {} RETURNING id, \"{}\"",
                    ty.name, value.text, condition.text, ty.name
                ),
                vec![value, condition],
            ),
            3 => {
                self.tables = vec!["t"];
                let value = self.expression(source, 2);
                let name = ty.name;
                (
                    format!(
                        "INSERT INTO w (id, \"{name}\") SELECT t.id + 100, {} FROM t ON CONFLICT (id) DO UPDATE SET \"{name}\" = excluded.\"{name}\" RETURNING \"{name}\"",
                        value.text
                    ),
                    vec![],
                )
            }
            _ => {
                let id = 1000 + self.below(100_000);
                let quoted = self.quoted(ty);
                (
                    format!(
                        "INSERT INTO w (id, \"{}\") VALUES ({id}, {quoted}), ({}, DEFAULT) RETURNING *",
                        ty.name,
                        id + 200_000
                    ),
                    vec![],
                )
            }
        };
        Statement {
            text,
            from: "w".to_owned(),
            parts,
            plain: false,
            ordered: false,
            changes: Some("w"),
        }
    }
}

fn of_name(name: &str) -> Ty {
    *TYPES.iter().find(|ty| ty.name == name).unwrap_or_else(|| panic!("no type {name}"))
}

fn list(parts: &[Expression]) -> String {
    parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(", ")
}
