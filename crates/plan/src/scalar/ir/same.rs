//! Whether two expressions are the same but for the numbers of their slots.

use std::mem::discriminant;
use std::sync::Arc;

use super::Ir;

impl Ir {
    /// Whether both expressions compute the same from the same values. `slot`: the slot of `other` that a
    /// slot of this expression corresponds to, if any does.
    ///
    /// Syntactic: `a + b` and `b + a` differ. Functions of the execution are the same as nothing.
    pub fn is_same(&self, other: &Ir, slot: &dyn Fn(usize) -> Option<usize>) -> bool {
        if discriminant(self) != discriminant(other) || !self.agrees_alone(other, slot) {
            return false;
        }
        let (mut own, mut theirs) = (vec![], vec![]);
        self.for_each_child(&mut |child| own.push(child));
        other.for_each_child(&mut |child| theirs.push(child));
        own.len() == theirs.len()
            && own.iter().zip(theirs).all(|(own, theirs)| own.is_same(theirs, slot))
    }

    /// [`Ir::is_same`] without the operands, of expressions of one kind.
    fn agrees_alone(&self, other: &Ir, slot: &dyn Fn(usize) -> Option<usize>) -> bool {
        match (self, other) {
            (Ir::Slot(own, ty), Ir::Slot(theirs, other)) => {
                slot(*own) == Some(*theirs) && ty == other
            }
            (Ir::Const(own, ty), Ir::Const(theirs, other)) => own == theirs && ty == other,
            (Ir::Param(own, ty), Ir::Param(theirs, other)) => own == theirs && ty == other,
            (Ir::IsNull { negated: own, .. }, Ir::IsNull { negated: theirs, .. })
            | (Ir::Distinct { negated: own, .. }, Ir::Distinct { negated: theirs, .. })
            | (Ir::InList { negated: own, .. }, Ir::InList { negated: theirs, .. }) => {
                own == theirs
            }
            (
                Ir::IsBool { want: own, negated: yes, .. },
                Ir::IsBool { want: theirs, negated: no, .. },
            ) => (own, yes) == (theirs, no),
            (Ir::Compare { op: own, .. }, Ir::Compare { op: theirs, .. }) => own == theirs,
            (Ir::Arith { op: own, ty, .. }, Ir::Arith { op: theirs, ty: other, .. }) => {
                own == theirs && ty == other
            }
            (
                Ir::Shift { subtract: own, ty, .. },
                Ir::Shift { subtract: theirs, ty: other, .. },
            ) => own == theirs && ty == other,
            (Ir::Neg(_, own), Ir::Neg(_, theirs))
            | (Ir::Cast { ty: own, .. }, Ir::Cast { ty: theirs, .. })
            | (Ir::Case { ty: own, .. }, Ir::Case { ty: theirs, .. }) => own == theirs,
            (
                Ir::Like { escape: own, folded: yes, negated: not, .. },
                Ir::Like { escape: theirs, folded: no, negated: other, .. },
            ) => (own, yes, not) == (theirs, no, other),
            (Ir::Call { function: own, ty, .. }, Ir::Call { function: theirs, ty: other, .. }) => {
                own == theirs && ty == other
            }
            (Ir::Member { item: own, .. }, Ir::Member { item: theirs, .. }) => own == theirs,
            (Ir::TableCall { call: own, .. }, Ir::TableCall { call: theirs, .. }) => own == theirs,
            (Ir::Foreign(own), Ir::Foreign(theirs)) => {
                Arc::ptr_eq(own, theirs) || own.is_same_alone(theirs)
            }
            (Ir::Not(_), Ir::Not(_)) | (Ir::And(_), Ir::And(_)) | (Ir::Or(_), Ir::Or(_)) => true,
            _ => false,
        }
    }
}
