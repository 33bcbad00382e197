//! The naive evaluator of the calculus: nested loops over small databases of integers.
//!
//! An oracle for transformations that must not change a term's meaning: simplification, deltas,
//! factors.

use std::collections::{BTreeMap, HashMap};

use halcyon_view::program::{BinaryOp, CompareOp, Expr, NULL_INT, Type};

use crate::calculus::{Atom, Term, Var, Variables};
use crate::derivative::delta;
use crate::expression::{binary, compare, is_null, not, null_safe_eq};
use crate::simplify::{isolate, simplify};
use crate::viewlet::shape;

/// For each relation, its rows with their multiplicities.
type Database = Vec<Vec<(Vec<i64>, i64)>>;
type Environment = HashMap<Var, i64>;
type Sums = BTreeMap<Vec<i64>, Vec<i64>>;

/// The value of an expression over integers; NULL is the type's mark.
fn value(expr: &Expr, env: &Environment) -> i64 {
    let truth = |holds: bool| i64::from(holds);
    match expr {
        Expr::Reg(var) => env[var],
        Expr::Int(value) => *value,
        Expr::Null(_) => NULL_INT,
        Expr::Binary(op, _, a, b) => match (value(a, env), value(b, env)) {
            (NULL_INT, _) | (_, NULL_INT) => NULL_INT,
            (a, b) => match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                other => panic!("no test has {other:?}"),
            },
        },
        Expr::Neg(_, a) => match value(a, env) {
            NULL_INT => NULL_INT,
            a => -a,
        },
        Expr::Compare(op, _, a, b) => match (value(a, env), value(b, env)) {
            (NULL_INT, _) | (_, NULL_INT) => NULL_INT,
            (a, b) => truth(match op {
                CompareOp::Eq => a == b,
                CompareOp::Ne => a != b,
                CompareOp::Lt => a < b,
                CompareOp::Le => a <= b,
                CompareOp::Gt => a > b,
                CompareOp::Ge => a >= b,
            }),
        },
        Expr::IsNull(_, a) => truth(value(a, env) == NULL_INT),
        Expr::Not(a) => match value(a, env) {
            NULL_INT => NULL_INT,
            a => truth(a == 0),
        },
        Expr::And(all) => {
            let all: Vec<i64> = all.iter().map(|e| value(e, env)).collect();
            if all.contains(&0) { 0 } else { all.into_iter().min().unwrap_or(1) }
        }
        Expr::Or(all) => {
            let all: Vec<i64> = all.iter().map(|e| value(e, env)).collect();
            if all.contains(&1) { 1 } else { all.into_iter().min().unwrap_or(0) }
        }
        Expr::Case { when, otherwise, .. } => {
            let met = when.iter().find(|(condition, _)| value(condition, env) == 1);
            met.map_or_else(|| value(otherwise, env), |(_, then)| value(then, env))
        }
        Expr::Coalesce(_, all) => {
            let mut values = all.iter().map(|e| value(e, env));
            values.find(|value| *value != NULL_INT).unwrap_or(NULL_INT)
        }
        other => panic!("no test has {other:?}"),
    }
}

/// Adds a term, multiplied by a factor, to `sums`, with some variables bound already.
fn add(term: &Term, factor: i64, db: &Database, env: &mut Environment, sums: &mut Sums) {
    bind(term, 0, factor * term.weight, db, env, sums);
}

fn bind(term: &Term, at: usize, times: i64, db: &Database, env: &mut Environment, sums: &mut Sums) {
    let Some(atom) = term.atoms.get(at) else {
        if term.conditions.iter().all(|condition| value(condition, env) == 1) {
            let key = term.keys.iter().map(|key| value(key, env)).collect();
            let entry: &mut Vec<i64> = sums.entry(key).or_insert(vec![0; term.values.len()]);
            for (sum, summand) in entry.iter_mut().zip(&term.values) {
                let summand = value(summand, env);
                *sum += if summand == NULL_INT { 0 } else { times * summand };
            }
        }
        return;
    };
    for (row, count) in &db[atom.relation] {
        let before = env.clone();
        let fits = atom
            .vars
            .iter()
            .zip(row)
            .all(|(var, value)| *env.entry(*var).or_insert(*value) == *value);
        if fits {
            bind(term, at + 1, times * count, db, env, sums);
        }
        *env = before;
    }
}

/// The value of a sum of terms; keys whose sums are all zero are left out.
fn evaluate<'t>(terms: impl IntoIterator<Item = &'t Term>, db: &Database) -> Sums {
    let mut sums = Sums::new();
    for term in terms {
        add(term, 1, db, &mut HashMap::new(), &mut sums);
    }
    sums.retain(|_, values| values.iter().any(|value| *value != 0));
    sums
}

/// Pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % end
    }

    fn cell(&mut self) -> i64 {
        match self.below(6) {
            0 => NULL_INT,
            value => value as i64,
        }
    }
}

const COLUMNS: [usize; 3] = [2, 2, 1];

fn database(random: &mut Random) -> Database {
    COLUMNS
        .iter()
        .map(|columns| {
            let row = |random: &mut Random| (0..*columns).map(|_| random.cell()).collect();
            (0..random.below(6)).map(|_| (row(random), 1 + random.below(2) as i64)).collect()
        })
        .collect()
}

fn expression(random: &mut Random, vars: &[Var], depth: u32) -> Expr {
    let var = |random: &mut Random| Expr::Reg(vars[random.below(vars.len() as u64) as usize]);
    if depth == 0 || random.below(3) == 0 {
        return if random.below(5) == 0 { Expr::Int(random.below(4) as i64) } else { var(random) };
    }
    let a = expression(random, vars, depth - 1);
    let b = expression(random, vars, depth - 1);
    match random.below(5) {
        0 => binary(BinaryOp::Add, Type::Int, a, b),
        1 => binary(BinaryOp::Sub, Type::Int, a, b),
        2 => binary(BinaryOp::Mul, Type::Int, a, b),
        3 => Expr::Neg(Type::Int, Box::new(a)),
        _ => Expr::Case {
            ty: Type::Int,
            when: vec![(condition(random, vars, 0), a)],
            otherwise: Box::new(b),
        },
    }
}

fn condition(random: &mut Random, vars: &[Var], depth: u32) -> Expr {
    let a = expression(random, vars, depth);
    let b = expression(random, vars, depth);
    let ops =
        [CompareOp::Eq, CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Ge, CompareOp::Gt];
    match random.below(if depth == 0 { 3 } else { 7 }) {
        0..=2 => compare(ops[random.below(6) as usize], Type::Int, a, b),
        3 => null_safe_eq(Type::Int, a, b),
        4 => not(is_null(Type::Int, a)),
        5 => not(condition(random, vars, depth - 1)),
        _ => {
            let left = condition(random, vars, depth - 1);
            Expr::Or(vec![left, condition(random, vars, depth - 1)])
        }
    }
}

fn term(random: &mut Random, vars: &mut Variables) -> Term {
    let atoms: Vec<Atom> = (0..1 + random.below(3))
        .map(|_| {
            let relation = random.below(3) as usize;
            let column = |_| vars.fresh("x", Type::Int, true);
            Atom { relation, vars: (0..COLUMNS[relation]).map(column).collect() }
        })
        .collect();
    let all: Vec<Var> = atoms.iter().flat_map(|atom| atom.vars.iter().copied()).collect();
    let conditions = (0..random.below(4)).map(|_| condition(random, &all, 2)).collect();
    let keys = (0..random.below(3)).map(|_| expression(random, &all, 0)).collect();
    let values = vec![Expr::Int(1), expression(random, &all, 2)];
    Term { weight: if random.below(4) == 0 { -1 } else { 1 }, atoms, conditions, keys, values }
}

fn cases(mut check: impl FnMut(&mut Random, &mut Variables, Term, Database)) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3000 {
        let mut vars = Variables::default();
        let term = term(&mut random, &mut vars);
        let db = database(&mut random);
        check(&mut random, &mut vars, term, db);
    }
}

#[test]
fn simplification_keeps_the_meaning() {
    cases(|_, vars, term, db| {
        let simple = simplify(term.clone(), vars);
        assert_eq!(evaluate([&term], &db), evaluate(&simple, &db), "{term:?}\n{simple:?}\n{db:?}");
    });
}

#[test]
fn the_delta_is_the_difference() {
    cases(|random, vars, term, db| {
        let relation = random.below(3) as usize;
        let row: Vec<i64> = (0..COLUMNS[relation]).map(|_| random.cell()).collect();
        let weight = if random.below(2) == 0 { 1 } else { -1 };
        let event: Vec<Var> = row.iter().map(|_| vars.fresh("@x", Type::Int, true)).collect();
        let mut after = db.clone();
        after[relation].push((row.clone(), weight));
        for simple in simplify(term.clone(), vars) {
            let mut expected = evaluate([&simple], &after);
            for (key, values) in evaluate([&simple], &db) {
                let entry = expected.entry(key).or_insert(vec![0; values.len()]);
                entry.iter_mut().zip(values).for_each(|(new, old)| *new -= old);
            }
            expected.retain(|_, values| values.iter().any(|value| *value != 0));
            let mut found = Sums::new();
            for delta in delta(&simple, relation, &event, vars) {
                let mut env: Environment = event.iter().copied().zip(row.iter().copied()).collect();
                add(&delta.term, weight.pow(delta.power), &db, &mut env, &mut found);
            }
            found.retain(|_, values| values.iter().any(|value| *value != 0));
            assert_eq!(expected, found, "{simple:?}\n{db:?}\n{row:?} {weight}");
        }
    });
}

#[test]
fn every_delta_has_fewer_atoms() {
    cases(|_, vars, term, _| {
        for (relation, &columns) in COLUMNS.iter().enumerate() {
            let event: Vec<Var> = (0..columns).map(|_| vars.fresh("@x", Type::Int, true)).collect();
            for delta in delta(&term, relation, &event, vars) {
                assert_eq!(delta.term.atoms.len() + delta.power as usize, term.atoms.len());
            }
        }
    });
}

#[test]
fn isolated_comparisons_say_the_same() {
    cases(|random, vars, _, _| {
        let all: Vec<Var> = (0..4).map(|_| vars.fresh("x", Type::Int, true)).collect();
        let (inner, outer) =
            (all[..2].iter().copied().collect(), all[2..].iter().copied().collect());
        let (a, b) = (expression(random, &all, 2), expression(random, &all, 2));
        let condition = compare(CompareOp::Lt, Type::Int, a, b);
        let Some((key, op, ty, bound)) = isolate(&condition, &inner, &outer) else { return };
        let isolated = Expr::Compare(op, ty, Box::new(key), Box::new(bound));
        for _ in 0..8 {
            let env = all.iter().map(|var| (*var, random.cell())).collect();
            assert_eq!(
                value(&condition, &env),
                value(&isolated, &env),
                "{condition:?} {isolated:?}"
            );
        }
    });
}

/// Terms that differ only in the order of atoms and the names of variables have the same shape.
#[test]
fn equal_terms_have_one_shape() {
    cases(|_, vars, term, _| {
        let renamed = crate::parts::renamed(&term, vars);
        let mut turned = renamed.clone();
        turned.atoms.reverse();
        turned.conditions.reverse();
        assert_eq!(shape(&term), shape(&turned));
    });
}
