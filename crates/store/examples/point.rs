//! Point operations on one partition of 1,000,000 rows, beside a `BTreeMap` of structs.
//!
//! Each line of output is a JSON object: arm, nanoseconds per operation, and "ok" if the sums over
//! what was read are those computed from the input. Run: `cargo run --release -p halcyon-store
//! --example point [rows]`. Single thread; keys in random order, so most reads miss the caches.

use arrow::array::{ArrayRef, AsArray, Decimal128Array, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use halcyon_base::rng::Rng;
use halcyon_base::{IndexId, RowId, clock};
use halcyon_machine::counters::thread_cpu_ns;
use halcyon_store::{
    ColumnDef, IndexDef, KeyBuf, KeyColumn, Partition, RowRef, Schema, Type, ValueRef,
};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

#[derive(Clone)]
struct Account {
    balance: i64,
    branch: i32,
    name: String,
}

const KEY: IndexId = IndexId(1);

fn partition() -> Partition {
    let types = [Type::Int64, Type::Int64, Type::Int32, Type::Text];
    let columns = types.map(|ty| ColumnDef { ty, nullable: false });
    let mut partition = Partition::new(Schema::new(columns.to_vec()));
    let columns = vec![KeyColumn { column: 0, descending: false, nulls_first: false }];
    let def = IndexDef { id: KEY, columns, derivation: None, unique: true, nulls_distinct: true };
    partition.add_index(def).expect("no row can conflict");
    partition
}

fn row(id: i64) -> Account {
    Account {
        balance: id * 3 % 1000,
        branch: (id % 100) as i32,
        name: format!("name {}", id % 5000),
    }
}

/// Time that this thread has had a core, in nanoseconds: other work on the machine adds less to it
/// than to the time of day. The monotonic clock where the system does not say.
fn cpu_ns() -> u64 {
    thread_cpu_ns().unwrap_or_else(|| clock::now().0)
}

/// Times `operations` calls and prints the result; `run` returns a sum that must be `expected`.
fn measure(arm: &str, operations: usize, expected: i64, run: impl FnOnce() -> i64) {
    let start = cpu_ns();
    let sum = black_box(run());
    let ns = (cpu_ns() - start) as f64 / operations as f64;
    let check = if sum == expected { "ok".into() } else { format!("sum {sum}, not {expected}") };
    println!(
        r#"{{"experiment": "store-point", "arm": "{arm}", "ns": {ns:.2}, "check": "{check}"}}"#
    );
    assert_eq!(sum, expected, "{arm}");
}

fn find(partition: &Partition, key: &mut KeyBuf, id: i64) -> RowId {
    let index = partition.index(KEY).expect("added at the start");
    index.encode(&[ValueRef::Int64(id)], key);
    index.get(key).expect("every id is there")
}

fn read(partition: &Partition, key: &mut KeyBuf, id: i64) -> i64 {
    let row = partition.row(find(partition, key, id)).expect("the index knows rows");
    let (ValueRef::Int64(balance), ValueRef::Int32(branch), ValueRef::Text(name)) =
        (row.value(1), row.value(2), row.value(3))
    else {
        unreachable!("types of the columns")
    };
    balance + branch as i64 + name.len() as i64
}

fn main() {
    let rows: i64 =
        std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number"));
    let count = rows as usize;
    let mut rng = Rng::new(1);
    let mut ids: Vec<i64> = (0..rows).collect();
    rng.shuffle(&mut ids);
    let sum_of = |row: &Account| row.balance + row.branch as i64 + row.name.len() as i64;
    let expected: i64 = (0..rows).map(|id| sum_of(&row(id))).sum();

    let source: Vec<Account> = (0..rows).map(row).collect();
    let insert = |partition: &mut Partition, id: i64| {
        let row = &source[id as usize];
        let values = [
            ValueRef::Int64(id),
            ValueRef::Int64(row.balance),
            ValueRef::Int32(row.branch),
            ValueRef::Text(&row.name),
        ];
        partition.insert(&values).expect("no key repeats");
    };
    let mut ascending = partition();
    measure("insert, ascending keys", count, rows, || {
        (0..rows).for_each(|id| insert(&mut ascending, id));
        ascending.row_count() as i64
    });
    let mut random = partition();
    measure("insert, random keys", count, rows, || {
        ids.iter().for_each(|&id| insert(&mut random, id));
        random.row_count() as i64
    });
    let mut map = BTreeMap::new();
    measure("insert, random keys, BTreeMap", count, rows, || {
        ids.iter().for_each(|&id| _ = map.insert(id, source[id as usize].clone()));
        map.len() as i64
    });
    rng.shuffle(&mut ids);

    let mut key = KeyBuf::new();
    for (arm, table) in [("after ascending", &ascending), ("after random", &random)] {
        measure(&format!("get and read 3 columns, {arm} inserts"), count, expected, || {
            ids.iter().map(|&id| read(table, &mut key, id)).sum()
        });
        measure(&format!("get only, {arm} inserts"), count, rows, || {
            ids.iter().map(|&id| (find(table, &mut key, id).0 != u32::MAX) as i64).sum()
        });
    }
    measure("get and read 3 columns, BTreeMap", count, expected, || {
        ids.iter().map(|id| sum_of(&map[id])).sum()
    });

    rng.shuffle(&mut ids);
    let mut row_ids: Vec<u32> = (0..rows as u32).collect();
    rng.shuffle(&mut row_ids);
    measure("update 1 column by row id", count, rows, || {
        for &row in &row_ids {
            ascending.update(RowId(row), &[1], &[ValueRef::Int64(7)]).expect("no key changes");
        }
        rows
    });
    measure("get and update 1 column", count, 8 * rows, || {
        for &id in &ids {
            let row = find(&ascending, &mut key, id);
            ascending.update(row, &[1], &[ValueRef::Int64(8)]).expect("no key changes");
        }
        ascending.rows().map(|row| if row.value(1) == ValueRef::Int64(8) { 8 } else { 0 }).sum()
    });
    measure("get and update, BTreeMap", count, 8 * rows, || {
        for id in &ids {
            map.get_mut(id).expect("every id is there").balance = 8;
        }
        map.values().map(|row| row.balance).sum()
    });
    let snapshot_start = clock::now();
    let snapshot = ascending.clone();
    let snapshot_ns = clock::now().since(snapshot_start).as_nanos();
    println!(
        r#"{{"experiment": "store-point", "arm": "snapshot", "ns": {snapshot_ns}, "check": "ok"}}"#
    );
    measure("get and update 1 column, first after a snapshot", count, 9 * rows, || {
        for &id in &ids {
            let row = find(&ascending, &mut key, id);
            ascending.update(row, &[1], &[ValueRef::Int64(9)]).expect("no key changes");
        }
        scan_sum(&ascending)
    });
    assert_eq!(scan_sum(&snapshot), 8 * rows, "the snapshot stays");
    drop(snapshot);
    measure("scan and sum 1 column", count, 9 * rows, || scan_sum(&ascending));
    measure("range scan over the index", count, rows, || {
        let index = ascending.index(KEY).expect("added at the start");
        index.prefix(&KeyBuf::new()).count() as i64
    });
    measure("delete", count, 0, || {
        row_ids.iter().for_each(|&row| _ = ascending.delete(RowId(row)));
        ascending.row_count() as i64
    });
    append(rows);
}

fn scan_sum(partition: &Partition) -> i64 {
    let numbers = partition.scan(&[1]);
    numbers
        .map(|batch| batch.columns[0].as_primitive::<Int64Type>().values().iter().sum::<i64>())
        .sum()
}

/// Bulk load in batches of 8,192 rows, as COPY makes them.
fn append(rows: i64) {
    let types = [
        Type::Int64,
        Type::Int64,
        Type::Decimal { precision: 15, scale: 2 },
        Type::Text,
        Type::Text,
    ];
    let columns = types.map(|ty| ColumnDef { ty, nullable: false });
    let mut partition = Partition::new(Schema::new(columns.to_vec()));
    let columns = vec![KeyColumn { column: 0, descending: false, nulls_first: false }];
    let def = IndexDef { id: KEY, columns, derivation: None, unique: true, nulls_distinct: true };
    partition.add_index(def).expect("no row can conflict");
    let batches: Vec<Vec<ArrayRef>> = (0..rows)
        .step_by(8192)
        .map(|start| {
            let ids = start..(start + 8192).min(rows);
            let money = Decimal128Array::from_iter_values(ids.clone().map(i128::from));
            let comment = |id: i64| format!("carefully final deposits {id}");
            vec![
                Arc::new(Int64Array::from_iter_values(ids.clone())) as ArrayRef,
                Arc::new(Int64Array::from_iter_values(ids.clone().map(|_| 1))),
                Arc::new(money.with_precision_and_scale(15, 2).expect("possible")),
                Arc::new(StringArray::from_iter_values(ids.clone().map(|_| "TRUCK"))),
                Arc::new(StringArray::from_iter_values(ids.map(comment))),
            ]
        })
        .collect();
    measure("append 5 columns and a key", rows as usize, rows, || {
        batches.iter().for_each(|batch| _ = partition.append(batch).expect("no key repeats"));
        scan_sum(&partition)
    });
    let bytes = partition.bytes() as f64 / rows as f64;
    println!(
        r#"{{"experiment": "store-point", "arm": "append", "bytes_per_row": {bytes:.1}, "check": "ok"}}"#
    );
    let len = |row: RowRef<'_>| match row.value(4) {
        ValueRef::Text(text) => text.len() as i64,
        _ => unreachable!("types of the columns"),
    };
    let lens = (0..rows).map(|id| 25 + id.to_string().len() as i64).sum();
    measure("read a text column row by row", rows as usize, lens, || {
        partition.rows().map(len).sum()
    });
    measure("hand over 5 columns to Arrow", rows as usize, rows, || {
        partition.scan(&[0, 1, 2, 3, 4]).map(|batch| batch.row_count as i64).sum()
    });
}
