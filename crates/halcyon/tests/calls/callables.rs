//! What can be called, as the engine's registry and catalog list it: functions, operators, casts,
//! and the forms of the grammar that are calls in another dress.

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::DataType;
use halcyon::{Session, Value};
use halcyon_base::rng::Rng;
use halcyon_plan::callables::{Callable as Registered, Called};
use halcyon_plan::setup;

use crate::values::types;

/// Something that takes arguments.
pub struct Callable {
    /// What tells it from others.
    pub name: String,
    /// The call, with [`HOLE`] where arguments stand. `None`: the name with arguments in parentheses.
    pub form: Option<String>,
    pub called: Called,
    /// Types by number in [`types`] with which it is declared; `None` for any.
    pub signatures: Vec<Vec<Option<usize>>>,
}

/// Stands for an argument.
pub const HOLE: char = '\u{1}';

/// Forms of the grammar, with `#` for arguments.
#[rustfmt::skip]
const FORMS: &[&str] = &[
    "# LIKE #", "# NOT LIKE #", "# ILIKE #", "# LIKE # ESCAPE #", "# SIMILAR TO #",
    "# SIMILAR TO # ESCAPE #", "# BETWEEN # AND #", "# NOT BETWEEN SYMMETRIC # AND #",
    "# IN (#, #)", "# NOT IN (#, NULL, #)", "# IS DISTINCT FROM #", "# IS NOT DISTINCT FROM #",
    "# IS NULL", "# IS NOT NULL", "# IS TRUE", "# IS NOT FALSE", "# IS UNKNOWN", "NOT #",
    "# AND #", "# OR #", "# = ANY (#)", "# <> ALL (#)", "# < ANY (ARRAY[#, #])", "# LIKE ANY (ARRAY[#, #])",
    "# = ANY (SELECT #)", "# IN (SELECT #)", "# NOT IN (SELECT # UNION ALL SELECT NULL)", "EXISTS (SELECT #)",
    "# AT TIME ZONE #", "# AT TIME ZONE 'Europe/Berlin'", "(#)[#]", "(#)[#:#]", "(#)[:#]", "(#)[#][#]",
    "CASE # WHEN # THEN # ELSE # END", "CASE WHEN # THEN # ELSE # END", "COALESCE(#, #)", "NULLIF(#, #)",
    "GREATEST(#, #, #)", "LEAST(#, #)", "EXTRACT(year FROM #)", "EXTRACT(epoch FROM #)",
    "EXTRACT(century FROM #)", "EXTRACT(week FROM #)", "EXTRACT(microseconds FROM #)", "EXTRACT(julian FROM #)",
    "EXTRACT(timezone FROM #)", "EXTRACT(isodow FROM #)", "EXTRACT(quarter FROM #)",
    "SUBSTRING(# FROM #)", "SUBSTRING(# FROM # FOR #)", "SUBSTRING(# FOR #)", "POSITION(# IN #)",
    "OVERLAY(# PLACING # FROM # FOR #)", "OVERLAY(# PLACING # FROM #)", "TRIM(BOTH # FROM #)",
    "TRIM(LEADING FROM #)", "ROW(#, #) = ROW(#, #)", "(#, #) < (#, #)", "ROW(#, #)", "ARRAY[#, #]",
    "(#, #) IN (SELECT #, #)", "ARRAY[ARRAY[#], ARRAY[#]]", "(#, #) OVERLAPS (#, #)", "# COLLATE \"C\"", "- #",
    "+ #", "~ #", "@ #", "|/ #", "||/ #", "# !~* #", "# ~ #", "# @> #", "# <@ #", "# && #", "# ^@ #",
    "# || #", "(ROW(#, #)).f1", "(SELECT #)", "ARRAY(SELECT #)", "interval '1 day' * #", "# / interval '1 day'",
    "make_interval(days => #)", "date '2024-02-29' + #", "# - timestamp '2024-02-29 12:00'",
    "f(#)", "nextval('s') + #", "# IS OF (integer)", "unnest(ARRAY[#, #])", "# IS NORMALIZED", "NORMALIZE(#)",
];

/// Lengths and places with which types are written.
#[rustfmt::skip]
const MODIFIED: &[&str] = &[
    "numeric", "numeric(38,0)", "numeric(38,38)", "numeric(1,0)", "numeric(5,2)", "numeric(3,5)", "numeric(5,-2)",
    "numeric(1000,2)", "varchar", "varchar(1)", "varchar(10485761)", "char(1)", "char(200)", "timestamp(0)",
    "timestamptz(3)", "time(0)", "interval second", "interval(3)", "interval year to month", "float(24)", "bit(3)",
    "int[]", "text[]", "numeric[]", "date[][]", "timestamptz[]", "boolean[]", "bytea[]", "interval[]", "uuid[]",
];

/// Functions that wait as long as they are told.
const NOT_CALLED: &[&str] = &["pg_sleep_for", "pg_sleep_until", "pg_sleep"];

/// Functions of an expression, its type and where it stands: not of its value.
const NOT_OF_VALUES: &[&str] =
    &["arrow_field", "arrow_metadata", "arrow_typeof", "grouping", "pg_typeof"];

fn rows(session: &mut Session, text: &str) -> Vec<Vec<Value>> {
    let rows = session.query(text, &[]).and_then(|rows| rows.collect());
    rows.unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        other => format!("{other:?}"),
    }
}

/// Numbers in [`types`] by the object id of a type.
fn types_by_oid(session: &mut Session) -> BTreeMap<String, Option<usize>> {
    let rows = rows(session, "SELECT CAST(oid AS text), typname FROM pg_catalog.pg_type");
    let number = |name: &str| types().iter().position(|ty| ty.catalog_name == name);
    rows.iter().map(|row| (text(&row[0]), number(&text(&row[1])))).collect()
}

/// All callables, the same list in every process.
pub fn all(session: &mut Session) -> Vec<Callable> {
    let numbers = types_by_oid(session);
    let mut all: Vec<Callable> = functions(session, &numbers).collect();
    all.extend(operators(session, &numbers));
    all.extend(casts(session));
    all.extend(FORMS.iter().map(|form| Callable {
        name: (*form).to_owned(),
        form: Some(form.replace('#', &HOLE.to_string())),
        called: Called::PerRow,
        signatures: vec![],
    }));
    all.sort_by(|left, right| left.name.cmp(&right.name));
    all
}

fn functions(
    session: &mut Session,
    numbers: &BTreeMap<String, Option<usize>>,
) -> impl Iterator<Item = Callable> {
    type Arguments = BTreeSet<Vec<Option<usize>>>;
    let mut found: BTreeMap<String, (Called, Arguments)> = BTreeMap::new();
    let listed = rows(
        session,
        "SELECT proname, CAST(proargtypes AS text), CAST(prokind AS text) FROM pg_catalog.pg_proc \
         WHERE pronamespace = 11",
    );
    for row in &listed {
        let called = match text(&row[2]).as_str() {
            "a" => Called::PerGroup,
            "w" => Called::Over,
            _ => Called::PerRow,
        };
        let entry = found.entry(text(&row[0])).or_insert_with(|| (called, BTreeSet::new()));
        let listed = text(&row[1]);
        let signature = listed.split(' ').filter(|oid| !oid.is_empty());
        entry.1.insert(signature.map(|oid| numbers.get(oid).copied().flatten()).collect());
    }
    for callable in setup::callables() {
        let signatures = declared(&callable);
        let entry = found.entry(callable.name.clone());
        let entry = entry.or_insert_with(|| (callable.called(), BTreeSet::new()));
        entry.1.extend(signatures);
    }
    let called = |(name, (called, signatures)): (String, (Called, BTreeSet<_>))| Callable {
        name,
        form: None,
        called,
        signatures: signatures.into_iter().collect(),
    };
    let may_run = |callable: &Callable| !NOT_CALLED.contains(&callable.name.as_str());
    found.into_iter().map(called).filter(may_run)
}

impl Callable {
    /// Whether the result follows from the values of the arguments.
    pub fn is_of_values(&self) -> bool {
        !NOT_OF_VALUES.contains(&self.name.as_str())
    }
}

/// Lists of types that a registered function takes: all of one and two, some of three and four.
fn declared(callable: &Registered) -> Vec<Vec<Option<usize>>> {
    let arrow: Vec<Option<DataType>> = types().iter().map(|ty| ty.arrow.clone()).collect();
    let seed =
        callable.name.bytes().fold(1, |seed: u64, byte| seed * 31 % 999_983 + u64::from(byte));
    let mut rng = Rng::new(seed);
    let mut taken = Vec::new();
    let mut try_list = |list: &[usize]| {
        let types: Option<Vec<DataType>> = list.iter().map(|ty| arrow[*ty].clone()).collect();
        if types.is_some_and(|types| callable.takes(&types)) {
            taken.push(list.iter().map(|ty| Some(*ty)).collect());
        }
    };
    try_list(&[]);
    for first in 0..types().len() {
        try_list(&[first]);
        try_list(&[first, rng.below(types().len() as u64) as usize]);
        try_list(&[first, first]);
    }
    for count in [2, 3, 3, 4] {
        for _ in 0..20 {
            let list: Vec<usize> =
                (0..count).map(|_| rng.below(types().len() as u64) as usize).collect();
            try_list(&list);
        }
    }
    taken
}

fn operators(
    session: &mut Session,
    numbers: &BTreeMap<String, Option<usize>>,
) -> impl Iterator<Item = Callable> {
    let listed = rows(
        session,
        "SELECT oprname, CAST(oprleft AS text), CAST(oprright AS text) FROM pg_catalog.pg_operator",
    );
    let mut found: BTreeMap<(String, bool), Vec<Vec<Option<usize>>>> = BTreeMap::new();
    for row in &listed {
        let [left, right] = [1, 2].map(|at| text(&row[at]));
        let is_prefix = left == "0";
        let number = |oid: &str| numbers.get(oid).copied().flatten();
        let signature = match is_prefix {
            true => vec![number(&right)],
            false => vec![number(&left), number(&right)],
        };
        found.entry((text(&row[0]), is_prefix)).or_default().push(signature);
    }
    found.into_iter().map(|((name, is_prefix), signatures)| Callable {
        form: Some(match is_prefix {
            true => format!("{name} {HOLE}"),
            false => format!("{HOLE} {name} {HOLE}"),
        }),
        name: format!("operator {name} of {}", if is_prefix { 1 } else { 2 }),
        called: Called::PerRow,
        signatures,
    })
}

/// A cast to each type of the catalog.
fn casts(session: &mut Session) -> impl Iterator<Item = Callable> {
    let listed = rows(session, "SELECT typname FROM pg_catalog.pg_type WHERE typtype = 'b'");
    let mut targets: BTreeSet<String> = listed.iter().map(|row| text(&row[0])).collect();
    targets.retain(|name| !name.contains('"') && name != "char");
    targets.extend(MODIFIED.iter().map(|name| (*name).to_owned()));
    targets.into_iter().map(|name| Callable {
        form: Some(format!("CAST({HOLE} AS {name})")),
        name: format!("cast to {name}"),
        called: Called::PerRow,
        signatures: vec![],
    })
}
