//! Accounts in partitions, and transfers between them: what models and stress tests run.

#![allow(dead_code, reason = "each test binary uses its part")]

use halcyon_base::rng::Rng;
use halcyon_base::sync::Arc;
use halcyon_base::{PartitionId, RowId, SessionId};
use halcyon_store::{ColumnDef, Partition, Schema, Type, ValueRef};
use halcyon_txn::{
    CancelToken, Isolation, LockError, LockHandle, Manager, Mode, PartitionCell, Transaction,
    WaitLimits, cut,
};
use std::collections::BTreeMap;

/// What every account begins with.
pub const BALANCE: i64 = 1000;

/// Column with the number of an account, or of a receipt (negative).
pub const NUMBER: usize = 0;
/// Column with the balance of an account; 0 in a receipt.
pub const AMOUNT: usize = 1;

/// A bank: partitions of accounts. A transfer also leaves a receipt in each partition it
/// touches, so that a snapshot shows which transfers it holds, and where.
pub struct Bank {
    pub manager: Manager,
    pub cells: Vec<Arc<PartitionCell>>,
    pub accounts: u32,
}

pub fn accounts(id: u32, account_count: u32) -> Arc<PartitionCell> {
    Arc::new(PartitionCell::new(PartitionId(id), rows(account_count)))
}

/// Accounts from 0 on, each with [`BALANCE`].
pub fn rows(account_count: u32) -> Partition {
    let column = |ty| ColumnDef { ty, nullable: false };
    let schema = Schema::new(vec![column(Type::Int64), column(Type::Int64)]);
    let mut root = Partition::new(schema);
    for number in 0..account_count {
        let row = [ValueRef::Int64(i64::from(number)), ValueRef::Int64(BALANCE)];
        assert_eq!(root.insert(&row), Ok(RowId(number)));
    }
    root
}

pub fn int(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Int64(value) => value,
        other => panic!("{other:?} is no BIGINT"),
    }
}

pub fn amount(root: &Partition, row: RowId) -> i64 {
    int(root.row(row).expect("accounts are never deleted").value(AMOUNT))
}

/// Adds to an account under its exclusive lock.
pub fn add(transaction: &mut Transaction, lock: LockHandle, row: RowId, change: i64) {
    let before = amount(transaction.read(lock), row);
    let after = [ValueRef::Int64(before + change)];
    transaction.update(lock, row, &[AMOUNT as u16], &after).expect("no index, no conflict");
}

/// No limit but a token that nobody cancels.
pub fn patiently<R>(run: impl FnOnce(&WaitLimits<'_>) -> R) -> R {
    let cancel = CancelToken::new();
    run(&WaitLimits { timeout: None, cancel: &cancel })
}

/// What a transfer does at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    Commit,
    Rollback,
}

impl Bank {
    pub fn new(partition_count: u32, account_count: u32) -> Self {
        Bank {
            manager: Manager::new(),
            cells: (1..=partition_count).map(|id| accounts(id, account_count)).collect(),
            accounts: account_count,
        }
    }

    pub fn begin(&self, session: u32) -> Transaction {
        self.manager.begin(Isolation::Serializable, SessionId(session))
    }

    /// Moves an amount from one partition to another, each change a statement of its own, with
    /// a detour that is undone again, and leaves receipt `-number` in both. May be a deadlock.
    pub fn transfer(&self, session: u32, number: i64, rng: &mut Rng) -> Result<Ending, LockError> {
        let from = rng.below(self.cells.len() as u64) as usize;
        let to = (from + 1 + rng.below(self.cells.len() as u64 - 1) as usize) % self.cells.len();
        let row = |rng: &mut Rng| RowId(rng.below(u64::from(self.accounts)) as u32);
        let (from_row, to_row, sum) = (row(rng), row(rng), 1 + rng.below(10) as i64);
        let detour = rng.below(3) == 0;
        let ending = if rng.below(4) == 0 { Ending::Rollback } else { Ending::Commit };
        let mut transaction = self.begin(session);
        for (cell, row, change) in [(from, from_row, -sum), (to, to_row, sum)] {
            transaction.begin_statement();
            let lock = patiently(|limits| {
                if detour {
                    transaction.lock(&self.cells[cell], Mode::Shared, limits)?;
                }
                transaction.lock(&self.cells[cell], Mode::Exclusive, limits)
            })?;
            add(&mut transaction, lock, row, change);
            if detour {
                let savepoint = transaction.savepoint();
                add(&mut transaction, lock, row, 500);
                assert!(transaction.delete(lock, row));
                transaction.rollback_to(savepoint);
            }
            let receipt = [ValueRef::Int64(-number), ValueRef::Int64(0)];
            transaction.insert(lock, &receipt).expect("no index, no conflict");
            transaction.end_statement();
        }
        match ending {
            Ending::Commit => transaction.commit(),
            Ending::Rollback => transaction.rollback(),
        }
        Ok(ending)
    }

    /// Sums all accounts in a transaction that locks everything shared.
    pub fn audit(&self, session: u32) -> Result<i64, LockError> {
        let mut transaction = self.begin(session);
        let mut roots = Vec::new();
        for cell in &self.cells {
            transaction.begin_statement();
            let lock = patiently(|limits| transaction.lock(cell, Mode::Shared, limits))?;
            roots.push(transaction.root(lock));
            transaction.end_statement();
        }
        let sum = total(&roots);
        transaction.commit();
        Ok(sum)
    }

    pub fn expected_total(&self) -> i64 {
        BALANCE * i64::from(self.accounts) * self.cells.len() as i64
    }

    /// Takes a cut and checks that it holds each transfer wholly or not at all. Returns how many.
    pub fn check_cut(&self) -> usize {
        let roots = patiently(|limits| cut(&self.manager, &self.cells, limits));
        self.check_roots(&roots.expect("a patient cut ends"))
    }

    pub fn check_roots(&self, roots: &[triomphe::Arc<Partition>]) -> usize {
        assert_eq!(total(roots), self.expected_total(), "money was lost or made");
        let mut receipts = BTreeMap::<i64, usize>::new();
        let numbers = roots.iter().flat_map(|root| root.rows().map(|row| int(row.value(NUMBER))));
        numbers.filter(|&number| number < 0).for_each(|number| {
            *receipts.entry(number).or_default() += 1;
        });
        for (number, partition_count) in &receipts {
            assert_eq!(*partition_count, 2, "transfer {number} is in the cut in part");
        }
        receipts.len()
    }

    /// Checks that nobody holds or waits for anything, and all structures.
    pub fn check_quiet(&self) {
        self.manager.check();
        assert!(self.manager.transactions().is_empty());
        assert!(self.manager.locks(&self.cells).is_empty());
        self.cells.iter().for_each(|cell| cell.check());
    }
}

pub fn total(roots: &[triomphe::Arc<Partition>]) -> i64 {
    let amounts = roots.iter().flat_map(|root| root.rows().map(|row| int(row.value(AMOUNT))));
    amounts.sum()
}
