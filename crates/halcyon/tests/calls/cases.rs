//! Calls with random arguments, and the statements in which they stand.

use halcyon_base::rng::Rng;
use halcyon_plan::callables::Called;

use crate::callables::{Callable, HOLE};
use crate::values::{COLUMNS, ROWS, Values, column, types};

/// A piece of an argument.
#[derive(Clone)]
pub enum Piece {
    Text(String),
    /// A column by type and number, or what it holds.
    Cell(usize, usize),
    /// Something else that a row of `t` has, by the name that it has there.
    OfRow(&'static str),
}

/// What a row has beside its columns: the row itself, and system columns.
const OF_ROW: &[&str] = &["t", "ctid", "xmin", "cmax", "tableoid", "id"];

/// An expression with a value per row, group or window.
#[derive(Clone)]
pub struct Call {
    pub called: Called,
    /// The call with [`HOLE`] where arguments stand.
    form: String,
    pub args: Vec<Vec<Piece>>,
}

impl Call {
    /// The call with arguments as `cell` writes them.
    fn written(
        &self,
        cell: impl Fn(usize, usize) -> String,
        of_row: impl Fn(&str) -> String,
    ) -> String {
        let mut args = self.args.iter();
        let mut text = String::new();
        for (at, part) in self.form.split(HOLE).enumerate() {
            let pieces = if at == 0 { None } else { args.next() };
            for piece in pieces.into_iter().flatten() {
                match piece {
                    Piece::Text(piece) => text.push_str(piece),
                    Piece::Cell(ty, number) => text.push_str(&cell(*ty, *number)),
                    Piece::OfRow(name) => text.push_str(&of_row(name)),
                }
            }
            text.push_str(part);
        }
        text
    }

    /// Over columns of `t`.
    pub fn of_columns(&self) -> String {
        self.written(column, str::to_owned)
    }

    /// Over a row's values as constants of their types.
    pub fn of_constants(&self, values: &Values, row: usize) -> String {
        self.written(|ty, number| values.constant(ty, number, row), by_key(row))
    }

    /// Over a row's values as literals of no type.
    pub fn of_literals(&self, values: &Values, row: usize) -> String {
        self.written(|ty, number| values.bare(ty, number, row), by_key(row))
    }

    /// Over parameters of the columns' types, and the columns.
    pub fn of_parameters(&self, row: usize) -> (String, Vec<String>) {
        let columns = std::cell::RefCell::new(Vec::new());
        let cell = |ty: usize, number| {
            columns.borrow_mut().push(column(ty, number));
            format!("CAST(${} AS {})", columns.borrow().len(), types()[ty].name)
        };
        let text = self.written(cell, by_key(row));
        (text, columns.into_inner())
    }

    /// The call with one argument replaced by something plain.
    pub fn plainer(&self) -> Vec<Call> {
        let mut all = Vec::new();
        for at in 0..self.args.len() {
            for plain in ["NULL", "1", "''"] {
                if matches!(&self.args[at][..], [Piece::Text(text)] if text.len() <= plain.len()) {
                    continue;
                }
                let mut call = self.clone();
                call.args[at] = vec![Piece::Text(plain.to_owned())];
                all.push(call);
            }
        }
        all
    }
}

/// What a row of `t` has, as it is written where `t` is not.
fn by_key(row: usize) -> impl Fn(&str) -> String {
    move |name| format!("(SELECT {name} FROM t WHERE id = {row})")
}

fn any_type(rng: &mut Rng) -> usize {
    rng.below(types().len() as u64) as usize
}

fn cell(ty: usize, rng: &mut Rng) -> Piece {
    Piece::Cell(ty, rng.below(COLUMNS as u64) as usize)
}

fn plain(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

/// An array of a type's cells, empty, with NULLs, or nested.
fn array(ty: usize, rng: &mut Rng) -> Vec<Piece> {
    let (first, second) = (cell(ty, rng), cell(ty, rng));
    match rng.below(7) {
        0 => vec![plain(&format!("CAST('{{}}' AS {}[])", types()[ty].name))],
        1 => vec![plain("ARRAY["), first, plain(", NULL]")],
        2 => vec![plain("ARRAY[ARRAY["), first, plain("], ARRAY["), second, plain("]]")],
        3 => vec![plain(&format!("CAST(NULL AS {}[])", types()[ty].name))],
        4 => vec![plain("ARRAY["), first, plain("]")],
        _ => vec![
            plain("ARRAY["),
            first,
            plain(", "),
            second,
            plain(", NULL, "),
            cell(ty, rng),
            plain("]"),
        ],
    }
}

/// An argument that is declared to have a type; mostly it has it.
fn argument(declared: Option<usize>, rng: &mut Rng) -> Vec<Piece> {
    if let Some(ty) = declared
        && rng.chance(9, 10)
    {
        return vec![cell(ty, rng)];
    }
    let ty = any_type(rng);
    match rng.below(20) {
        0 => vec![plain("NULL")],
        1 => vec![plain("'a'")],
        2 => vec![plain("2147483648")],
        3 => vec![plain("''")],
        4 => vec![plain("99999999999999999999999999999999999999")],
        5 => vec![plain("ROW("), cell(ty, rng), plain(", NULL)")],
        6 if rng.chance(1, 2) => vec![plain("CAST('pg_class' AS regclass)")],
        6 => {
            vec![plain(rng.pick::<&str>(&["CAST('0.50' AS numeric)", "CAST('-1e27' AS numeric)"]))]
        }
        7 => vec![plain("(SELECT "), cell(ty, rng), plain(")")],
        8 => vec![plain("ROW(NULL, ROW("), cell(ty, rng), plain("))")],
        13 => vec![Piece::OfRow(rng.pick::<&str>(OF_ROW))],
        9..13 => array(ty, rng),
        _ => vec![cell(ty, rng)],
    }
}

/// A call of `callable` with random arguments.
pub fn call(callable: &Callable, rng: &mut Rng) -> Call {
    if let Some(form) = &callable.form {
        let count = form.matches(HOLE).count();
        let signatures = &callable.signatures;
        let signature = match signatures.is_empty() {
            // Two arguments of one type are more often something than two of any.
            true => match any_type(rng) {
                ty if rng.chance(1, 3) => vec![Some(ty); count],
                _ => vec![None; count],
            },
            false => rng.pick(signatures).clone(),
        };
        let args = signature.iter().map(|declared| argument(*declared, rng)).collect();
        return Call { called: callable.called, form: form.clone(), args };
    }
    let mut signature = match callable.signatures.is_empty() || rng.chance(1, 10) {
        true => vec![None; rng.below(5) as usize],
        false => rng.pick(&callable.signatures).clone(),
    };
    match rng.below(30) {
        0 => signature.push(None),
        1 => drop(signature.pop()),
        _ => {}
    }
    let mut args: Vec<_> = signature.iter().map(|declared| argument(*declared, rng)).collect();
    let holes = vec![HOLE.to_string(); args.len()].join(", ");
    let name = &callable.name;
    let form = match (callable.called, rng.below(16)) {
        (Called::PerGroup, 0) => format!("{name}(DISTINCT {holes})"),
        (Called::PerGroup, 1) => format!("{name}({holes} ORDER BY {HOLE})"),
        (Called::PerGroup, 2) => format!("{name}({holes}) WITHIN GROUP (ORDER BY {HOLE})"),
        (Called::PerGroup, 3) => format!("{name}({holes}) FILTER (WHERE {HOLE} IS NOT NULL)"),
        _ => format!("{name}({holes})"),
    };
    if form.matches(HOLE).count() > args.len() {
        args.push(vec![cell(any_type(rng), rng)]);
    }
    Call { called: callable.called, form, args }
}

/// Places of an expression `E` over the columns of `t` in which some other part of the engine meets
/// its values.
#[rustfmt::skip]
const PLACES: &[&str] = &[
    "SELECT DISTINCT E FROM t", "SELECT E, count(*) FROM t GROUP BY 1", "SELECT E FROM t GROUP BY E HAVING E IS NOT NULL",
    "SELECT id FROM t ORDER BY E, id", "SELECT id FROM t ORDER BY E DESC NULLS LAST LIMIT 3",
    "SELECT count(*) FROM t WHERE E IS NULL", "SELECT id FROM t WHERE E = E", "SELECT id FROM t WHERE E",
    "SELECT count(DISTINCT E), max(E), min(E) FROM t", "SELECT array_agg(E ORDER BY E) FROM t",
    "SELECT sum(E), avg(E) FROM t", "SELECT E FROM t UNION SELECT E FROM t", "SELECT E FROM t EXCEPT SELECT NULL",
    "SELECT rank() OVER (PARTITION BY E ORDER BY id) FROM t", "SELECT rank() OVER (ORDER BY E) FROM t",
    "SELECT count(*) OVER (ORDER BY E RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT lag(E, 2) OVER (ORDER BY id) FROM t", "SELECT l.id FROM t l JOIN t r ON l.id = r.id WHERE (SELECT E FROM t WHERE id = 3) IS NULL",
    "SELECT CASE WHEN id > 3 THEN E END FROM t", "SELECT COALESCE(E, E) FROM t", "SELECT ARRAY[E, NULL] FROM t",
    "SELECT CAST(E AS text) FROM t", "SELECT ROW(E, 1) FROM t", "SELECT id FROM t WHERE E IN (E, NULL)",
    "SELECT x FROM (SELECT E AS x FROM t OFFSET 1) s WHERE x IS NOT NULL", "SELECT id FROM t LIMIT (SELECT E FROM t WHERE id = 3)",
    "WITH s AS MATERIALIZED (SELECT E AS x FROM t) SELECT l.x FROM s l JOIN s r ON l.x = r.x",
    "CREATE TABLE scratch AS SELECT E AS x FROM t", "CREATE TABLE scratch (id int, x text DEFAULT (E))",
    "UPDATE u SET c10_0 = E WHERE false", "INSERT INTO u (id, c10_0) SELECT -id - 1, E FROM t WHERE id = 3",
    "SELECT * FROM generate_series(1, 2) AS g (i), LATERAL (SELECT E FROM t WHERE id = i) s",
    "SELECT E FROM t GROUP BY GROUPING SETS ((E), ())", "EXPLAIN SELECT E FROM t WHERE id = 3",
];

/// Frames and orders of windows.
#[rustfmt::skip]
const WINDOWS: &[&str] = &[
    "(ORDER BY id)", "()", "(PARTITION BY c0_0 ORDER BY c3_0)",
    "(ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "(ORDER BY id ROWS BETWEEN 9223372036854775807 PRECEDING AND 9223372036854775807 FOLLOWING)",
    "(ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 9223372036854775807 FOLLOWING)",
    "(ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING)", "(ORDER BY id ROWS BETWEEN -1 PRECEDING AND CURRENT ROW)",
    "(ORDER BY id ROWS BETWEEN NULL PRECEDING AND CURRENT ROW)", "(ORDER BY id ROWS 18446744073709551616 PRECEDING)",
    "(ORDER BY c3_0 RANGE BETWEEN 9223372036854775807 PRECEDING AND 9223372036854775807 FOLLOWING)",
    "(ORDER BY c3_0 DESC RANGE BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING)",
    "(ORDER BY c5_0 RANGE BETWEEN 1.5 PRECEDING AND 'Infinity' FOLLOWING)",
    "(ORDER BY c6_0 RANGE BETWEEN 1e21 PRECEDING AND 1e21 FOLLOWING)",
    "(ORDER BY c14_0 RANGE BETWEEN '1 day' PRECEDING AND '178000000 years' FOLLOWING)",
    "(ORDER BY c16_0 RANGE BETWEEN '1 mon' PRECEDING AND '2147483647 months' FOLLOWING)",
    "(ORDER BY c1_0 RANGE BETWEEN 32767 PRECEDING AND 1 FOLLOWING)",
    "(ORDER BY c10_0 RANGE BETWEEN 'a' PRECEDING AND CURRENT ROW)",
    "(ORDER BY id GROUPS BETWEEN 1 PRECEDING AND 9223372036854775807 FOLLOWING)",
    "(ORDER BY c0_0 GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING EXCLUDE TIES)",
    "(ORDER BY id ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW)",
];

/// A place for the expression, as a statement.
pub fn place(call: &Call, rng: &mut Rng) -> String {
    let text = call.of_columns();
    let window = rng.pick(WINDOWS);
    match call.called {
        Called::PerRow => with(rng.pick::<&str>(PLACES), &text),
        Called::Over => format!("SELECT {text} OVER {window} FROM t"),
        Called::PerGroup => match rng.below(6) {
            0 => format!("SELECT {text} FROM t GROUP BY c0_0"),
            1 => format!("SELECT {text} FROM t WHERE false"),
            2 => format!("SELECT id FROM t GROUP BY id ORDER BY {text} LIMIT 2"),
            3 => format!(
                "SELECT c0_0, {text} FROM t GROUP BY GROUPING SETS ((c0_0), ()) HAVING {text} IS NOT NULL"
            ),
            _ => format!("SELECT {text} OVER {window} FROM t"),
        },
    }
}

/// Puts an expression where a place has `E` as a word.
fn with(place: &str, expression: &str) -> String {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut all = String::new();
    let mut rest = place;
    while let Some(at) = rest.find('E') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        all.push_str(before);
        let last = if before.is_empty() { all.chars().last() } else { before.chars().last() };
        match is_word(last) || is_word(after.chars().next()) {
            true => all.push('E'),
            false => all.push_str(&format!("({expression})")),
        }
        rest = after;
    }
    all + rest
}

/// A row for a case.
pub fn row(rng: &mut Rng) -> usize {
    rng.below(ROWS as u64) as usize
}
