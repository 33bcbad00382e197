//! The outline of a plan, without the values that it looks for: two plans with equal outlines take
//! the same steps.

use std::mem::Discriminant;

use halcyon_base::{IndexId, TableId};

use super::PointPlan;
use super::access::{IndexPath, Path, Range};
use super::node::{Node, NodeKind};

/// The steps of a plan and the way each table is read, without constants and parameters.
#[derive(Debug, PartialEq, Eq)]
pub struct Outline {
    kinds: Vec<Discriminant<NodeKind>>,
    reads: Vec<Read>,
}

/// The way a table is read.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    table: TableId,
    /// Whether one partition is known to hold the rows.
    is_pinned: bool,
    index: Option<IndexRead>,
    /// Conditions left to be checked row by row.
    conditions: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct IndexRead {
    index: IndexId,
    prefix: usize,
    has_low: bool,
    has_high: bool,
    is_backward: bool,
}

impl PointPlan {
    /// The plan's outline.
    pub fn outline(&self) -> Outline {
        let mut kinds = vec![];
        self.nodes(&mut |node| kinds.push(std::mem::discriminant(&node.kind)));
        Outline { kinds, reads: self.reads() }
    }

    /// The way each table is read, in the order of the plan's nodes.
    fn reads(&self) -> Vec<Read> {
        let mut reads = vec![];
        self.nodes(&mut |node| reads.extend(self.read(node)));
        reads
    }

    /// Pairs of parameters, by their places from 0, that bound a range of an index from below and from
    /// above: how many rows such a range holds depends on the values.
    pub fn ranges_of_parameters(&self) -> Vec<(usize, usize)> {
        let mut ranges = vec![];
        self.nodes(&mut |node| {
            let NodeKind::Scan(scan) = &node.kind else { return };
            let Path::Index(IndexPath { range: Some(range), .. }) = &scan.access.path else {
                return;
            };
            let Range { low: Some(low), high: Some(high), .. } = range else { return };
            ranges.extend(low.probe.as_param().zip(high.probe.as_param()));
        });
        ranges
    }

    fn nodes(&self, visit: &mut dyn FnMut(&Node)) {
        fn below(node: &Node, visit: &mut dyn FnMut(&Node)) {
            visit(node);
            node.kind.inputs().into_iter().for_each(|input| below(input, visit));
        }
        self.subqueries.iter().for_each(|(node, _, _)| below(node, visit));
        below(&self.root, visit);
    }

    fn read(&self, node: &Node) -> Option<Read> {
        let NodeKind::Scan(scan) = &node.kind else { return None };
        let index = match &scan.access.path {
            Path::Full => None,
            Path::Index(path) => Some(IndexRead {
                index: path.index,
                prefix: path.prefix.len(),
                has_low: path.range.as_ref().is_some_and(|range| range.low.is_some()),
                has_high: path.range.as_ref().is_some_and(|range| range.high.is_some()),
                is_backward: path.is_backward(),
            }),
        };
        let table = self.tables[scan.table].id;
        let is_pinned = scan.access.pin.is_some();
        Some(Read { table, is_pinned, index, conditions: scan.conditions.len() })
    }
}
