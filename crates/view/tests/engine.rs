//! What an engine promises, shown by small hand-written programs under all executors.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use halcyon_value::functions::{Answer, ArgumentKind, Call, Function, Gives, Takes};
use halcyon_view::program::{
    BinaryOp, Bound, CompareOp, Component, Derived, Expr, MapDecl, MapId, NULL_FLOAT_BITS,
    NULL_INT, Program, Reg, Relation, RelationId, SliceId, Statement, Step, Trigger, Type,
};
use halcyon_view::{ApplyError, Engine, EvalError, Executor, Options};

const ALL: [Executor; 3] = [Executor::Interpreted, Executor::Operations, Executor::Compiled];

fn r(register: u16) -> Expr {
    Expr::Reg(Reg(register))
}

fn op(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Type::Int, Box::new(a), Box::new(b))
}

fn above_zero(register: u16) -> Expr {
    Expr::Compare(CompareOp::Gt, Type::Int, Box::new(r(register)), Box::new(Expr::Int(0)))
}

fn map(key: &[Type], payload: &[Component]) -> MapDecl {
    MapDecl {
        name: "m".into(),
        definition: String::new(),
        key: key.to_vec(),
        payload: payload.to_vec(),
        ordered: false,
        slices: vec![],
    }
}

fn base(columns: &[Type]) -> Relation {
    Relation {
        name: "r".into(),
        columns: columns.to_vec(),
        source_columns: (0..columns.len() as u16).collect(),
        never_null: vec![],
        derived: None,
    }
}

fn derived(
    map: u16,
    registers: &[Type],
    exists: Expr,
    row: Vec<Expr>,
    columns: &[Type],
) -> Relation {
    let derived =
        Derived { map: MapId(map), registers: registers.to_vec(), steps: vec![], exists, row };
    Relation {
        name: "d".into(),
        columns: columns.to_vec(),
        source_columns: vec![],
        never_null: vec![],
        derived: Some(derived),
    }
}

fn add(target: u16, key: Vec<Expr>, add: Vec<Expr>) -> Statement {
    Statement {
        comment: String::new(),
        steps: vec![],
        target: MapId(target),
        key,
        add,
        replace: false,
    }
}

fn trigger(registers: &[Type], statements: Vec<Statement>) -> Trigger {
    Trigger { registers: registers.to_vec(), statements }
}

fn engine(program: &Program, executor: Executor) -> Engine {
    let options = Options { executor, ..Options::default() };
    Engine::new(program.clone(), options).unwrap_or_else(|error| panic!("{error}"))
}

fn apply(engine: &mut Engine, row: &[i64], weight: i64) -> Result<(), ApplyError> {
    let row: Vec<u64> = row.iter().map(|value| *value as u64).collect();
    engine.apply(RelationId(0), &row, weight)
}

fn rows(engine: &mut Engine) -> Vec<Vec<i64>> {
    let mut rows = Vec::new();
    engine
        .for_each_row(|row| rows.push(row.iter().map(|word| *word as i64).collect()))
        .expect("rows can be computed");
    rows.sort();
    rows
}

/// Old and new rows by key.
fn changes(engine: &mut Engine) -> BTreeMap<Vec<i64>, (Vec<i64>, Vec<i64>)> {
    let mut changes = BTreeMap::new();
    let words = |row: &[u64]| -> Vec<i64> { row.iter().map(|word| *word as i64).collect() };
    engine
        .drain_changes(|change| {
            let (old, new) = (change.old.map(words), change.new.map(words));
            changes.insert(words(change.key), (old.unwrap_or_default(), new.unwrap_or_default()));
        })
        .expect("rows can be computed");
    changes
}

/// `SELECT k, SUM(v), COUNT(*) FROM r(k, v) GROUP BY k`, with a sum of squares that overflows early
/// in a second map, and a derived count of the groups in a third.
fn sums() -> Program {
    use Type::Int;
    let square = op(BinaryOp::Mul, r(2), op(BinaryOp::Mul, r(1), r(1)));
    Program {
        relations: vec![
            base(&[Int, Int]),
            derived(0, &[Int; 3], above_zero(2), vec![r(0)], &[Int]),
            derived(0, &[Int; 3], above_zero(2), vec![r(0), r(1), r(2)], &[Int; 3]),
        ],
        maps: vec![
            map(&[Int], &[Component::Int, Component::Int]),
            map(&[], &[Component::Int]),
            map(&[], &[Component::Int]),
        ],
        triggers: vec![
            trigger(
                &[Int; 3],
                vec![
                    add(0, vec![r(0)], vec![op(BinaryOp::Mul, r(1), r(2)), r(2)]),
                    add(1, vec![], vec![square]),
                ],
            ),
            // Overflows at the third group: the weight is added 2⁶² times.
            trigger(
                &[Int; 2],
                vec![add(2, vec![], vec![op(BinaryOp::Mul, r(1), Expr::Int(1 << 62))])],
            ),
            Trigger::default(),
        ],
        output: RelationId(2),
        ..Program::default()
    }
}

#[test]
fn an_event_that_overflows_half_way_leaves_everything_as_it_was() {
    for executor in ALL {
        let mut engine = engine(&sums(), executor);
        apply(&mut engine, &[1, 7], 1).expect("fits");
        changes(&mut engine);
        let before: Vec<_> = (0..3).map(|map| engine.entries(map)).collect();
        // At first the second statement overflows when the first is done; later, at the second
        // group, the trigger of a derived relation overflows when a statement is done.
        let overflow = Err(ApplyError::Eval(EvalError::Overflow));
        assert_eq!(apply(&mut engine, &[1, 1 << 40], 1), overflow);
        assert_eq!(apply(&mut engine, &[9, 1 << 32], 1), overflow);
        assert_eq!(apply(&mut engine, &[2, 3], 1), overflow);
        engine.check();
        let after: Vec<_> = (0..3).map(|map| engine.entries(map)).collect();
        assert_eq!(after, before);
        assert_eq!(changes(&mut engine), BTreeMap::new());
        assert_eq!(engine.statistics().events, 1);
        // The engine goes on after the error.
        apply(&mut engine, &[1, 7], -1).expect("fits");
        apply(&mut engine, &[2, 3], 1).expect("fits");
        assert_eq!(rows(&mut engine), [[2, 3, 1]]);
        let expected = [(vec![1], (vec![1, 7, 1], vec![])), (vec![2], (vec![], vec![2, 3, 1]))];
        assert_eq!(changes(&mut engine), BTreeMap::from(expected));
        engine.check();
    }
}

#[test]
fn changes_that_take_each_other_back_are_none() {
    for executor in ALL {
        let mut engine = engine(&sums(), executor);
        apply(&mut engine, &[1, 7], 1).expect("fits");
        apply(&mut engine, &[1, 7], -1).expect("fits");
        assert!(engine.has_changes());
        assert_eq!(changes(&mut engine), BTreeMap::new());
        assert!(!engine.has_changes());
        assert_eq!(
            engine.statistics().maps.iter().map(|map| map.entries).max(),
            Some(if executor == Executor::Interpreted { 0 } else { 1 })
        );
        let mut row = vec![5];
        assert_eq!(engine.row(&[1], &mut row), Ok(false));
        apply(&mut engine, &[1, 7], 1).expect("fits");
        assert_eq!(engine.row(&[1], &mut row), Ok(true));
        assert_eq!(row, [1, 7, 1]);
        engine.check();
    }
}

#[test]
fn sums_of_floats_come_back_to_what_they_were_in_any_order() {
    use Type::{Float, Int};
    let weighted = Expr::Binary(
        BinaryOp::Mul,
        Float,
        Box::new(Expr::Cast { from: Int, to: Float, value: Box::new(r(2)) }),
        Box::new(r(1)),
    );
    let program = Program {
        relations: vec![
            base(&[Int, Float]),
            derived(0, &[Int, Float, Int], above_zero(2), vec![r(1)], &[Float]),
        ],
        maps: vec![map(&[Int], &[Component::Float, Component::Int])],
        triggers: vec![
            trigger(&[Int, Float, Int], vec![add(0, vec![r(0)], vec![weighted, r(2)])]),
            Trigger::default(),
        ],
        output: RelationId(1),
        ..Program::default()
    };
    let values = [0.1, 0.2, 0.3, 1e-9, 1e9 + 0.7, -2.5e15, 3.3, 1e-300];
    for executor in ALL {
        let mut engine = engine(&program, executor);
        let event = |engine: &mut Engine, value: f64, weight| {
            engine.apply(RelationId(0), &[1, value.to_bits()], weight).expect("fits");
        };
        event(&mut engine, 0.7, 1);
        let start = engine.entries(0);
        for shift in 0..values.len() {
            for at in 0..values.len() {
                event(&mut engine, values[(at + shift) % values.len()], 1);
            }
            for at in 0..values.len() {
                event(&mut engine, values[(at * 5 + 3 * shift) % values.len()], -1);
            }
            assert_eq!(engine.entries(0), start);
        }
        event(&mut engine, 0.7, -1);
        changes(&mut engine);
        assert_eq!(engine.entries(0), []);
        // NULL adds nothing, but the row is counted; infinities and NaN fail.
        event(&mut engine, f64::from_bits(NULL_FLOAT_BITS), 1);
        let mut sum = Vec::new();
        assert_eq!(engine.row(&[1], &mut sum), Ok(true));
        assert_eq!(sum, [0]);
        for value in [f64::INFINITY, f64::NAN, 1e30] {
            let failed = engine.apply(RelationId(0), &[1, value.to_bits()], 1);
            assert_eq!(failed, Err(ApplyError::Eval(EvalError::OutOfRange)));
        }
        engine.check();
    }
}

/// `SELECT COUNT(DISTINCT v), MIN(v) FROM r(v)`: groups by value, their count, and the first key of
/// a sorted map.
#[test]
fn distinct_counts_and_least_values_survive_deletions() {
    use Type::Int;
    let least =
        Step::Edge { map: MapId(2), prefix: vec![], last: false, skip_null: true, key: Reg(2) };
    let mut view = derived(1, &[Int; 3], Expr::Int(1), vec![r(0), r(2)], &[Int; 2]);
    if let Some(derived) = &mut view.derived {
        derived.steps = vec![least];
    }
    let mut sorted = map(&[Int], &[Component::Int]);
    sorted.ordered = true;
    let not_null = Expr::Not(Box::new(Expr::IsNull(Int, Box::new(r(0)))));
    let mut count = add(1, vec![], vec![r(1), Expr::Int(0)]);
    count.steps = vec![Step::If(not_null)];
    let mut program = Program {
        relations: vec![
            base(&[Int]),
            derived(0, &[Int; 2], above_zero(1), vec![r(0)], &[Int]),
            view,
        ],
        maps: vec![
            map(&[Int], &[Component::Int]),
            map(&[], &[Component::Int, Component::Int]),
            sorted,
        ],
        triggers: vec![
            trigger(
                &[Int; 2],
                vec![
                    add(0, vec![r(0)], vec![r(1)]),
                    // Every row touches the group, whose row depends on the sorted map as well.
                    add(1, vec![], vec![Expr::Int(0), r(1)]),
                    add(2, vec![r(0)], vec![r(1)]),
                ],
            ),
            trigger(&[Int; 2], vec![count]),
            Trigger::default(),
        ],
        output: RelationId(2),
        ..Program::default()
    };
    if let Some(derived) = &mut program.relations[2].derived {
        // Registers: distinct, rows, least.
        derived.registers = vec![Int; 3];
    }
    for executor in ALL {
        let mut engine = engine(&program, executor);
        assert_eq!(rows(&mut engine), [[0, NULL_INT]]);
        let steps: [(i64, i64, [i64; 2]); 8] = [
            (5, 1, [1, 5]),
            (3, 1, [2, 3]),
            (3, 1, [2, 3]),
            (NULL_INT, 1, [2, 3]),
            (3, -1, [2, 3]),
            (3, -1, [1, 5]),
            (5, -1, [0, NULL_INT]),
            (NULL_INT, -1, [0, NULL_INT]),
        ];
        let mut last = vec![0, NULL_INT];
        for (value, weight, expected) in steps {
            apply(&mut engine, &[value], weight).expect("fits");
            assert_eq!(rows(&mut engine), [expected], "{executor:?} {value} {weight}");
            let change = changes(&mut engine).remove(&Vec::new());
            let expected_change = (last != expected).then(|| (last.clone(), expected.to_vec()));
            assert_eq!(change, expected_change, "{executor:?} {value} {weight}");
            last = expected.to_vec();
            engine.check();
        }
    }
}

/// The sum over the values above a quarter of the total: replaced at every event.
#[test]
fn a_view_evaluated_anew_follows_its_maps() {
    use Type::Int;
    let total = Step::Get { map: MapId(2), key: vec![], payload: vec![(0, Reg(2))] };
    let quarter = op(BinaryOp::Div, r(2), Expr::Int(4));
    let large = Step::RangeSum {
        map: MapId(1),
        prefix: vec![],
        low: Bound::Excluded(quarter),
        high: Bound::Open,
        payload: vec![(0, Reg(3)), (1, Reg(4))],
    };
    let mut replace = add(0, vec![], vec![r(3), r(4)]);
    replace.steps = vec![total, large];
    replace.replace = true;
    let mut sorted = map(&[Int], &[Component::Int, Component::Int]);
    sorted.ordered = true;
    let weighted = || op(BinaryOp::Mul, r(0), r(1));
    let program = Program {
        relations: vec![base(&[Int]), derived(0, &[Int; 2], above_zero(1), vec![r(0)], &[Int])],
        maps: vec![map(&[], &[Component::Int; 2]), sorted, map(&[], &[Component::Int])],
        triggers: vec![
            trigger(
                &[Int; 5],
                vec![
                    add(1, vec![r(0)], vec![weighted(), r(1)]),
                    add(2, vec![], vec![weighted()]),
                    replace,
                ],
            ),
            Trigger::default(),
        ],
        output: RelationId(1),
        ..Program::default()
    };
    for executor in ALL {
        let mut engine = engine(&program, executor);
        let mut held: Vec<i64> = Vec::new();
        for step in 0..300_i64 {
            let value = step * 7919 % 50 + 1;
            if step % 3 == 2 {
                let value = held.swap_remove((value as usize) % held.len());
                apply(&mut engine, &[value], -1).expect("fits");
            } else {
                held.push(value);
                apply(&mut engine, &[value], 1).expect("fits");
            }
            let quarter = held.iter().sum::<i64>() / 4;
            let large: Vec<i64> = held.iter().copied().filter(|value| *value > quarter).collect();
            let expected: Vec<Vec<i64>> =
                if large.is_empty() { vec![] } else { vec![vec![large.iter().sum()]] };
            assert_eq!(rows(&mut engine), expected, "{executor:?} event {step}");
        }
        engine.check();
    }
}

#[test]
fn memory_is_bounded_and_the_event_that_meets_the_bound_fails() {
    for executor in ALL {
        let options = Options { executor, memory_bytes_max: Some(1 << 20) };
        let mut engine = Engine::new(sums_alone(), options).expect("sound");
        let mut refused = None;
        for key in 0..100_000 {
            if let Err(error) = apply(&mut engine, &[key, 1], 1) {
                refused = Some((key, error));
                break;
            }
            if key % 1000 == 0 {
                changes(&mut engine);
            }
        }
        let (key, error) = refused.expect("the bound is met");
        assert_eq!(error, ApplyError::MemoryBudget { bytes_max: 1 << 20 });
        assert!(key > 1000);
        assert_eq!(engine.statistics().maps[0].entries, key as u64);
        engine.check();
    }
}

/// The sums of [`sums`] without the parts that overflow.
fn sums_alone() -> Program {
    let mut program = sums();
    program.triggers[0].statements.truncate(1);
    program.triggers[1].statements.clear();
    program
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let check = |change: &dyn Fn(&mut Program), place: &str, problem: &str| {
        let mut program = sums();
        change(&mut program);
        let error = program.check().expect_err(problem);
        assert!(error.place.contains(place) && error.problem.contains(problem), "{error}");
    };
    let statement = |change: &'static dyn Fn(&mut Statement)| {
        move |program: &mut Program| change(&mut program.triggers[0].statements[0])
    };
    let first = "trigger of r, statement 1";
    check(&statement(&|s| s.key = vec![]), first, "0 values where 1 belong");
    check(&statement(&|s| s.add[0] = Expr::Wide(1)), first, "1 is Wide, not Int");
    check(&statement(&|s| s.add[0] = r(3)), first, "no register 3");
    check(&statement(&|s| s.target = MapId(9)), first, "no map 9");
    let get = |map| Step::Get { map: MapId(map), key: vec![r(0)], payload: vec![] };
    let steps = |steps: Vec<Step>| {
        move |program: &mut Program| program.triggers[0].statements[0].steps = steps.clone()
    };
    check(&steps(vec![get(0)]), first, "must not read the target");
    let set = Step::Let { reg: Reg(0), value: Expr::Int(1) };
    check(&steps(vec![set]), first, "register 0 is the event's");
    let each = Step::Each {
        map: MapId(1),
        slice: Some(SliceId(0)),
        prefix: vec![],
        key: vec![],
        payload: vec![],
    };
    check(&steps(vec![each]), first, "no such slice");
    let range = Step::RangeSum {
        map: MapId(1),
        prefix: vec![],
        low: Bound::Open,
        high: Bound::Open,
        payload: vec![],
    };
    check(&steps(vec![range]), first, "not ordered");
    check(&|p| p.triggers[0].registers[2] = Type::Float, "trigger of r", "the weight");
    check(&|p| p.output = RelationId(0), "relations", "must be a derived relation");
    check(&|p| p.maps[0].slices = vec![vec![0]], "map m", "no slice");
    check(&|p| p.maps[1].ordered = true, "map m", "needs a key");
    check(
        &|p| {
            let backwards = add(0, vec![r(0)], vec![r(1), r(1)]);
            p.triggers[1].statements.push(backwards);
        },
        "derived relation d",
        "does not come before it",
    );
}

#[test]
fn programs_print_as_what_they_do() {
    let mut program = sums();
    program.triggers[0].statements[0].comment = "per group".into();
    let expected = "\
map m[int] -> Int Int
map m[] -> Int
map m[] -> Int

on r(r0 int, r1 int) times r2
  -- per group
  m[r0] += (r1 * r2), r2
  m[] += (r2 * (r1 * r1))

on d(r0 int) times r1, a row per group of m
  row (r0) if (r2 > 0)
  m[] += (r1 * 4611686018427387904)

view d(r0 int, r1 int, r2 int) times r3, a row per group of m
  row (r0, r1, r2) if (r2 > 0)
";
    assert_eq!(program.to_string(), expected);
}

#[test]
fn strings_have_numbers_that_stay() {
    let mut engine = engine(&sums(), Executor::Compiled);
    let numbers = ["a", "", "ä", "a"].map(|text| engine.intern(text));
    assert_eq!(numbers, [0, 1, 2, 0]);
    assert_eq!(engine.dictionary().text(2), "ä");
    assert_eq!(engine.dictionary().number("b"), None);
    assert!(engine.dictionary().memory_bytes() > 0 && engine.dictionary().len() == 3);
}

/// A trigger of many statements: one on each of 70 maps, which is more than registers alone can
/// take back, and `more` of them on the last map. Each has temporary values of its own.
fn many_statements(more: usize) -> Program {
    use Type::Int;
    let product = |a: Expr, b: Expr| op(BinaryOp::Mul, a, b);
    let statement = |target: u16, number: i64| {
        let shifted = op(BinaryOp::Add, r(0), Expr::Int(number % 7));
        let square = product(shifted.clone(), shifted.clone());
        let key = op(BinaryOp::Rem, square.clone(), Expr::Int(5));
        let value = op(BinaryOp::Sub, product(square, r(0)), product(shifted, r(1)));
        add(target, vec![key], vec![product(value, r(1))])
    };
    let first = (0..70).map(|number| statement(number, i64::from(number)));
    let rest = (0..more).map(|number| statement(69, number as i64));
    let statements = first.chain(rest).collect();
    Program {
        relations: vec![
            base(&[Int]),
            derived(0, &[Int; 2], above_zero(1), vec![r(0), r(1)], &[Int; 2]),
        ],
        maps: (0..70).map(|_| map(&[Int], &[Component::Int])).collect(),
        triggers: vec![trigger(&[Int; 2], statements), Trigger::default()],
        output: RelationId(1),
        ..Program::default()
    }
}

#[test]
fn a_statement_uses_the_registers_of_the_one_before() {
    // The first number of statements is small enough for machine code, the second too large.
    many_statements_agree(300, true, 1);
    many_statements_agree(2000, false, 2);
}

fn many_statements_agree(more: usize, native: bool, failing: usize) {
    let program = many_statements(more);
    let mut engines = ALL.map(|executor| engine(&program, executor));
    let is_native = cfg!(feature = "native") && native;
    assert_eq!(engines[2].machine_code().is_ok(), is_native, "{:?}", engines[2].machine_code());
    let mut failed = 0;
    // The third row's cube overflows; a sum on the last map overflows only after many statements.
    for row in [3, 5, 2_500_000, 300_000, 4, 3] {
        let results = engines.each_mut().map(|engine| apply(engine, &[row], 1));
        assert!(results.iter().all(|result| *result == results[0]), "event {row} {results:?}");
        failed += usize::from(results[0].is_err());
        for map in 0..70 {
            let [expected, found @ ..] = engines.each_ref().map(|engine| engine.entries(map));
            assert_eq!(found, [expected.clone(), expected], "map {map} after {row}");
        }
        engines.iter().for_each(Engine::check);
    }
    assert_eq!(failed, failing, "what is undone in part is part of the test");
}

#[test]
fn a_program_beyond_the_registers_is_refused() {
    // A sum of conditions: each needs a constant, and there are more of them than words.
    let unequal = |constant: i64| {
        Expr::Compare(CompareOp::Ne, Type::Int, Box::new(r(0)), Box::new(Expr::Int(constant)))
    };
    let mut program = many_statements(0);
    let refused = |program: &Program| match Engine::new(program.clone(), Options::default()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("accepted"),
    };
    program.triggers[0].statements[0].add = vec![Expr::And((0..5000).map(unequal).collect())];
    assert!(refused(&program).contains("words of registers"), "{}", refused(&program));
    // Sites have 16-bit numbers.
    let error = refused(&many_statements(70_000));
    assert!(error.contains("65536 can be numbered"), "{error}");
    // Runs of words side by side must fit the register file as well.
    let mut program = many_statements(0);
    program.maps[0].payload = vec![Component::Int; 70_000];
    program.triggers[0].statements[0].add = vec![Expr::Int(1); 70_000];
    assert!(refused(&program).contains("components are too many"), "{}", refused(&program));
    let mut program = many_statements(0);
    program.relations[0].columns = vec![Type::Int; 70_000];
    assert!(refused(&program).contains("side by side"), "{}", refused(&program));
}

/// NULL and integers at which the operators overflow or nearly do.
const EDGES: [i64; 11] = [
    NULL_INT,
    -i64::MAX,
    1 - i64::MAX,
    -(1 << 32),
    -1,
    0,
    1,
    1 << 31,
    1 << 62,
    i64::MAX - 1,
    i64::MAX,
];

/// Sums between all pairs of bounds, with keys among which are the first and the last possible
/// ones.
#[test]
fn ranges_end_where_keys_do() {
    use Type::Int;
    let bounds = |reg: u16| [Bound::Open, Bound::Included(r(reg)), Bound::Excluded(r(reg))];
    for (low, high) in (0..9).map(|number| (number / 3, number % 3)) {
        let sum = Step::RangeSum {
            map: MapId(1),
            prefix: vec![],
            low: bounds(0)[low].clone(),
            high: bounds(1)[high].clone(),
            payload: vec![(0, Reg(3))],
        };
        let mut of_range = add(0, vec![r(0), r(1)], vec![r(3)]);
        of_range.steps = vec![sum];
        let mut orders = map(&[Int], &[Component::Int]);
        orders.ordered = true;
        let program = Program {
            relations: vec![
                base(&[Int, Int]),
                base(&[Int, Int]),
                derived(0, &[Int; 3], Expr::Int(1), vec![r(0), r(1), r(2)], &[Int; 3]),
            ],
            maps: vec![map(&[Int, Int], &[Component::Int]), orders],
            triggers: vec![
                trigger(&[Int; 4], vec![of_range]),
                trigger(&[Int; 3], vec![add(1, vec![r(0)], vec![r(1)])]),
                Trigger::default(),
            ],
            output: RelationId(2),
            ..Program::default()
        };
        for executor in ALL {
            let mut engine = engine(&program, executor);
            for (bit, key) in EDGES.iter().enumerate() {
                let row = [*key as u64, 1 << bit];
                engine.apply(RelationId(1), &row, 1).expect("fits");
            }
            let mut expected = Vec::new();
            for (from, to) in EDGES.iter().flat_map(|from| EDGES.iter().map(move |to| (*from, *to)))
            {
                engine.apply(RelationId(0), &[from as u64, to as u64], 1).expect("fits");
                let meets = |key: i64| {
                    let above = [
                        key != NULL_INT,
                        key >= from && from != NULL_INT,
                        key > from && from != NULL_INT,
                    ];
                    let below = [true, key <= to && to != NULL_INT, key < to && to != NULL_INT];
                    key != NULL_INT && above[low] && below[high]
                };
                let keys = EDGES.iter().enumerate().filter(|(_, key)| meets(**key));
                let sum: i64 = keys.map(|(bit, _)| 1 << bit).sum();
                if sum != 0 {
                    expected.push(vec![from, to, sum]);
                }
            }
            expected.sort();
            assert_eq!(rows(&mut engine), expected, "{executor:?}, bounds {low} and {high}");
        }
    }
}

/// Every operator on every pair of operands near overflow: all executors give the same value or the
/// same error.
#[test]
fn scalars_agree_at_their_edges() {
    use BinaryOp::{Add, Div, DivRound, Mul, Rem, Sub};
    use Type::{Float, Int, Wide};
    let (a, b) = (|| Box::new(r(0)), || Box::new(r(1)));
    let wides = EDGES.iter().flat_map(|edge| match *edge {
        NULL_INT => [wide_words(i128::MIN), wide_words(i128::MAX)],
        edge => [wide_words(edge.into()), wide_words(i128::from(edge) << 64 | 5)],
    });
    let floats = [
        f64::from_bits(NULL_FLOAT_BITS),
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        1.5,
        -1e308,
        1e308,
        5e-324,
        8e25,
    ];
    let domain: [(Type, Vec<Vec<u64>>); 3] = [
        (Int, EDGES.iter().map(|edge| vec![*edge as u64]).collect()),
        (Wide, wides.collect()),
        (Float, floats.iter().map(|float| vec![float.to_bits()]).collect()),
    ];
    let mut outcomes = [0, 0];
    for (ty, operands) in domain {
        let binary =
            [Add, Sub, Mul, Div, DivRound, Rem].map(|op| (ty, Expr::Binary(op, ty, a(), b())));
        use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
        let compare = [Eq, Ne, Lt, Le, Gt, Ge].map(|op| Expr::Compare(op, ty, a(), b()));
        let chosen = compare.clone().map(|condition| {
            let when = vec![(condition, Expr::Int(7))];
            (Int, Expr::Case { ty: Int, when, otherwise: Box::new(Expr::Int(5)) })
        });
        let casts = [Int, Wide, Float].map(|to| (to, Expr::Cast { from: ty, to, value: a() }));
        let other = [
            (ty, Expr::Neg(ty, a())),
            (Int, Expr::IsNull(ty, a())),
            (Int, Expr::Not(Box::new(compare[2].clone()))),
            (Int, Expr::And(compare[..2].to_vec())),
            (Int, Expr::Or(compare[2..4].to_vec())),
            (ty, Expr::Coalesce(ty, vec![r(0), r(1)])),
        ];
        let compared = compare.map(|compare| (Int, compare));
        for (result, value) in
            binary.into_iter().chain(compared).chain(chosen).chain(casts).chain(other)
        {
            let component = match result {
                Int => Component::Int,
                Wide => Component::Wide,
                Float => Component::Float,
            };
            // The results by value: as a key of a hash map, as a key of a sorted map, and as a sum.
            let mut ordered = map(&[result], &[Component::Int]);
            ordered.ordered = true;
            let program = Program {
                relations: vec![
                    base(&[ty, ty]),
                    derived(0, &[result, Int, result], Expr::Int(1), vec![r(0)], &[result]),
                ],
                maps: vec![map(&[result], &[Component::Int, component]), ordered],
                triggers: vec![
                    trigger(
                        &[ty, ty, Int],
                        vec![
                            add(0, vec![value.clone()], vec![r(2), value.clone()]),
                            add(1, vec![value.clone()], vec![r(2)]),
                        ],
                    ),
                    Trigger::default(),
                ],
                output: RelationId(1),
                ..Program::default()
            };
            let mut engines = ALL.map(|executor| engine(&program, executor));
            for (x, y) in operands.iter().flat_map(|x| operands.iter().map(move |y| (x, y))) {
                let row = [&x[..], &y[..]].concat();
                let [expected, found @ ..] =
                    engines.each_mut().map(|engine| engine.apply(RelationId(0), &row, 1));
                outcomes[usize::from(expected.is_ok())] += 1;
                for found in found {
                    assert_eq!(found, expected, "{value} of {ty:?} {x:x?} {y:x?}");
                }
                for map in 0..2 {
                    let [expected, found @ ..] =
                        engines.each_ref().map(|engine| engine.entries(map));
                    assert_eq!(found, [expected.clone(), expected], "{value} of {x:x?} {y:x?}");
                }
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 500), "{outcomes:?}");
}

/// A function that panics does so through every executor, and the process goes on.
#[test]
fn panics_of_functions_unwind() {
    static NOT_FIVE: Function = Function::new(
        &["not_five"],
        "Its argument.",
        Takes { kinds: &[ArgumentKind::BigInt], optional: 0, any_number: false },
        Gives::Argument(0),
        |args, _| {
            assert_ne!(args.integer(0), Ok(5), "five");
            Ok(Answer::Value(args.value(0)))
        },
    );
    let call = Call::of(&NOT_FIVE, &[Some(halcyon_value::Type::Int64)]).expect("an integer");
    let call = Expr::Call { call: call.into(), args: vec![r(0)] };
    let mut program = sums_alone();
    program.triggers[0].statements.push(add(1, vec![], vec![call]));
    for executor in ALL {
        let options = Options { executor, ..Options::default() };
        let mut engine = Engine::new(program.clone(), options).expect("a sound program");
        apply(&mut engine, &[4, 1], 1).expect("fits");
        let panicked = AssertUnwindSafe(|| apply(&mut engine, &[5, 1], 1));
        let panic = std::panic::catch_unwind(panicked).expect_err("the function panics");
        let message = panic.downcast_ref::<String>().expect("of an assertion");
        assert!(message.contains("five"), "{message}");
    }
}

/// Words of a wide integer.
fn wide_words(value: i128) -> Vec<u64> {
    vec![value as u64, (value >> 64) as u64]
}
