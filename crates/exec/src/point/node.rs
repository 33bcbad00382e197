//! Nodes of a point plan: the tables read, and the steps that rows go through.

use super::access::{Access, Part, Path};
use super::aggregate::Rule;
use super::rel::{JoinKind, SortKey};
use halcyon_plan::scalar::Program;

/// A step of a plan. `id` counts its rows.
pub(super) struct Node {
    pub(super) id: usize,
    pub(super) kind: NodeKind,
}

/// What a node does with its inputs.
pub(super) enum NodeKind {
    Rows {
        rows: Vec<Vec<Program>>,
        slots: Vec<usize>,
    },
    Scan(ScanNode),
    Filter {
        input: Box<Node>,
        conditions: Vec<Program>,
    },
    Project {
        input: Box<Node>,
        defs: Vec<(usize, Program)>,
    },
    /// Runs the inner side for every row of the outer side.
    Loop {
        kind: JoinKind,
        outer: Box<Node>,
        inner: Box<Node>,
        inner_slots: Vec<usize>,
    },
    /// Runs the inner side once and keeps its rows by their keys, for the rows of the outer side.
    Hash(HashNode),
    Aggregate(AggregateNode),
    Sort {
        input: Box<Node>,
        keys: Vec<(usize, SortKey)>,
        fetch: Option<usize>,
        carry: Vec<usize>,
        state: usize,
    },
    Limit {
        input: Box<Node>,
        skip: Option<Program>,
        fetch: Option<Program>,
    },
    Distinct {
        input: Box<Node>,
        slots: Vec<usize>,
        state: usize,
    },
    Union {
        inputs: Vec<(Node, Vec<usize>)>,
        slots: Vec<usize>,
    },
}

/// Reads a table.
pub(super) struct ScanNode {
    pub(super) table: usize,
    pub(super) access: Access,
    /// Columns that conditions read.
    pub(super) early: Vec<(u16, usize)>,
    pub(super) conditions: Vec<Program>,
    /// Columns that are read of rows which pass.
    pub(super) late: Vec<(u16, usize)>,
    pub(super) row_id: Option<usize>,
}

/// A join that keeps the rows of its inner side in a table, since nothing of a row of the outer side helps to
/// find them in an index.
pub(super) struct HashNode {
    pub(super) kind: JoinKind,
    pub(super) outer: Box<Node>,
    pub(super) inner: Box<Node>,
    pub(super) keys: Vec<HashKey>,
    /// Slots that a row of the inner side gives back; none if it matters only that there is one.
    pub(super) carry: Vec<usize>,
    /// Conditions that hold for pairs that match, beside the equality of their keys.
    pub(super) conditions: Vec<Program>,
    pub(super) state: usize,
}

/// Values that are equal in both rows of a pair.
pub(super) struct HashKey {
    /// The value of the outer row.
    pub(super) outer: Program,
    /// Where the inner row has its own, of the same type.
    pub(super) inner: usize,
    /// Whether NULL equals NULL (IS NOT DISTINCT FROM); else it equals nothing.
    pub(super) nulls_equal: bool,
}

/// Folds its input into groups.
pub(super) struct AggregateNode {
    pub(super) input: Box<Node>,
    pub(super) groups: Vec<usize>,
    pub(super) aggregates: Vec<AggregateStep>,
    /// The input comes in the order of MIN's or MAX's argument: its first row decides.
    pub(super) first_only: bool,
    pub(super) state: usize,
}

pub(super) struct AggregateStep {
    pub(super) rule: Rule,
    pub(super) arg: Option<Program>,
    pub(super) filter: Option<Program>,
    pub(super) distinct: bool,
    pub(super) slot: usize,
}

impl NodeKind {
    /// The nodes that this one reads.
    pub(super) fn inputs(&self) -> Vec<&Node> {
        match self {
            NodeKind::Rows { .. } | NodeKind::Scan(_) => vec![],
            NodeKind::Filter { input, .. }
            | NodeKind::Project { input, .. }
            | NodeKind::Sort { input, .. }
            | NodeKind::Limit { input, .. }
            | NodeKind::Distinct { input, .. } => vec![input],
            NodeKind::Aggregate(aggregate) => vec![&aggregate.input],
            NodeKind::Loop { outer, inner, .. } => vec![outer, inner],
            NodeKind::Hash(hash) => vec![&hash.outer, &hash.inner],
            NodeKind::Union { inputs, .. } => inputs.iter().map(|(input, _)| input).collect(),
        }
    }
}

impl ScanNode {
    /// Whether the node is one lookup in a unique index, without further conditions.
    pub(super) fn is_plain_lookup(&self) -> bool {
        let Path::Index(path) = &self.access.path else { return false };
        let one = |part: &Part| matches!(part, Part::One(_));
        path.unique && path.prefix.iter().all(one) && self.conditions.is_empty()
    }
}
