//! Records are done again as they were made, and bytes that nobody made are refused.

use super::code::{self, PartitionPart};
use super::*;
use halcyon_base::rng::Rng;
use halcyon_store::{ColumnDef, Interval, Schema, Type, Value, ValueRef};
use std::sync::Arc;

fn all_types() -> Arc<Schema> {
    let types = [
        Type::Bool,
        Type::Int16,
        Type::Int32,
        Type::Int64,
        Type::Float32,
        Type::Float64,
        Type::Decimal { precision: 38, scale: 2 },
        Type::Text,
        Type::Bytes,
        Type::Date,
        Type::Time,
        Type::Timestamp,
        Type::TimestampTz,
        Type::Interval,
        Type::Uuid,
    ];
    Schema::new(types.into_iter().map(|ty| ColumnDef { ty, nullable: true }).collect())
}

fn any_value(ty: Type, rng: &mut Rng) -> Value {
    let any = rng.next_u64() >> rng.below(64);
    let signed = if rng.chance(1, 2) { any as i64 } else { -(any as i64) };
    if rng.chance(1, 8) {
        return Value::Null;
    }
    match ty {
        Type::Bool => Value::Bool(any & 1 == 1),
        Type::Int16 => Value::Int16(signed as i16),
        Type::Int32 => Value::Int32(signed as i32),
        Type::Int64 => Value::Int64(signed),
        Type::Float32 => Value::Float32(signed as f32),
        Type::Float64 => Value::Float64(signed as f64),
        Type::Decimal { .. } => Value::Decimal(i128::from(signed) << rng.below(60)),
        Type::Text => Value::Text("é".repeat(rng.below(40) as usize)),
        Type::Bytes => Value::Bytes(vec![any as u8; rng.below(40) as usize]),
        Type::Date => Value::Date(signed as i32),
        Type::Time => Value::Time(signed),
        Type::Timestamp => Value::Timestamp(signed),
        Type::TimestampTz => Value::TimestampTz(signed),
        Type::Interval => {
            let nanos = signed;
            Value::Interval(Interval { months: signed as i32, days: -7, nanos })
        }
        Type::Uuid => Value::Uuid([any as u8; 16]),
    }
}

fn any_row(schema: &Schema, rng: &mut Rng) -> Vec<Value> {
    schema.columns.iter().map(|def| any_value(def.ty, rng)).collect()
}

fn contents(partition: &Partition) -> Vec<(RowId, Vec<Value>)> {
    let row = |row: halcyon_store::RowRef<'_>| {
        (row.id(), row.values().map(|value| value.to_owned()).collect())
    };
    partition.rows().map(row).collect()
}

/// Records of a few partitions, and what they lead to.
fn any_history(rng: &mut Rng, commits: u64) -> (Vec<Vec<u8>>, Partitions) {
    let schema = all_types();
    let mut partitions = Partitions::new();
    let mut records = Vec::new();
    for _ in 0..commits {
        let mut redo = Redo::default();
        redo.encoder.begin(rng.chance(1, 10).then_some(b"catalog"));
        for id in (1..=5).map(PartitionId) {
            match partitions.remove(&id) {
                None if rng.chance(1, 3) => {
                    let root = Partition::new(schema.clone());
                    redo.whole(id, &root);
                    partitions.insert(id, root);
                }
                Some(before) => {
                    let mut now = before.clone();
                    for _ in 0..rng.below(6) {
                        let row = any_row(&schema, rng);
                        let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                        let some = now.rows().nth(rng.below(4) as usize).map(|row| row.id());
                        match (rng.below(3), some) {
                            (0, Some(id)) => assert!(now.delete(id)),
                            (1, Some(id)) => {
                                now.update_unchecked(id, &[7, 3], &[values[7], values[3]])
                            }
                            _ => {
                                now.insert_unchecked(&values);
                            }
                        }
                    }
                    if rng.chance(1, 30) {
                        redo.encoder.drop(id);
                    } else {
                        redo.difference(id, &before, &now);
                        partitions.insert(id, now);
                    }
                }
                None => {}
            }
        }
        records.extend(redo.encoder.finish().map(<[u8]>::to_vec));
    }
    (records, partitions)
}

#[test]
fn replay_agrees_with_one_and_with_many_workers() {
    let mut rng = Rng::new(3);
    for round in 0..30 {
        let (records, expected) = any_history(&mut rng, 60);
        for workers in [1, 3] {
            let mut replay = Replay::new(Partitions::new(), workers);
            for (number, record) in records.iter().enumerate() {
                replay.commit(number as u64, record).expect("it was encoded");
            }
            let done = replay.finish().unwrap_or_else(|broken| panic!("{}", broken.why));
            let ids = |partitions: &Partitions| partitions.keys().copied().collect::<Vec<_>>();
            assert_eq!(ids(&done), ids(&expected), "round {round}");
            for (id, partition) in &done {
                partition.check();
                assert_eq!(contents(partition), contents(&expected[id]), "round {round}");
            }
        }
    }
}

#[test]
fn sequences_and_catalogs_are_read_back() {
    for last in [0, 1, -1, i64::MAX, i64::MIN] {
        assert_eq!(code::decode_sequence(&sequence_payload(u32::MAX, last)), Ok((u32::MAX, last)));
    }
    let mut encoder = Encoder::default();
    encoder.begin(None);
    assert_eq!(encoder.finish(), None);
    encoder.begin(Some(b"tables"));
    let record = encoder.finish().expect("the catalog changed").to_vec();
    let (catalog, parts) = code::decode(&record).expect("it was encoded");
    assert_eq!((catalog, parts.len()), (Some(&b"tables"[..]), 0));
    // A partition in which nothing has changed leaves nothing.
    encoder.begin(None);
    encoder.change(PartitionId(1), &all_types());
    encoder.end();
    assert_eq!(encoder.finish(), None);
}

/// Records that decode and do not fit the partitions are errors.
#[test]
fn records_that_do_not_fit_are_refused() {
    let narrow = Schema::new(vec![ColumnDef { ty: Type::Int64, nullable: false }]);
    let define = |encoder: &mut Encoder| {
        encoder.begin(None);
        encoder.define(PartitionId(1), &narrow);
    };
    let change = |encoder: &mut Encoder| {
        encoder.begin(None);
        encoder.change(PartitionId(1), &narrow);
    };
    let refusal = |fill: &dyn Fn(&mut Encoder)| {
        let mut replay = Replay::new(Partitions::new(), 1);
        let mut encoder = Encoder::default();
        define(&mut encoder);
        encoder.insert(RowId(0), [ValueRef::Int64(1)].into_iter());
        encoder.end();
        replay.commit(0, encoder.finish().expect("a row")).expect("it fits");
        fill(&mut encoder);
        replay.commit(1, encoder.finish().expect("something")).unwrap_err().0
    };
    type Case<'a> = (&'a dyn Fn(&mut Encoder), &'a str);
    let cases: [Case<'_>; 6] = [
        (
            &|encoder| {
                encoder.begin(None);
                encoder.drop(PartitionId(2));
            },
            "there is no such partition",
        ),
        (
            &|encoder| {
                change(encoder);
                encoder.insert(RowId(0), [ValueRef::Int64(1)].into_iter());
                encoder.end();
            },
            "a row is inserted where one is",
        ),
        (
            &|encoder| {
                change(encoder);
                encoder.delete(RowId(5));
                encoder.end();
            },
            "a row is deleted that is not there",
        ),
        (
            &|encoder| {
                change(encoder);
                encoder.insert(RowId(1), [ValueRef::Null].into_iter());
                encoder.end();
            },
            "a value does not fit its column",
        ),
        (
            &|encoder| {
                change(encoder);
                encoder.insert(RowId(1), [ValueRef::Int32(1)].into_iter());
                encoder.end();
            },
            "a value does not fit its column",
        ),
        (
            &|encoder| {
                encoder.begin(None);
                encoder.change(PartitionId(1), &all_types());
                encoder.delete(RowId(0));
                encoder.end();
            },
            "the partition has another number of columns",
        ),
    ];
    for (fill, expected) in cases {
        assert_eq!(refusal(fill), expected);
    }
}

/// Strategy: records that were made, with bytes changed, cut, and joined. Invariant: decoding ends
/// in a value or an error; the rest is that of `decode_any`, which the libFuzzer target calls too.
/// `HALCYON_FUZZ_SECONDS` sets how long.
#[test]
fn redo_fuzz_bytes_that_nobody_made_are_refused_without_a_panic() {
    let seconds = std::env::var("HALCYON_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds.unwrap_or(1));
    let seed = halcyon_base::clock::now().0;
    let mut rng = Rng::new(seed);
    let (records, _) = any_history(&mut rng, 200);
    let mut refused = 0u64;
    while std::time::Instant::now() < until {
        let mut bytes = rng.pick(&records).clone();
        for _ in 0..rng.range(1..4) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.extend_from_slice(rng.pick::<Vec<u8>>(&records)),
                2 => bytes[at] ^= 1 << rng.below(8),
                _ => bytes[at] = rng.next_u32() as u8,
            }
        }
        let decoded = std::panic::catch_unwind(|| decode_any(&bytes));
        let decoded = decoded.unwrap_or_else(|_| panic!("seed {seed}, bytes {bytes:?}"));
        refused += u64::from(decoded.is_err());
    }
    assert!(refused > 0, "nothing was refused: the fuzzer does not reach the decoder");
}

#[test]
fn a_partition_that_lost_most_rows_is_written_anew() {
    let schema = Schema::new(vec![ColumnDef { ty: Type::Int64, nullable: false }]);
    let mut before = Partition::new(schema);
    for n in 0..100 {
        before.insert_unchecked(&[ValueRef::Int64(n)]);
    }
    let mut now = before.clone();
    now.truncate();
    let mut redo = Redo::default();
    redo.encoder.begin(None);
    redo.difference(PartitionId(1), &before, &now);
    let record = redo.encoder.finish().expect("rows are gone").to_vec();
    let (_, parts) = code::decode(&record).expect("it was encoded");
    assert!(matches!(parts[..], [PartitionPart::Defined(PartitionId(1), ..)]));
    assert!(record.len() < 20);
}
