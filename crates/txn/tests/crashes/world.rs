//! A small database on a simulated disk, and what must hold of it after a crash.
//!
//! Transaction `n` moves an amount that follows from `n` between two accounts of two partitions,
//! and writes `n` into a third one. So from the numbers that are there follow all balances.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use halcyon_base::{PartitionId, RowId, SessionId};
use halcyon_store::{ColumnDef, Partition, Schema, Type, Value, ValueRef};
use halcyon_txn::{
    CancelToken, CatalogChange, Contents, Damage, Founding, Isolation, Log, LogError, LogOptions,
    Lsn, Manager, Mode, Pace, PartitionCell, Recovered, Storage, WaitLimits, cut_noting, recover,
};

use crate::disk::SimDisk;

const ACCOUNTS: i64 = 8;
const LEDGER: PartitionId = PartitionId(3);

fn schema() -> Arc<Schema> {
    let def = ColumnDef { ty: Type::Int64, nullable: false };
    Schema::new(vec![def, def])
}

/// From which account of partition 1 to which of partition 2 transaction `n` moves how much.
fn transfer(n: i64) -> (u32, u32, i64) {
    ((n * 7 % ACCOUNTS) as u32, (n * 3 % ACCOUNTS) as u32, n % 13 + 1)
}

/// What is told and done, outside the machine that crashes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Transactions that were sent and not refused.
    pub done: i64,
    /// The last that was acknowledged as durable.
    pub acknowledged: i64,
}

pub struct World {
    pub log: Arc<Log>,
    manager: Manager,
    cells: Vec<Arc<PartitionCell>>,
    id: u128,
    disk: SimDisk,
}

fn options() -> LogOptions {
    LogOptions { file_bytes: 2048, delay: Duration::from_millis(1) }
}

/// Makes a database; fails if the disk does.
pub fn make(disk: &SimDisk) -> bool {
    let mut partitions = Vec::new();
    for id in 1..=3 {
        let mut root = Partition::new(schema());
        if PartitionId(id) != LEDGER {
            for account in 0..ACCOUNTS {
                root.insert_unchecked(&[ValueRef::Int64(account), ValueRef::Int64(0)]);
            }
        }
        partitions.push((PartitionId(id), triomphe::Arc::new(root)));
    }
    let contents = Contents { id: 7, lsn: Lsn(64), catalog: b"0".to_vec(), partitions };
    contents.found(disk, Founding::New, &Pace::default()).is_ok()
}

/// What is on the disk, or why it cannot be read.
pub fn look(disk: &SimDisk) -> Result<Option<Recovered>, Damage> {
    recover(disk, 2, &|_| ())
}

impl World {
    /// Opens the database. None if the disk does not let it.
    pub fn open(disk: &SimDisk) -> Option<World> {
        let recovered = look(disk).ok()??;
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let log = Log::start(storage, recovered.id, recovered.log.end, options()).ok()?;
        let log = Arc::new(log);
        let cells = recovered.partitions.into_iter();
        let cells = cells.map(|(id, root)| Arc::new(PartitionCell::new(id, root))).collect();
        let manager = Manager::with_log(Some(log.clone()));
        Some(World { log, manager, cells, id: recovered.id, disk: disk.clone() })
    }

    fn cell(&self, id: PartitionId) -> &Arc<PartitionCell> {
        self.cells.iter().find(|cell| cell.id == id).expect("the partition is there")
    }

    /// Runs the next transaction; `wait` for its durability or not.
    pub fn transact(&mut self, told: &mut Told, wait: bool) -> Result<(), LogError> {
        let n = told.done + 1;
        let (from, to, amount) = transfer(n);
        let cancel = CancelToken::new();
        let limits = WaitLimits { timeout: None, cancel: &cancel };
        let mut tx = self.manager.begin(Isolation::Serializable, SessionId(1));
        tx.begin_statement();
        for (partition, row, change) in
            [(PartitionId(1), RowId(from), -amount), (PartitionId(2), RowId(to), amount)]
        {
            let lock = tx.lock(self.cell(partition), Mode::Exclusive, &limits).expect("it is free");
            let ValueRef::Int64(balance) = tx.read(lock).row(row).expect("an account").value(1)
            else {
                panic!("balances are numbers")
            };
            let now = [ValueRef::Int64(balance + change)];
            tx.update_unchecked(lock, row, &[1], &now);
        }
        let ledger = tx.lock(self.cell(LEDGER), Mode::Exclusive, &limits).expect("it is free");
        tx.insert_unchecked(ledger, &[ValueRef::Int64(n), ValueRef::Int64(amount)]);
        // Every tenth makes a partition, whose one row says which it was, and drops the one before.
        let mut change = None;
        if n % 10 == 0 {
            let id = PartitionId(100 + n as u32);
            let made = Arc::new(PartitionCell::new(id, Partition::new(schema())));
            let lock = tx.lock(&made, Mode::Exclusive, &limits).expect("nobody knows it");
            tx.insert_unchecked(lock, &[ValueRef::Int64(n), ValueRef::Int64(0)]);
            let before = PartitionId(100 + n as u32 - 10);
            let dropped: Vec<PartitionId> =
                self.cells.iter().map(|cell| cell.id).filter(|id| *id == before).collect();
            if let [before] = dropped[..] {
                tx.lock(self.cell(before), Mode::Exclusive, &limits).expect("it is free");
            }
            let catalog = n.to_string().into_bytes();
            let created = vec![made.clone()];
            let kept = (1..=3).map(PartitionId).collect();
            change = Some((CatalogChange { catalog, created, dropped, kept }, made));
        }
        tx.end_statement();
        let (change, made) = change.unzip();
        let dropped = change.as_ref().map_or(Vec::new(), |change| change.dropped.clone());
        let lsn = tx.try_commit(change)?;
        told.done = n;
        self.cells.retain(|cell| !dropped.contains(&cell.id));
        self.cells.extend(made);
        match wait {
            false => self.log.soon(),
            true => {
                self.log.wait(lsn)?;
                told.acknowledged = n;
            }
        }
        Ok(())
    }

    /// Writes a checkpoint, and lets go of the log before it.
    pub fn checkpoint(&self, told: Told) -> bool {
        let cancel = CancelToken::new();
        let limits = WaitLimits { timeout: None, cancel: &cancel };
        let cut = cut_noting(&self.manager, &self.cells, &limits, |_| self.log.end());
        let (roots, lsn) = cut.expect("nobody ends this wait");
        let partitions = self.cells.iter().map(|cell| cell.id).zip(roots).collect();
        let catalog = (told.done / 10 * 10).to_string().into_bytes();
        let contents = Contents { id: self.id, lsn, catalog, partitions };
        contents.write(&self.disk, &Pace::default()).is_ok() && self.log.drop_before(lsn).is_ok()
    }

    /// Rows can be read, whatever the disk does.
    pub fn reads(&self) -> bool {
        let mut tx = self.manager.begin(Isolation::Serializable, SessionId(2));
        tx.begin_statement();
        let lock = tx.try_lock(self.cell(LEDGER), Mode::Shared).expect("it is free");
        let rows = tx.read(lock).row_count();
        tx.end_statement();
        tx.rollback();
        rows < u64::MAX
    }
}

/// What is wrong with what was found, given what was told.
pub fn fault_of(found: &Recovered, told: Told) -> Option<String> {
    let rows = |id: PartitionId| -> Vec<(i64, i64)> {
        let number = |value: ValueRef<'_>| match value.to_owned() {
            Value::Int64(number) => number,
            other => panic!("{other:?}"),
        };
        let root = &found.partitions[&id];
        root.check();
        root.rows().map(|row| (number(row.value(0)), number(row.value(1)))).collect()
    };
    let mut numbers: Vec<i64> = rows(LEDGER).iter().map(|(n, _)| *n).collect();
    numbers.sort_unstable();
    let last = numbers.len() as i64;
    if numbers != (1..=last).collect::<Vec<_>>() {
        return Some(format!("there are gaps: {numbers:?}"));
    }
    if last < told.acknowledged {
        return Some(format!("{last} transactions are there, told was {told:?}"));
    }
    if last > told.done + 1 {
        return Some(format!("{last} transactions are there, sent were {told:?}"));
    }
    let mut expected: BTreeMap<(u32, u32), i64> = BTreeMap::new();
    for n in 1..=last {
        let (from, to, amount) = transfer(n);
        *expected.entry((1, from)).or_default() -= amount;
        *expected.entry((2, to)).or_default() += amount;
    }
    for partition in [1, 2] {
        for (account, balance) in rows(PartitionId(partition)) {
            let wanted = expected.get(&(partition, account as u32)).copied().unwrap_or(0);
            if balance != wanted {
                return Some(format!("account {partition}/{account} has {balance}, not {wanted}"));
            }
        }
    }
    let made = last / 10 * 10;
    if *found.catalog_changes.last().unwrap_or(&found.checkpoint_catalog)
        != made.to_string().into_bytes()
    {
        return Some(format!("the catalog is not that of transaction {made}"));
    }
    let extra: Vec<PartitionId> = found.partitions.keys().copied().skip(3).collect();
    let wanted: Vec<PartitionId> =
        (made > 0).then_some(PartitionId(100 + made as u32)).into_iter().collect();
    if extra != wanted || wanted.iter().any(|id| rows(*id) != [(made, 0)]) {
        return Some(format!("partitions {extra:?} are there, not {wanted:?}"));
    }
    None
}
