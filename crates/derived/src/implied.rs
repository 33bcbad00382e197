//! Whether a row that satisfies a statement's conditions must satisfy the condition of an index.
//!
//! Sound, and complete for what programs write: the same condition, comparisons of one expression with
//! constants, lists of constants, IS NOT NULL by conditions that NULL fails, AND and OR. A parameter's
//! value is not known, so it proves no range.

use std::cmp::Ordering;

use halcyon_store::{Type, Value, ValueRef};

use halcyon_plan::scalar::{Compare, Function, Ir, compare_values, fit_type};

/// The slot of an index's expression that a slot of a statement corresponds to.
pub type Slots<'s> = dyn Fn(usize) -> Option<usize> + 's;

/// What proves the condition of an index.
pub struct Proof {
    /// Conditions that the index's condition says as well, by position: an index row satisfies them.
    pub repeated: Vec<usize>,
}

/// Proves each conjunct of a `predicate` from the conditions of a statement; `None` if one may fail.
pub fn prove(conditions: &[Ir], predicate: &[Ir], slots: &Slots<'_>) -> Option<Proof> {
    for wanted in predicate {
        if !conditions.iter().any(|known| implies(known, wanted, slots)) {
            return None;
        }
    }
    let repeats = |known: &Ir| predicate.iter().any(|wanted| known.is_same(wanted, slots));
    let repeated = (0..conditions.len()).filter(|at| repeats(&conditions[*at])).collect();
    Some(Proof { repeated })
}

/// Whether `wanted` is true wherever `known` is.
fn implies(known: &Ir, wanted: &Ir, slots: &Slots<'_>) -> bool {
    if known.is_same(wanted, slots) {
        return true;
    }
    match known {
        Ir::Or(parts) if !parts.is_empty() => {
            return parts.iter().all(|part| implies(part, wanted, slots));
        }
        Ir::And(parts) if parts.iter().any(|part| implies(part, wanted, slots)) => return true,
        Ir::InList { of, list, negated: false } if !list.is_empty() => {
            let each = |item: &Ir| {
                let (left, right) = (of.clone(), Box::new(item.clone()));
                implies(&Ir::Compare { op: Compare::Eq, left, right }, wanted, slots)
            };
            if list.iter().all(each) {
                return true;
            }
        }
        _ => {}
    }
    match wanted {
        Ir::And(parts) => parts.iter().all(|part| implies(known, part, slots)),
        Ir::Or(parts) => parts.iter().any(|part| implies(known, part, slots)),
        Ir::InList { of, list, negated: false } => list.iter().any(|item| {
            let (left, right) = (of.clone(), Box::new(item.clone()));
            implies(known, &Ir::Compare { op: Compare::Eq, left, right }, slots)
        }),
        Ir::IsNull { of, negated: true } => fails_for_null(known, of, slots),
        Ir::Compare { op, left, right } => {
            truth(known).is_some_and(|(of, value)| {
                is_equality_with(*op, left, right, value)
                    .is_some_and(|column| of.is_same(column, slots))
            }) || compares(known, (*op, left, right), slots)
        }
        Ir::Not(of) => says(known, of, false, slots),
        Ir::IsBool { of, want, negated: false } => says(known, of, *want, slots),
        Ir::IsBool { of, want, negated: true } => says(known, of, !*want, slots),
        wanted => says(known, wanted, true, slots),
    }
}

/// What a condition on a BOOLEAN says of its value, if it says nothing else.
fn truth(known: &Ir) -> Option<(&Ir, bool)> {
    match known {
        Ir::Not(of) => truth(of).map(|(of, value)| (of, !value)),
        Ir::IsBool { of, want, negated: false } => Some((of, *want)),
        Ir::Compare { op, left, right } => match (&**left, &**right) {
            (of, Ir::Const(Value::Bool(value), _)) | (Ir::Const(Value::Bool(value), _), of) => {
                match op {
                    Compare::Eq => Some((of, *value)),
                    Compare::NotEq => Some((of, !*value)),
                    _ => None,
                }
            }
            _ => None,
        },
        of => Some((of, true)),
    }
}

/// Whether a condition says that `of` is `value`.
fn says(known: &Ir, of: &Ir, value: bool, slots: &Slots<'_>) -> bool {
    truth(known).is_some_and(|(known, found)| found == value && known.is_same(of, slots))
}

/// The expression that a comparison says to be `value`.
fn is_equality_with<'i>(op: Compare, left: &'i Ir, right: &'i Ir, value: bool) -> Option<&'i Ir> {
    match (left, right) {
        (of, Ir::Const(Value::Bool(found), _)) | (Ir::Const(Value::Bool(found), _), of) => match op
        {
            Compare::Eq => (*found == value).then_some(of),
            Compare::NotEq => (*found != value).then_some(of),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a comparison with a constant implies another one of the same expression.
fn compares(known: &Ir, (wanted, left, right): (Compare, &Ir, &Ir), slots: &Slots<'_>) -> bool {
    let Ir::Compare { op, left: known_left, right: known_right } = known else { return false };
    let Some((known, of, from)) = with_constant(*op, known_left, known_right) else { return false };
    let Some((wanted, other, to)) = with_constant(wanted, left, right) else { return false };
    let comparable = match (from.1, to.1) {
        (Some(a), Some(b)) => fit_type(a, b),
        _ => false,
    };
    if !comparable || from.0.is_null() || to.0.is_null() || !of.is_same(other, slots) {
        return false;
    }
    follows(known, wanted, compare_values(from.0, to.0))
}

/// A constant and its type; None for a NULL of no type.
type Constant<'i> = (ValueRef<'i>, Option<Type>);

/// A comparison as one of an expression with a constant on the right.
fn with_constant<'i>(
    op: Compare,
    left: &'i Ir,
    right: &'i Ir,
) -> Option<(Compare, &'i Ir, Constant<'i>)> {
    match (left, right) {
        (of, Ir::Const(value, ty)) => Some((op, of, (value.as_ref(), *ty))),
        (Ir::Const(value, ty), of) => Some((op.flipped(), of, (value.as_ref(), *ty))),
        _ => None,
    }
}

/// Whether `x wanted b` follows from `x known a`, where `a` stands to `b` in this order.
fn follows(known: Compare, wanted: Compare, order: Ordering) -> bool {
    use Compare::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    use Ordering::{Equal, Greater, Less};
    match known {
        Eq => match wanted {
            Eq => order == Equal,
            NotEq => order != Equal,
            Lt => order == Less,
            LtEq => order != Greater,
            Gt => order == Greater,
            GtEq => order != Less,
        },
        NotEq => wanted == NotEq && order == Equal,
        Lt => matches!(wanted, Lt | LtEq | NotEq) && order != Greater,
        Gt => matches!(wanted, Gt | GtEq | NotEq) && order != Less,
        LtEq => match wanted {
            LtEq => order != Greater,
            Lt | NotEq => order == Less,
            _ => false,
        },
        GtEq => match wanted {
            GtEq => order != Less,
            Gt | NotEq => order == Greater,
            _ => false,
        },
    }
}

/// Whether a condition is not true where `of` is NULL.
fn fails_for_null(known: &Ir, of: &Ir, slots: &Slots<'_>) -> bool {
    match known {
        Ir::IsNull { of: inner, negated: true } => null_with(inner, of, slots),
        Ir::IsBool { of: inner, negated: false, .. } => null_with(inner, of, slots),
        Ir::Compare { left, right, .. } | Ir::Like { of: left, pattern: right, .. } => {
            null_with(left, of, slots) || null_with(right, of, slots)
        }
        Ir::InList { of: inner, .. } | Ir::Member { of: inner, .. } => null_with(inner, of, slots),
        Ir::And(parts) => parts.iter().any(|part| fails_for_null(part, of, slots)),
        Ir::Or(parts) => {
            !parts.is_empty() && parts.iter().all(|part| fails_for_null(part, of, slots))
        }
        Ir::Not(inner) => match &**inner {
            Ir::IsNull { of: inner, negated: false } => null_with(inner, of, slots),
            Ir::Compare { .. } | Ir::Like { .. } | Ir::InList { .. } => {
                fails_for_null(inner, of, slots)
            }
            inner => null_with(inner, of, slots),
        },
        known => null_with(known, of, slots),
    }
}

/// Whether an expression is NULL where `of` is.
fn null_with(expr: &Ir, of: &Ir, slots: &Slots<'_>) -> bool {
    if expr.is_same(of, slots) {
        return true;
    }
    match expr {
        Ir::Cast { of: inner, .. } | Ir::Neg(inner, _) => null_with(inner, of, slots),
        Ir::Arith { left, right, .. } | Ir::Shift { of: left, by: right, .. } => {
            null_with(left, of, slots) || null_with(right, of, slots)
        }
        Ir::Call { function, args, .. } if is_strict(*function) => {
            args.iter().any(|arg| null_with(arg, of, slots))
        }
        _ => false,
    }
}

/// Whether a function is NULL where an argument is.
fn is_strict(function: Function) -> bool {
    use Function::{Abs, Ceil, Floor, Left, Length, Lower, OctetLength, Replace, Right, Substr};
    use Function::{StartsWith, Trim, TrimEnd, TrimStart, Upper};
    matches!(
        function,
        Abs | Ceil
            | Floor
            | Left
            | Length
            | Lower
            | OctetLength
            | Replace
            | Right
            | StartsWith
            | Substr
            | Trim
            | TrimEnd
            | TrimStart
            | Upper
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column() -> Box<Ir> {
        Ir::Slot(7, Type::Int32).into()
    }

    fn number(value: i32) -> Ir {
        Ir::Const(Value::Int32(value), Some(Type::Int32))
    }

    fn compare(op: Compare, value: i32) -> Ir {
        Ir::Compare { op, left: column(), right: number(value).into() }
    }

    fn implied(known: Ir, wanted: Ir) -> bool {
        prove(&[known], &[wanted], &|slot| (slot == 7).then_some(7)).is_some()
    }

    #[test]
    fn comparisons_imply_what_holds_for_every_number() {
        use Compare::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let holds = |op: Compare, a: i32, b: i32| op.accepts(a.cmp(&b));
        let ops = [Eq, NotEq, Lt, LtEq, Gt, GtEq];
        for (known, wanted) in ops.iter().flat_map(|a| ops.iter().map(move |b| (*a, *b))) {
            for (from, to) in (0..4).flat_map(|a| (0..4).map(move |b| (a * 2, b * 2))) {
                let really = (-3..12).all(|x| !holds(known, x, from) || holds(wanted, x, to));
                let found = implied(compare(known, from), compare(wanted, to));
                assert!(!found || really, "x {known:?} {from} does not imply x {wanted:?} {to}");
                // Between 2 and 4 lies 3, so no neighbours are mistaken for gaps.
                assert!(found || !really, "x {known:?} {from} implies x {wanted:?} {to}");
            }
        }
    }

    #[test]
    fn lists_disjunctions_and_nulls() {
        let list = |values: &[i32]| Ir::InList {
            of: column(),
            list: values.iter().map(|value| number(*value)).collect(),
            negated: false,
        };
        let present = || Ir::IsNull { of: column(), negated: true };
        assert!(implied(list(&[1, 2]), list(&[1, 2, 3])));
        assert!(!implied(list(&[1, 4]), list(&[1, 2, 3])));
        assert!(implied(compare(Compare::Eq, 2), list(&[1, 2])));
        assert!(implied(list(&[3, 5]), compare(Compare::Gt, 2)));
        assert!(implied(compare(Compare::Lt, 2), present()));
        let either = Ir::Or(vec![compare(Compare::Lt, 2), compare(Compare::Gt, 9)]);
        assert!(implied(either.clone(), present()));
        assert!(implied(compare(Compare::Eq, 1), either.clone()));
        assert!(!implied(compare(Compare::Eq, 5), either));
        assert!(!implied(present(), compare(Compare::Gt, 0)));
        let param = Ir::Param(0, Type::Int32);
        let unknown = Ir::Compare { op: Compare::Eq, left: column(), right: param.into() };
        assert!(implied(unknown.clone(), present()));
        assert!(!implied(unknown, compare(Compare::Gt, 0)));
    }

    #[test]
    fn a_boolean_is_what_conditions_say_of_it() {
        let of = || Box::new(Ir::Slot(7, Type::Bool));
        let plain = || *of();
        let not = || Ir::Not(of());
        let is = |value: bool| Ir::Compare {
            op: Compare::Eq,
            left: of(),
            right: Ir::Const(Value::Bool(value), Some(Type::Bool)).into(),
        };
        for (known, wanted, holds) in [
            (plain(), is(true), true),
            (is(true), plain(), true),
            (not(), is(false), true),
            (is(false), not(), true),
            (plain(), not(), false),
            (plain(), Ir::IsBool { of: of(), want: true, negated: false }, true),
            (not(), Ir::IsBool { of: of(), want: true, negated: true }, true),
            (Ir::IsBool { of: of(), want: true, negated: true }, not(), false),
        ] {
            let text = format!("{known} and {wanted}");
            assert_eq!(implied(known, wanted), holds, "{text}");
        }
    }
}
