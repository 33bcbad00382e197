use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::error::TextProblem;
use crate::{Interval, calendar};

/// The type of a value; decimals are taken to have two places.
fn type_of(value: &ValueRef<'_>) -> Option<Type> {
    use Type as T;
    let plain = [
        T::Bool,
        T::Int16,
        T::Int32,
        T::Int64,
        T::Float32,
        T::Float64,
        T::Decimal { precision: 9, scale: 2 },
        T::Text,
        T::Bytes,
        T::Date,
        T::Time,
        T::Timestamp,
        T::TimestampTz,
        T::Interval,
        T::Uuid,
    ];
    if value.is_null() { None } else { plain.into_iter().find(|ty| ty.holds(value)) }
}

fn call(name: &str, args: &[ValueRef<'_>]) -> Result<Value> {
    assert!(named(name).next().is_some(), "{name}");
    let types: Vec<_> = args.iter().map(type_of).collect();
    let call = Call::named(name, &types).ok_or(ValueError::Mismatch("no row"))?;
    call.value(args)
}

fn made(text: &str) -> Value {
    Value::Text(text.into())
}

#[test]
fn rows_are_sound() {
    let rows: Vec<&Function> = all().collect();
    for (at, function) in rows.iter().enumerate() {
        let Takes { kinds, optional, any_number } = function.takes;
        assert!(!any_number || kinds.len() == 1, "{function:?}");
        assert!(optional < kinds.len(), "{function:?}");
        assert!(function.purpose.ends_with('.'), "{function:?}");
        for name in function.names {
            assert_eq!(name.to_lowercase(), *name);
        }
        for other in &rows[..at] {
            let shared = other.names.iter().any(|name| function.names.contains(name));
            assert!(!shared || other.takes.kinds != kinds, "{function:?} is there twice");
            assert!(
                !shared || other.names == function.names || other.takes.kinds.len() != kinds.len()
            );
        }
    }
}

#[test]
fn functions_mean_what_they_say() {
    let t = ValueRef::Text;
    let (i, l) = (ValueRef::Int32, ValueRef::Int64);
    let noon = ValueRef::Timestamp(calendar::DAY_US / 2);
    let span = ValueRef::Interval(Interval { months: 1, days: 2, nanos: 0 });
    let days = |days| Interval { days, ..Interval::default() };
    let interval = |months, days, nanos| Value::Interval(Interval { months, days, nanos });
    let back = Interval { nanos: -calendar::US_NS, ..Interval::default() };
    let bytes = ValueRef::Bytes;
    let cases: &[Case<'_>] = &[
        ("textcat", &[t("a"), t("b")], made("ab")),
        ("concat", &[t("a"), ValueRef::Null, t("b")], made("ab")),
        ("lower", &[t("ÄB")], made("äb")),
        ("upper", &[t("äb")], made("ÄB")),
        ("char_length", &[t("äö")], Value::Int32(2)),
        ("octet_length", &[t("äö")], Value::Int32(4)),
        ("substring", &[t("abc"), l(2), l(1)], made("b")),
        ("substr", &[t("abc"), l(2)], made("bc")),
        ("left", &[t("abc"), l(-1)], made("ab")),
        ("right", &[t("abc"), l(1)], made("c")),
        ("trim", &[t(" a ")], made("a")),
        ("ltrim", &[t("xa"), t("x")], made("a")),
        ("rtrim", &[t("ax"), t("x")], made("a")),
        ("replace", &[t("abab"), t("a"), t("x")], made("xbxb")),
        ("replace", &[t("ab"), t(""), t("x")], made("ab")),
        ("position", &[t("abc"), t("c")], Value::Int32(3)),
        ("starts_with", &[t("abc"), t("ab")], Value::Bool(true)),
        ("like_escape", &[t("a!%"), t("!")], made("a\\%")),
        ("similar_parts", &[t("%#\"o_b#\"%"), t("#")], made("^(?:(?s:.*?))(o(?s:.)b)(?:(?s:.*))$")),
        ("extract_refused", &[ValueRef::Null, noon], Value::Null),
        ("similar_to_escape", &[t("a%")], made("^(?:a(?s:.*))$")),
        ("abs", &[ValueRef::Int16(-3)], Value::Int16(3)),
        ("abs", &[ValueRef::Decimal(-3)], Value::Decimal(3)),
        ("abs", &[ValueRef::Float32(-1.5)], Value::Float32(1.5)),
        ("floor", &[ValueRef::Float64(-1.5)], Value::Float64(-2.0)),
        ("ceil", &[ValueRef::Float32(-1.5)], Value::Float32(-1.0)),
        ("floor", &[ValueRef::Decimal(-101)], Value::Decimal(-200)),
        ("ceil", &[ValueRef::Decimal(-101)], Value::Decimal(-100)),
        ("round", &[ValueRef::Float64(-3.5)], Value::Float64(-4.0)),
        ("round", &[ValueRef::Decimal(250)], Value::Decimal(300)),
        ("round", &[ValueRef::Decimal(-255), i(1)], Value::Decimal(-260)),
        ("round", &[ValueRef::Decimal(4999), i(-2)], Value::Decimal(0)),
        ("round", &[ValueRef::Decimal(4999), i(7)], Value::Decimal(4999)),
        ("round", &[ValueRef::Decimal(4999), i(i32::MIN)], Value::Decimal(0)),
        ("trunc", &[ValueRef::Float64(-2.5)], Value::Float64(-2.0)),
        ("trunc", &[ValueRef::Decimal(-299)], Value::Decimal(-200)),
        ("trunc", &[ValueRef::Decimal(-299), l(1)], Value::Decimal(-290)),
        ("bitwise_not", &[l(0)], Value::Int64(-1)),
        ("coalesce", &[ValueRef::Null, i(1), i(2)], Value::Int32(1)),
        ("nullif", &[i(1), i(1)], Value::Null),
        ("nullif", &[i(1), ValueRef::Null], Value::Int32(1)),
        ("greatest", &[i(1), ValueRef::Null, i(2)], Value::Int32(2)),
        ("least", &[t("b"), t("a")], made("a")),
        ("least", &[ValueRef::Null], Value::Null),
        ("extract_whole", &[t("dow"), noon], Value::Int32(4)),
        ("extract_fraction", &[t("second"), ValueRef::Time(7)], Value::Decimal(7)),
        ("date_trunc", &[t("day"), noon], Value::Timestamp(0)),
        (
            "timestamp_difference",
            &[noon, ValueRef::Timestamp(0)],
            interval(0, 0, calendar::DAY_NS / 2),
        ),
        ("time_difference", &[ValueRef::Time(1), ValueRef::Time(3)], interval(0, 0, -2_000)),
        ("interval_multiply", &[span, ValueRef::Float64(2.0)], interval(2, 4, 0)),
        ("interval_divide", &[span, ValueRef::Float32(0.5)], interval(2, 4, 0)),
        ("overlay", &[t("abcd"), t("X"), l(2), l(2)], made("aXd")),
        ("overlay", &[t("abcd"), t("XYZ"), l(2)], made("aXYZ")),
        ("num_nulls", &[i(1), ValueRef::Null], Value::Int32(1)),
        ("num_nonnulls", &[i(1), t("a"), ValueRef::Null], Value::Int32(2)),
        ("div", &[ValueRef::Decimal(-750), ValueRef::Decimal(200)], Value::Decimal(-3)),
        ("gcd", &[i(-12), i(18)], Value::Int32(6)),
        ("gcd", &[l(0), l(0)], Value::Int64(0)),
        ("lcm", &[i(-4), i(6)], Value::Int32(12)),
        ("lcm", &[l(0), l(5)], Value::Int64(0)),
        ("gcd", &[ValueRef::Decimal(750), ValueRef::Decimal(500)], Value::Decimal(250)),
        ("lcm", &[ValueRef::Decimal(-750), ValueRef::Decimal(500)], Value::Decimal(1500)),
        ("scale", &[ValueRef::Decimal(750)], Value::Int32(2)),
        ("min_scale", &[ValueRef::Decimal(750)], Value::Int32(1)),
        ("isfinite", &[noon], Value::Bool(true)),
        ("factorial", &[l(5)], Value::Decimal(120)),
        (
            "width_bucket",
            &[ValueRef::Decimal(500), ValueRef::Decimal(0), ValueRef::Decimal(1000), i(5)],
            Value::Int32(3),
        ),
        (
            "width_bucket",
            &[ValueRef::Float64(11.0), ValueRef::Float64(10.0), ValueRef::Float64(0.0), i(5)],
            Value::Int32(0),
        ),
        ("hashtext", &[t("abc")], Value::Int32(-785_388_649)),
        ("hashtextextended", &[t("abc"), l(7)], Value::Int64(1_967_049_030_278_966_041)),
        ("bytes_length", &[ValueRef::Bytes(&[1, 2])], Value::Int32(2)),
        ("bytes_substr", &[bytes(&[1, 2, 3]), l(2), l(1)], Value::Bytes(vec![2])),
        ("bytes_substr", &[bytes(&[1, 2, 3]), l(-1), l(3)], Value::Bytes(vec![1])),
        ("bytes_btrim", &[bytes(&[0, 1, 0]), bytes(&[0])], Value::Bytes(vec![1])),
        ("bytes_ltrim", &[bytes(&[0, 1, 0]), bytes(&[0])], Value::Bytes(vec![1, 0])),
        ("bytes_rtrim", &[bytes(&[0, 1, 0]), bytes(&[0])], Value::Bytes(vec![0, 1])),
        ("bytes_position", &[bytes(&[1, 2, 3]), bytes(&[2, 3])], Value::Int32(2)),
        ("bytes_position", &[bytes(&[1]), bytes(&[2])], Value::Int32(0)),
        ("bytes_overlay", &[bytes(&[1, 2, 3]), bytes(&[9]), l(2)], Value::Bytes(vec![1, 9, 3])),
        ("bit_count", &[ValueRef::Bytes(&[3, 255])], Value::Int64(10)),
        ("get_byte", &[ValueRef::Bytes(&[3, 255]), i(1)], Value::Int32(255)),
        ("get_bit", &[ValueRef::Bytes(&[3, 1]), l(8)], Value::Int32(1)),
        ("set_byte", &[ValueRef::Bytes(&[3, 1]), i(0), i(7)], Value::Bytes(vec![7, 1])),
        ("set_bit", &[ValueRef::Bytes(&[3, 1]), l(0), i(0)], Value::Bytes(vec![2, 1])),
        ("to_char", &[noon, t("YYYY-MM-DD HH12:MI AM")], made("1970-01-01 12:00 PM")),
        ("to_char", &[span, t("MM DD")], made("01 02")),
        ("to_char", &[i(-12), t("999")], made(" -12")),
        ("to_char", &[ValueRef::Decimal(1250), t("FM99.90")], made("12.50")),
        ("to_char", &[ValueRef::Float64(1.5), t("9.99")], made(" 1.50")),
        ("to_date", &[t("28 Feb 1970"), t("DD Mon YYYY")], Value::Date(58)),
        (
            "to_number",
            &[t("-1,234.5"), t("9,999.9")],
            Value::Decimal(-1_234_500_000_000_000_000_000),
        ),
        ("age", &[noon, ValueRef::Timestamp(0)], interval(0, 0, calendar::DAY_NS / 2)),
        ("justify_days", &[ValueRef::Interval(days(40))], interval(1, 10, 0)),
        (
            "justify_hours",
            &[ValueRef::Interval(Interval { nanos: 2 * calendar::DAY_NS, ..days(1) })],
            interval(0, 3, 0),
        ),
        ("justify_interval", &[ValueRef::Interval(days(-31))], interval(-1, -1, 0)),
        (
            "interval_trunc",
            &[t("month"), ValueRef::Interval(Interval { months: 1, days: 2, nanos: 3 })],
            interval(1, 0, 0),
        ),
        (
            "time_add",
            &[ValueRef::Time(0), ValueRef::Interval(back)],
            Value::Time(calendar::DAY_US - 1),
        ),
        ("time_subtract", &[ValueRef::Time(1), ValueRef::Interval(back)], Value::Time(2)),
        (
            "date_bin",
            &[ValueRef::Interval(days(1)), noon, ValueRef::Timestamp(1)],
            Value::Timestamp(1),
        ),
        ("seconds_rounded", &[ValueRef::Time(1_500_000), i(0)], Value::Time(2_000_000)),
        // Before the year 2000 halves go down.
        ("seconds_rounded", &[ValueRef::Timestamp(1_500_000), i(0)], Value::Timestamp(1_000_000)),
        ("make_date", &[i(1970), i(2), i(1)], Value::Date(31)),
        ("make_time", &[i(0), i(1), ValueRef::Float64(0.5)], Value::Time(60_500_000)),
        (
            "make_timestamp",
            &[i(1970), i(1), i(1), i(0), i(0), ValueRef::Float64(1.5)],
            Value::Timestamp(1_500_000),
        ),
        ("make_interval", &[i(1), i(2), i(1), i(3)], interval(14, 10, 0)),
    ];
    for (name, args, expected) in cases {
        assert_eq!(call(name, args).as_ref(), Ok(expected), "{name}({args:?})");
    }
    #[cfg(feature = "math")]
    for (name, args, expected) in OF_DOUBLES {
        let args: Vec<_> = args.iter().copied().map(ValueRef::Float64).collect();
        assert_eq!(call(name, &args), Ok(Value::Float64(*expected)), "{name}({args:?})");
    }
    // Every row of the table is called above.
    for function in TABLES.iter().copied().flatten() {
        let called = cases.iter().any(|(name, args, _)| {
            let types: Vec<_> = args.iter().map(type_of).collect();
            Call::named(name, &types).is_some_and(|call| call.function() == function)
                || args.iter().any(ValueRef::is_null) && function.names.contains(name)
        });
        assert!(called, "{}", function.name());
    }
}

#[test]
fn null_and_wrong_arguments() {
    let text = ValueRef::Text("a");
    assert_eq!(call("lower", &[ValueRef::Null]), Ok(Value::Null));
    assert_eq!(call("textcat", &[text, ValueRef::Null]), Ok(Value::Null));
    assert_eq!(call("lower", &[ValueRef::Int32(1)]), Err(ValueError::Mismatch("no row")));
    assert_eq!(call("substr", &[text]), Err(ValueError::Mismatch("no row")));
    assert_eq!(call("concat", &[]), Err(ValueError::Mismatch("no row")));
    let one = ValueRef::Int32(1);
    assert_eq!(
        call("substr", &[text, ValueRef::Int64(1), ValueRef::Int64(-1)]),
        Err(ValueError::NegativeLength)
    );
    let far = Err(ValueError::OutOfRange("smallint"));
    assert_eq!(call("abs", &[ValueRef::Int16(i16::MIN)]), far);
    let field = Err(ValueError::text(TextProblem::Field, "timestamp", "dow"));
    assert_eq!(call("extract_whole", &[ValueRef::Text("dow"), ValueRef::Time(1)]), field);
    assert_eq!(call("date_trunc", &[ValueRef::Text("dow"), ValueRef::Timestamp(1)]), field);
    assert!(named("nextval").next().is_none());
    // A call is made for types; values of other types are an error.
    let lower = Call::named("lower", &[None]).expect("NULL is a text");
    assert_eq!(lower.value(&[one]), Err(ValueError::Mismatch("lower")));
}

/// A case: function, arguments, and the expected value.
type Case<'a> = (&'static str, &'a [ValueRef<'a>], Value);

#[test]
fn calls_have_the_types_of_their_row() {
    let decimal = |scale| Type::Decimal { precision: 9, scale };
    let call = |name, args: &[Type]| {
        let args: Vec<_> = args.iter().copied().map(Some).collect();
        Call::named(name, &args).map(|call| (call.args().to_vec(), call.result()))
    };
    let same = |args: &[Type], result| Some((args.to_vec(), result));
    assert_eq!(call("abs", &[Type::Int16]), same(&[Type::Int16], Type::Int16));
    assert_eq!(call("bitwise_not", &[Type::Int16]), same(&[Type::Int64], Type::Int64));
    assert_eq!(call("round", &[decimal(2)]), same(&[decimal(2)], decimal(2)));
    assert_eq!(call("round", &[Type::Float32]), same(&[Type::Float32], Type::Float32));
    assert_eq!(call("greatest", &[Type::Date, Type::Int32]), None);
    assert_eq!(call("lower", &[Type::Int32]), None);
    assert_eq!(call("concat", &[]), None);
    // The planner may know how many places a rounded decimal keeps.
    let places = Call::exact("round", &[decimal(4), Type::Int32], decimal(1)).expect("a decimal");
    assert_eq!(
        places.value(&[ValueRef::Decimal(12_555), ValueRef::Int32(1)]),
        Ok(Value::Decimal(13))
    );
    assert_eq!(Call::exact("round", &[decimal(4), Type::Int32], Type::Int32), None);
    assert_eq!(Call::exact("bitwise_not", &[Type::Int16], Type::Int64), None);
}

#[cfg(feature = "math")]
const OF_DOUBLES: &[(&str, &[f64], f64)] = &[
    ("sqrt", &[2.25], 1.5),
    ("sign", &[-2.5], -1.0),
    ("cbrt", &[-27.0], -3.0),
    ("power", &[2.0, -1.0], 0.5),
    ("exp", &[0.0], 1.0),
    ("ln", &[1.0], 0.0),
    ("log", &[1000.0], 3.0),
    ("log", &[2.0, 8.0], 3.0),
    ("sin", &[0.0], 0.0),
    ("cos", &[0.0], 1.0),
    ("tan", &[0.0], 0.0),
    ("cot", &[0.0], f64::INFINITY),
    ("asin", &[0.0], 0.0),
    ("acos", &[1.0], 0.0),
    ("atan", &[0.0], 0.0),
    ("atan2", &[0.0, -1.0], core::f64::consts::PI),
    ("sinh", &[0.0], 0.0),
    ("cosh", &[0.0], 1.0),
    ("tanh", &[0.0], 0.0),
    ("asinh", &[0.0], 0.0),
    ("acosh", &[1.0], 0.0),
    ("atanh", &[0.0], 0.0),
    ("degrees", &[core::f64::consts::PI], 180.0),
    ("radians", &[180.0], core::f64::consts::PI),
    ("sind", &[-30.0], -0.5),
    ("cosd", &[420.0], 0.5),
    ("tand", &[135.0], -1.0),
    ("cotd", &[45.0], 1.0),
    ("asind", &[0.5], 30.0),
    ("acosd", &[-0.5], 120.0),
    ("atand", &[1.0], 45.0),
    ("atan2d", &[-1.0, -1.0], -135.0),
];

/// As in `functions_mean_what_they_say`, for the rows of `doubles`.
#[cfg(feature = "math")]
#[test]
fn every_function_of_doubles_is_called() {
    for function in doubles::FUNCTIONS {
        let of = |(name, args, _): &&(&str, &[f64], f64)| {
            function.names.contains(name) && function.takes.count(args.len())
        };
        assert!(OF_DOUBLES.iter().any(|case| of(&case)), "{function:?}");
    }
}

#[cfg(feature = "math")]
#[test]
fn functions_of_doubles_refuse_what_has_no_value() {
    let refused = |name: &str, args: &[f64]| {
        let args: Vec<_> = args.iter().copied().map(ValueRef::Float64).collect();
        let error = call(name, &args).expect_err(name);
        (error.state(), alloc::format!("{error}"))
    };
    let cases: &[(&str, &[f64], &[u8; 5], &str)] = &[
        ("sqrt", &[-1.0], b"2201F", "cannot take square root of a negative number"),
        ("power", &[0.0, -1.0], b"2201F", "zero raised to a negative power is undefined"),
        (
            "power",
            &[-1.0, 0.5],
            b"2201F",
            "a negative number raised to a non-integer power yields a complex result",
        ),
        ("power", &[10.0, 400.0], b"22003", "value out of range: overflow"),
        ("power", &[10.0, -400.0], b"22003", "value out of range: underflow"),
        ("exp", &[1000.0], b"22003", "value out of range: overflow"),
        ("exp", &[-1000.0], b"22003", "value out of range: underflow"),
        ("ln", &[0.0], b"2201E", "cannot take logarithm of zero"),
        ("log10", &[-1.0], b"2201E", "cannot take logarithm of a negative number"),
        ("log", &[1.0, 2.0], b"22012", "division by zero"),
        ("sin", &[f64::INFINITY], b"22003", "input is out of range"),
        ("acos", &[1.5], b"22003", "input is out of range"),
        ("acosh", &[0.5], b"22003", "input is out of range"),
        ("degrees", &[1e308], b"22003", "value out of range: overflow"),
    ];
    for (name, args, state, message) in cases {
        assert_eq!(refused(name, args), (**state, (*message).into()), "{name}({args:?})");
    }
    // A function raises no other errors than its row names.
    for (name, args, state, message) in cases {
        let listed = named(name).flat_map(|row| row.errors);
        let known = [ValueError::FloatOverflow, ValueError::DivisionByZero];
        let of_all = known.iter().any(|error| alloc::format!("{error}") == *message);
        let listed = listed.filter(|error| error.state == **state && error.message == *message);
        assert!(of_all || listed.count() > 0, "{name}({args:?})");
    }
    // Infinity and NaN go through, as PostgreSQL lets them.
    let double = |name: &str, x| call(name, &[ValueRef::Float64(x)]);
    assert_eq!(double("exp", f64::NEG_INFINITY), Ok(Value::Float64(0.0)));
    assert!(matches!(double("sqrt", f64::NAN), Ok(Value::Float64(value)) if value.is_nan()));
}
