//! The contents of the tables at the start (clause 4.3.3), row by row and table by table.

use halcyon::Value;

use super::random::{DISTRICTS, Random, Scale, last_name};
use super::schema::Table;
use crate::Result;

/// Microseconds since 1970 at which everything at the start happened: 2026-01-01.
pub(super) const START_US: i64 = 1_767_225_600_000_000;

/// Gives every row of every table to `row`, one table after the other.
///
/// Shape: values as in [`Table::columns`]; money in cents, rates in ten-thousandths, both as
/// [`Value::Decimal`]. The same `scale` and `seed` give the same rows.
pub fn populate(
    scale: Scale,
    seed: u64,
    row: &mut dyn FnMut(Table, &[Value]) -> Result<()>,
) -> Result<()> {
    for table in Table::ALL {
        let mut random = Random::new(scale, seed, 1 << 32 | table as u64);
        match table {
            Table::Item => items(&mut random, row)?,
            Table::Warehouse => warehouses(&mut random, row)?,
            Table::District => districts(&mut random, row)?,
            Table::Customer => customers(&mut random, row)?,
            Table::History => history(&mut random, row)?,
            Table::NewOrder => new_orders(scale, row)?,
            Table::Orders => orders(scale, seed, row)?,
            Table::Stock => stock(&mut random, row)?,
            Table::OrderLine => order_lines(&mut random, seed, row)?,
        }
    }
    Ok(())
}

type Sink<'a> = dyn FnMut(Table, &[Value]) -> Result<()> + 'a;

/// Money in cents, or a rate in ten-thousandths.
pub fn decimal(unscaled: i64) -> Value {
    Value::Decimal(i128::from(unscaled))
}

/// Every district, as (warehouse, district).
fn all_districts(scale: Scale) -> impl Iterator<Item = (i32, i32)> {
    (1..=scale.warehouses).flat_map(|w| (1..=DISTRICTS).map(move |d| (w, d)))
}

fn items(random: &mut Random, row: &mut Sink<'_>) -> Result<()> {
    for id in 1..=random.scale.items {
        let values = [
            Value::Int32(id),
            Value::Int32(random.number(1, 10_000)),
            Value::Text(random.text(14, 24)),
            decimal(i64::from(random.number(100, 10_000))),
            Value::Text(random.data()),
        ];
        row(Table::Item, &values)?;
    }
    Ok(())
}

/// Two streets, city, state and ZIP.
fn address(random: &mut Random) -> [Value; 5] {
    [
        Value::Text(random.text(10, 20)),
        Value::Text(random.text(10, 20)),
        Value::Text(random.text(10, 20)),
        Value::Text(random.text(2, 2)),
        Value::Text(random.zip()),
    ]
}

fn warehouses(random: &mut Random, row: &mut Sink<'_>) -> Result<()> {
    for id in 1..=random.scale.warehouses {
        let name = random.text(6, 10);
        let [street_1, street_2, city, state, zip] = address(random);
        let tax = random.number(0, 2_000);
        // What its districts have: 300,000.00 at full scale.
        let ytd = i64::from(DISTRICTS) * i64::from(random.scale.customers) * 1_000;
        row(
            Table::Warehouse,
            &[
                Value::Int32(id),
                Value::Text(name),
                street_1,
                street_2,
                city,
                state,
                zip,
                decimal(i64::from(tax)),
                decimal(ytd),
            ],
        )?;
    }
    Ok(())
}

fn districts(random: &mut Random, row: &mut Sink<'_>) -> Result<()> {
    for (w, d) in all_districts(random.scale) {
        let name = random.text(6, 10);
        let [street_1, street_2, city, state, zip] = address(random);
        let tax = random.number(0, 2_000);
        row(
            Table::District,
            &[
                Value::Int32(w),
                Value::Int32(d),
                Value::Text(name),
                street_1,
                street_2,
                city,
                state,
                zip,
                decimal(i64::from(tax)),
                decimal(i64::from(random.scale.customers) * 1_000),
                Value::Int32(random.scale.customers + 1),
            ],
        )?;
    }
    Ok(())
}

fn customers(random: &mut Random, row: &mut Sink<'_>) -> Result<()> {
    for (w, d) in all_districts(random.scale) {
        for id in 1..=random.scale.customers {
            let name = random.name_at_load(id);
            let first = random.text(8, 16);
            let [street_1, street_2, city, state, zip] = address(random);
            let credit = if random.percent(10) { "BC" } else { "GC" };
            row(
                Table::Customer,
                &[
                    Value::Int32(w),
                    Value::Int32(d),
                    Value::Int32(id),
                    Value::Text(first),
                    Value::Text("OE".into()),
                    Value::Text(last_name(name)),
                    street_1,
                    street_2,
                    city,
                    state,
                    zip,
                    Value::Text(random.digits(16)),
                    Value::Timestamp(START_US),
                    Value::Text(credit.into()),
                    decimal(5_000_000),
                    decimal(i64::from(random.number(0, 5_000))),
                    decimal(-1_000),
                    decimal(1_000),
                    Value::Int32(1),
                    Value::Int32(0),
                    Value::Text(random.text(300, 500)),
                ],
            )?;
        }
    }
    Ok(())
}

fn history(random: &mut Random, row: &mut Sink<'_>) -> Result<()> {
    for (w, d) in all_districts(random.scale) {
        for id in 1..=random.scale.customers {
            row(
                Table::History,
                &[
                    Value::Int32(id),
                    Value::Int32(d),
                    Value::Int32(w),
                    Value::Int32(d),
                    Value::Int32(w),
                    Value::Timestamp(START_US),
                    decimal(1_000),
                    Value::Text(random.text(12, 24)),
                ],
            )?;
        }
    }
    Ok(())
}

fn new_orders(scale: Scale, row: &mut Sink<'_>) -> Result<()> {
    for (w, d) in all_districts(scale) {
        for id in scale.delivered() + 1..=scale.customers {
            row(Table::NewOrder, &[Value::Int32(w), Value::Int32(d), Value::Int32(id)])?;
        }
    }
    Ok(())
}

/// An order at the start.
struct Order {
    w: i32,
    d: i32,
    id: i32,
    customer: i32,
    carrier: Option<i32>,
    lines: i32,
}

/// Every order at the start. `orders` and `order_line` both follow from it.
fn all_orders(scale: Scale, seed: u64, each: &mut dyn FnMut(&Order) -> Result<()>) -> Result<()> {
    let mut random = Random::new(scale, seed, 2 << 32);
    for (w, d) in all_districts(scale) {
        let customers = random.permutation(scale.customers);
        for (id, customer) in (1..).zip(customers) {
            let carrier = (id <= scale.delivered()).then(|| random.number(1, 10));
            each(&Order { w, d, id, customer, carrier, lines: random.number(5, 15) })?;
        }
    }
    Ok(())
}

fn orders(scale: Scale, seed: u64, row: &mut Sink<'_>) -> Result<()> {
    all_orders(scale, seed, &mut |order| {
        row(
            Table::Orders,
            &[
                Value::Int32(order.w),
                Value::Int32(order.d),
                Value::Int32(order.id),
                Value::Int32(order.customer),
                Value::Timestamp(START_US),
                order.carrier.map_or(Value::Null, Value::Int32),
                Value::Int32(order.lines),
                Value::Int32(1),
            ],
        )
    })
}

fn order_lines(random: &mut Random, seed: u64, row: &mut Sink<'_>) -> Result<()> {
    all_orders(random.scale, seed, &mut |order| {
        for number in 1..=order.lines {
            let delivered = order.carrier.is_some();
            let amount = if delivered { 0 } else { random.number(1, 999_999) };
            row(
                Table::OrderLine,
                &[
                    Value::Int32(order.w),
                    Value::Int32(order.d),
                    Value::Int32(order.id),
                    Value::Int32(number),
                    Value::Int32(random.number(1, random.scale.items)),
                    Value::Int32(order.w),
                    if delivered { Value::Timestamp(START_US) } else { Value::Null },
                    Value::Int32(5),
                    decimal(i64::from(amount)),
                    Value::Text(random.text(24, 24)),
                ],
            )?;
        }
        Ok(())
    })
}

fn stock(random: &mut Random, row: &mut Sink<'_>) -> Result<()> {
    for w in 1..=random.scale.warehouses {
        for item in 1..=random.scale.items {
            let mut values =
                vec![Value::Int32(w), Value::Int32(item), Value::Int32(random.number(10, 100))];
            values.extend((0..DISTRICTS).map(|_| Value::Text(random.text(24, 24))));
            values.extend([Value::Int32(0), Value::Int32(0), Value::Int32(0)]);
            values.push(Value::Text(random.data()));
            row(Table::Stock, &values)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_table_has_the_rows_that_the_rules_ask_for() {
        let scale = Scale::tiny(2);
        let mut counts: BTreeMap<Table, i32> = BTreeMap::new();
        let mut ordered_lines = 0;
        populate(scale, 5, &mut |table, values| {
            assert_eq!(values.len(), table.columns().len(), "{}", table.name());
            if let (Table::Orders, Some(Value::Int32(lines))) = (table, values.get(6)) {
                ordered_lines += lines;
            }
            *counts.entry(table).or_default() += 1;
            Ok(())
        })
        .unwrap();
        let districts = 2 * DISTRICTS;
        assert_eq!(counts[&Table::Item], 100);
        assert_eq!(counts[&Table::Stock], 200);
        assert_eq!(counts[&Table::Customer], districts * 30);
        assert_eq!(counts[&Table::History], districts * 30);
        assert_eq!(counts[&Table::Orders], districts * 30);
        assert_eq!(counts[&Table::NewOrder], districts * 9);
        assert_eq!(counts[&Table::OrderLine], ordered_lines);
    }
}
