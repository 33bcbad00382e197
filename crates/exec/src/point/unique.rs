//! One row by the whole key of a unique index, without the general way of a point plan.

use std::sync::Arc;

use halcyon_base::RowId;
use halcyon_store::{KeyBuf, RowRef, ValueRef};
use halcyon_txn::Mode;
use smallvec::SmallVec;

use super::PointPlan;
use super::access::{Part, Path, Probe};
use super::node::{Node, NodeKind};
use halcyon_catalog::{Table, partition_of};
use halcyon_plan::env::{Env, Need, Roots};
use halcyon_plan::scalar::Arena;
use halcyon_sql::error::Result;
use halcyon_sql::rows::RowSink;

/// A plan that reads one row by the whole key of a unique index, and gives its columns, its row id
/// and values computed from them: the source of an UPDATE asks for these.
///
/// Beside a general point plan it saves closures, states, and the second copy of each value
/// (figures: docs/experiments/point.md).
pub(super) struct UniqueLookup {
    table: usize,
    index: halcyon_base::IndexId,
    pin: Option<usize>,
    nodes: Vec<usize>,
    output: Vec<Output>,
    key: Vec<KeyPart>,
}

/// A column of the result.
enum Output {
    /// A column of the table.
    Column(u16),
    /// The hidden column.
    RowId,
    /// A computed slot.
    Slot(usize),
}

/// The source of a key column's value: the quickest one that has it.
enum KeyPart {
    /// A parameter of the column's type.
    Param(usize),
    /// Anything else, as a scan would take it.
    Probe(Probe),
}

impl UniqueLookup {
    /// Recognises the plan: a scan, or what is computed from one.
    pub(super) fn of(
        node: &Node,
        output: &[usize],
        alone: bool,
        tables: &[Arc<Table>],
    ) -> Option<UniqueLookup> {
        let (scan_node, defs) = match &node.kind {
            NodeKind::Project { input, defs } => (&**input, &defs[..]),
            _ => (node, &[][..]),
        };
        let NodeKind::Scan(scan) = &scan_node.kind else { return None };
        let Path::Index(path) = &scan.access.path else { return None };
        if !alone || !scan.is_plain_lookup() {
            return None;
        }
        let table = &tables[scan.table];
        let output = output.iter().map(|slot| {
            if scan.row_id == Some(*slot) {
                return Some(Output::RowId);
            }
            if defs.iter().any(|(computed, _)| computed == slot) {
                return Some(Output::Slot(*slot));
            }
            let found = scan.late.iter().find(|(_, other)| other == slot);
            found.map(|(column, _)| Output::Column(*column))
        });
        let output = output.collect::<Option<Vec<Output>>>()?;
        let index = table.indexes.iter().find(|index| index.id == path.index)?;
        let pin = match table.partition_column().filter(|_| table.cells.len() > 1) {
            None => None,
            Some(column) => Some(index.columns.iter().position(|key| key.column == column)?),
        };
        let key = path.prefix.iter().map(|part| match part {
            Part::One(probe) if probe.known => Some(match probe.as_param() {
                Some(param) => KeyPart::Param(param),
                None => KeyPart::Probe(probe.clone()),
            }),
            _ => None,
        });
        let key = key.collect::<Option<Vec<KeyPart>>>()?;
        Some(UniqueLookup {
            table: scan.table,
            index: path.index,
            pin,
            nodes: vec![scan_node.id, node.id],
            output,
            key,
        })
    }

    /// The value of a key column; None if nothing can equal it.
    #[inline]
    fn value<'a>(
        &'a self,
        at: usize,
        env: &'a Env<'a>,
        arena: &'a Arena,
    ) -> Result<Option<ValueRef<'a>>> {
        match &self.key[at] {
            KeyPart::Param(param) => {
                Ok(Some(env.params[*param].as_ref()).filter(|value| !value.is_null()))
            }
            KeyPart::Probe(probe) => probe.exact(&[], env, arena),
        }
    }

    #[inline]
    pub(super) fn needs(
        &self,
        tables: &[Arc<Table>],
        env: &Env<'_>,
        mut add: impl FnMut(Need),
    ) -> Result<()> {
        let partition = match self.pin {
            None => Some(0),
            Some(pin) => {
                let (arena, count) = (Arena::new(), tables[self.table].cells.len() as u32);
                self.value(pin, env, &arena)?.map(|value| partition_of(value, count))
            }
        };
        if partition.is_some() {
            add(Need { table: self.table, partition, mode: Mode::Shared });
        }
        Ok(())
    }

    /// Values are gathered on the stack: taking a session's vectors out of their lifetime and back
    /// cost as much as looking the row up.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn run<'a>(
        &'a self,
        plan: &'a PointPlan,
        env: &'a Env<'a>,
        roots: Roots<'a>,
        arena: &'a Arena,
        key: &mut KeyBuf,
        sink: &mut dyn RowSink,
        counts: &mut [u64],
    ) -> Result<()> {
        let found = self.find(&plan.tables, env, roots, arena, key)?;
        let Some((partition, row)) = found else { return Ok(()) };
        self.nodes.iter().for_each(|node| counts[*node] = 1);
        let mut slots = Values::new();
        if let NodeKind::Project { input, defs } = &plan.root.kind {
            slots.resize(plan.slot_count, ValueRef::Null);
            if let NodeKind::Scan(scan) = &input.kind {
                for (column, slot) in &scan.late {
                    slots[*slot] = row.value(*column as usize);
                }
                if let Some(slot) = scan.row_id {
                    slots[slot] = row_id(partition, row.id());
                }
            }
            for (slot, program) in defs {
                slots[*slot] = program.eval(&slots, env, arena)?;
            }
        }
        let mut given = Values::new();
        given.extend(self.output.iter().map(|output| match output {
            Output::Column(column) => row.value(*column as usize),
            Output::RowId => row_id(partition, row.id()),
            Output::Slot(slot) => slots[*slot],
        }));
        sink.row(&given).map(|_| ())
    }

    #[inline]
    fn find<'a>(
        &'a self,
        tables: &[Arc<Table>],
        env: &'a Env<'a>,
        roots: Roots<'a>,
        arena: &'a Arena,
        key: &mut KeyBuf,
    ) -> Result<Option<(u32, RowRef<'a>)>> {
        let mut values = Values::new();
        for at in 0..self.key.len() {
            match self.value(at, env, arena)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        let number = match self.pin {
            None => 0,
            Some(pin) => partition_of(values[pin], tables[self.table].cells.len() as u32),
        };
        let partition = roots.partition(self.table, number);
        let index = partition.index(self.index).expect("the catalog's indexes exist");
        index.encode(&values, key);
        let row = index.get(key);
        let at = |row| partition.row(row).expect("an index names rows that exist");
        Ok(row.map(|row| (number, at(row))))
    }
}

/// The values of a row or a key.
type Values<'a> = SmallVec<[ValueRef<'a>; 16]>;

/// The hidden column: partition number in the upper half, row in the lower.
#[inline]
pub(crate) fn row_id(partition: u32, row: RowId) -> ValueRef<'static> {
    ValueRef::Int64((partition as i64) << 32 | row.0 as i64)
}
