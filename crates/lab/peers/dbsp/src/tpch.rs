//! Queries over TPC-H. Columns as the lab's streams have them: money in hundredths, dates as days
//! since 1970-01-01, texts as numbers.

use dbsp::RootCircuit;
use dbsp::utils::{Tup1, Tup2, Tup3, Tup4, Tup5, Tup7};

use crate::circuit::{Parts, Program, table, view};

/// The circuit of a query over TPC-H.
pub fn program(query: &str) -> Option<Program> {
    Some(match query {
        "q1" => q1,
        "q3" => q3,
        "q4" => q4,
        "q6" => q6,
        "q11a" => q11a,
        "q12" => q12,
        "q14" => q14,
        "q17a" => q17a,
        "q18a" => q18a,
        _ => return None,
    })
}

/// Days from 1970-01-01 to the dates in the queries.
mod date {
    pub const Y1993_07: i64 = 8582;
    pub const Y1993_10: i64 = 8674;
    pub const Y1994: i64 = 8766;
    pub const Y1995: i64 = 9131;
    pub const Y1995_03_15: i64 = 9204;
    pub const Y1995_09: i64 = 9374;
    pub const Y1995_10: i64 = 9404;
    pub const Y1997_09: i64 = 10_105;
}

const CENT: f64 = 0.01;

type Row1 = Tup1<i64>;
type Row2 = Tup2<i64, i64>;
type Row3 = Tup3<i64, i64, i64>;
type Row4 = Tup4<i64, i64, i64, i64>;
type Row5 = Tup5<i64, i64, i64, i64, i64>;
type Row7 = Tup7<i64, i64, i64, i64, i64, i64, i64>;

fn row1(row: &[u64]) -> Row1 {
    Tup1(row[0] as i64)
}

fn row2(row: &[u64]) -> Row2 {
    Tup2(row[0] as i64, row[1] as i64)
}

fn row3(row: &[u64]) -> Row3 {
    Tup3(row[0] as i64, row[1] as i64, row[2] as i64)
}

fn row4(row: &[u64]) -> Row4 {
    Tup4(row[0] as i64, row[1] as i64, row[2] as i64, row[3] as i64)
}

fn row5(row: &[u64]) -> Row5 {
    Tup5(row[0] as i64, row[1] as i64, row[2] as i64, row[3] as i64, row[4] as i64)
}

fn row7(row: &[u64]) -> Row7 {
    let [a, b, c, d, e, f, g] = *row else { panic!("{} columns, not seven", row.len()) };
    Tup7(a as i64, b as i64, c as i64, d as i64, e as i64, f as i64, g as i64)
}

fn number_of(texts: &[String], text: &str) -> i64 {
    texts.iter().position(|known| known == text).map_or(-1, |number| number as i64)
}

fn q1(circuit: &mut RootCircuit, texts: &[String]) -> Parts {
    let (lines, table) = table(circuit, row7);
    let shipped = lines.flat_map_index(|line| {
        let &Tup7(flag, status, quantity, price, discount, tax, shipdate) = line;
        (shipdate <= date::Y1997_09).then(|| {
            let discounted = price * (100 - discount);
            let charge = discounted * (100 + tax);
            (Tup2(flag, status), Tup4(quantity, price, discounted, charge))
        })
    });
    let sums = shipped.aggregate_linear(|values| {
        let &Tup4(quantity, price, discounted, charge) = values;
        Tup5(quantity, price, discounted, charge, 1_i64)
    });
    let texts = texts.to_vec();
    let view = view(&sums, move |key, sums| {
        let &Tup5(quantity, price, discounted, charge, count) = sums;
        let values = [
            quantity as f64 * CENT,
            price as f64 * CENT,
            discounted as f64 * 1e-4,
            charge as f64 * 1e-6,
            count as f64,
        ];
        let key = [key.0, key.1].map(|text| texts[text as usize].clone());
        (key.to_vec(), values.to_vec())
    });
    (vec![table], view)
}

fn q3(circuit: &mut RootCircuit, texts: &[String]) -> Parts {
    let (lines, lines_table) = table(circuit, row4);
    let (orders, orders_table) = table(circuit, row4);
    let (customers, customers_table) = table(circuit, row2);
    let building = number_of(texts, "BUILDING");
    let customers = customers
        .flat_map_index(move |customer| (customer.1 == building).then_some((customer.0, ())));
    let orders = orders.flat_map_index(|order| {
        let &Tup4(order, customer, orderdate, priority) = order;
        (orderdate < date::Y1995_03_15).then_some((customer, Tup3(order, orderdate, priority)))
    });
    let lines = lines.flat_map_index(|line| {
        let &Tup4(order, price, discount, shipdate) = line;
        (shipdate > date::Y1995_03_15).then_some((order, price * (100 - discount)))
    });
    let orders =
        orders.join_index(&customers, |_, order, ()| Some((order.0, Tup2(order.1, order.2))));
    let revenue = lines
        .join_index(&orders, |&order, &revenue, row| Some((Tup3(order, row.0, row.1), revenue)));
    let sums = revenue.aggregate_linear(|&revenue| revenue);
    let view = view(&sums, |key, &sum| {
        let key = [key.0, key.1, key.2].map(|number| number.to_string());
        (key.to_vec(), vec![sum as f64 * 1e-4])
    });
    (vec![lines_table, orders_table, customers_table], view)
}

fn q4(circuit: &mut RootCircuit, texts: &[String]) -> Parts {
    let (lines, lines_table) = table(circuit, row3);
    let (orders, orders_table) = table(circuit, row3);
    let late = lines.flat_map(|line| (line.1 < line.2).then_some(line.0)).distinct();
    let late = late.map_index(|&order| (order, ()));
    let orders = orders.flat_map_index(|order| {
        let quarter = (date::Y1993_07..date::Y1993_10).contains(&order.1);
        quarter.then_some((order.0, order.2))
    });
    let priorities = orders.join_index(&late, |_, &priority, ()| Some((priority, ())));
    let counts = priorities.aggregate_linear(|()| 1_i64);
    let texts = texts.to_vec();
    let view = view(&counts, move |&priority, &count| {
        (vec![texts[priority as usize].clone()], vec![count as f64])
    });
    (vec![lines_table, orders_table], view)
}

fn q6(circuit: &mut RootCircuit, _texts: &[String]) -> Parts {
    let (lines, table) = table(circuit, row4);
    let cheap = lines.flat_map_index(|line| {
        let &Tup4(shipdate, discount, quantity, price) = line;
        let wanted = (date::Y1994..date::Y1995).contains(&shipdate)
            && (5..=7).contains(&discount)
            && quantity < 2400;
        wanted.then(|| ((), price * discount))
    });
    let sum = cheap.aggregate_linear(|&revenue| revenue);
    (vec![table], view(&sum, |(), &sum| (Vec::new(), vec![sum as f64 * 1e-4])))
}

fn q11a(circuit: &mut RootCircuit, _texts: &[String]) -> Parts {
    let (parts, parts_table) = table(circuit, row4);
    let (suppliers, suppliers_table) = table(circuit, row1);
    let suppliers = suppliers.map_index(|supplier| (supplier.0, ()));
    let parts = parts.map_index(|row| {
        let &Tup4(part, supplier, quantity, cost) = row;
        (supplier, Tup2(part, quantity * cost))
    });
    let values = parts.join_index(&suppliers, |_, part, ()| Some((part.0, part.1)));
    let sums = values.aggregate_linear(|&value| value);
    let view = view(&sums, |part, &sum| (vec![part.to_string()], vec![sum as f64 * CENT]));
    (vec![parts_table, suppliers_table], view)
}

fn q12(circuit: &mut RootCircuit, texts: &[String]) -> Parts {
    let (lines, lines_table) = table(circuit, row5);
    let (orders, orders_table) = table(circuit, row2);
    let modes = ["MAIL", "SHIP"].map(|mode| number_of(texts, mode));
    let lines = lines.flat_map_index(move |line| {
        let &Tup5(order, mode, shipdate, commitdate, receiptdate) = line;
        let wanted = modes.contains(&mode)
            && commitdate < receiptdate
            && shipdate < commitdate
            && (date::Y1994..date::Y1995).contains(&receiptdate);
        wanted.then_some((order, mode))
    });
    let urgent = ["1-URGENT", "2-HIGH"].map(|priority| number_of(texts, priority));
    let orders = orders.map_index(move |order| (order.0, i64::from(urgent.contains(&order.1))));
    let lines = lines.join_index(&orders, |_, &mode, &urgent| Some((mode, urgent)));
    let counts = lines.aggregate_linear(|&urgent| Tup2(urgent, 1 - urgent));
    let texts = texts.to_vec();
    let view = view(&counts, move |&mode, counts| {
        (vec![texts[mode as usize].clone()], vec![counts.0 as f64, counts.1 as f64])
    });
    (vec![lines_table, orders_table], view)
}

fn q14(circuit: &mut RootCircuit, texts: &[String]) -> Parts {
    let (lines, lines_table) = table(circuit, row4);
    let (parts, parts_table) = table(circuit, row2);
    let lines = lines.flat_map_index(|line| {
        let &Tup4(part, price, discount, shipdate) = line;
        let month = (date::Y1995_09..date::Y1995_10).contains(&shipdate);
        month.then(|| (part, price * (100 - discount)))
    });
    let promo: Vec<bool> = texts.iter().map(|text| text.starts_with("PROMO")).collect();
    let parts = parts.map_index(move |part| (part.0, i64::from(promo[part.1 as usize])));
    let lines =
        lines.join_index(&parts, |_, &revenue, &promo| Some(((), Tup2(promo * revenue, revenue))));
    let sums = lines.aggregate_linear(|sums| sums.clone());
    let view = view(&sums, |(), sums| {
        (Vec::new(), [sums.0, sums.1].map(|sum| sum as f64 * 1e-4).to_vec())
    });
    (vec![lines_table, parts_table], view)
}

fn q17a(circuit: &mut RootCircuit, _texts: &[String]) -> Parts {
    let (lines, lines_table) = table(circuit, row3);
    let (parts, parts_table) = table(circuit, row1);
    let lines = lines.map_index(|line| (line.0, Tup2(line.1, line.2)));
    let totals = lines.aggregate_linear(|line| line.0);
    let small = lines.join_index(&totals, |&part, line, &total| {
        (line.0 * 1000 < 5 * total).then_some((part, line.1))
    });
    let parts = parts.map_index(|part| (part.0, ()));
    let prices = small.join_index(&parts, |_, &price, ()| Some(((), price)));
    let sum = prices.aggregate_linear(|&price| price);
    let view = view(&sum, |(), &sum| (Vec::new(), vec![sum as f64 * CENT]));
    (vec![lines_table, parts_table], view)
}

fn q18a(circuit: &mut RootCircuit, _texts: &[String]) -> Parts {
    let (lines, lines_table) = table(circuit, row2);
    let (orders, orders_table) = table(circuit, row2);
    let (customers, customers_table) = table(circuit, row1);
    // All lines of a large order count, so its total stands for them.
    let totals = lines.map_index(|line| (line.0, line.1)).aggregate_linear(|&quantity| quantity);
    let large = totals.filter(|(_, quantity)| *quantity > 10_000);
    let orders = orders.map_index(|order| (order.0, order.1));
    let large = large.join_index(&orders, |_, &quantity, &customer| Some((customer, quantity)));
    let customers = customers.map_index(|customer| (customer.0, ()));
    let large = large.join_index(&customers, |&customer, &quantity, ()| Some((customer, quantity)));
    let sums = large.aggregate_linear(|&quantity| quantity);
    let view = view(&sums, |customer, &sum| (vec![customer.to_string()], vec![sum as f64 * CENT]));
    (vec![lines_table, orders_table, customers_table], view)
}
