//! Queries over TPC-H. Columns as `queries.rs` lists them; money in hundredths.

use std::hash::Hash;

use super::super::events::{Event, Events};
use super::{Answer, Bare, Map, single};

/// Days from 1970-01-01 to the dates in the queries.
mod date {
    pub const Y1993_07: u64 = 8582;
    pub const Y1993_10: u64 = 8674;
    pub const Y1994: u64 = 8766;
    pub const Y1995: u64 = 9131;
    pub const Y1995_03_15: u64 = 9204;
    pub const Y1995_09: u64 = 9374;
    pub const Y1995_10: u64 = 9404;
    pub const Y1997_09: u64 = 10_105;
}

const CENT: f64 = 0.01;

/// Adds to an entry and drops it when its count is zero.
fn add<K: Hash + Eq, const N: usize>(map: &mut Map<K, [i64; N]>, key: K, values: [i64; N]) {
    use std::collections::hash_map::Entry;
    match map.entry(key) {
        Entry::Vacant(vacant) => {
            vacant.insert(values);
        }
        Entry::Occupied(mut entry) => {
            let sums = entry.get_mut();
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            if sums[0] == 0 {
                entry.remove();
            }
        }
    }
}

fn number_of(events: &Events, text: &str) -> u64 {
    events.texts.iter().position(|known| known == text).map_or(u64::MAX, |number| number as u64)
}

fn revenue(price: u64, discount: u64) -> i64 {
    price as i64 * (100 - discount as i64)
}

/// Pricing summary.
#[derive(Default)]
pub struct Q1 {
    /// By flag and status: count, quantity, price, discounted price, charge.
    groups: Map<(u64, u64), [i64; 5]>,
    texts: Vec<String>,
}

impl Bare for Q1 {
    fn prepare(&mut self, events: &Events) {
        self.texts.clone_from(&events.texts);
    }

    fn apply(&mut self, event: Event<'_>) {
        let &[flag, status, quantity, price, discount, tax, shipdate] = event.row else {
            unreachable!("seven columns")
        };
        if shipdate <= date::Y1997_09 {
            let discounted = revenue(price, discount);
            let values =
                [1, quantity as i64, price as i64, discounted, discounted * (100 + tax as i64)];
            add(&mut self.groups, (flag, status), values.map(|value| value * event.weight));
        }
    }

    fn answer(&self) -> Answer {
        let row = |(&(flag, status), sums): (&(u64, u64), &[i64; 5])| {
            let key = [flag, status].map(|text| self.texts[text as usize].clone());
            let [count, quantity, price, discounted, charge] = sums.map(|sum| sum as f64);
            let sums = [quantity * CENT, price * CENT, discounted * 1e-4, charge * 1e-6, count];
            (key.to_vec(), sums.to_vec())
        };
        self.groups.iter().map(row).collect()
    }
}

/// Unshipped orders of a market segment.
#[derive(Default)]
pub struct Q3 {
    segment: u64,
    /// By order, date and priority: count and revenue.
    view: Map<(u64, u64, u64), [i64; 2]>,
    /// By order: count and revenue of its lines.
    lines: Map<u64, [i64; 2]>,
    /// By order: its customer, date, priority.
    orders: Map<u64, (u64, u64, u64)>,
    /// By customer: orders.
    orders_of: Map<u64, Vec<u64>>,
    customers: Map<u64, [i64; 1]>,
}

impl Q3 {
    fn add(&mut self, order: u64, lines: [i64; 2], weight: i64) {
        let Some(&(customer, date, priority)) = self.orders.get(&order) else { return };
        if let Some(&[count]) = self.customers.get(&customer) {
            let values = lines.map(|value| value * count * weight);
            if values[0] != 0 {
                add(&mut self.view, (order, date, priority), values);
            }
        }
    }
}

impl Bare for Q3 {
    fn prepare(&mut self, events: &Events) {
        self.segment = number_of(events, "BUILDING");
    }

    fn apply(&mut self, event: Event<'_>) {
        match (event.relation, event.row) {
            (0, &[order, price, discount, shipdate]) => {
                if shipdate > date::Y1995_03_15 {
                    let line = [event.weight, event.weight * revenue(price, discount)];
                    self.add(order, line, 1);
                    add(&mut self.lines, order, line);
                }
            }
            (1, &[order, customer, orderdate, priority]) => {
                if orderdate < date::Y1995_03_15 {
                    let lines = self.lines.get(&order).copied().unwrap_or_default();
                    if event.weight > 0 {
                        self.orders.insert(order, (customer, orderdate, priority));
                        self.orders_of.entry(customer).or_default().push(order);
                        self.add(order, lines, 1);
                    } else {
                        self.add(order, lines, -1);
                        self.orders.remove(&order);
                        let orders = self.orders_of.get_mut(&customer).expect("it has this order");
                        orders.retain(|&other| other != order);
                    }
                }
            }
            (2, &[customer, segment]) => {
                if segment == self.segment {
                    let orders = self.orders_of.get(&customer).cloned().unwrap_or_default();
                    if event.weight < 0 {
                        for &order in &orders {
                            let lines = self.lines.get(&order).copied().unwrap_or_default();
                            self.add(order, lines, -1);
                        }
                    }
                    add(&mut self.customers, customer, [event.weight]);
                    if event.weight > 0 {
                        for &order in &orders {
                            let lines = self.lines.get(&order).copied().unwrap_or_default();
                            self.add(order, lines, 1);
                        }
                    }
                }
            }
            _ => unreachable!("three streams"),
        }
    }

    fn answer(&self) -> Answer {
        let row = |(&(order, date, priority), sums): (&(u64, u64, u64), &[i64; 2])| {
            let key = [order, date, priority].map(|number| number.to_string());
            (key.to_vec(), vec![sums[1] as f64 * 1e-4])
        };
        self.view.iter().map(row).collect()
    }
}

/// Orders with a late line, by priority.
#[derive(Default)]
pub struct Q4 {
    view: Map<u64, [i64; 1]>,
    late: Map<u64, [i64; 1]>,
    /// By order: its priority.
    orders: Map<u64, u64>,
    texts: Vec<String>,
}

impl Bare for Q4 {
    fn prepare(&mut self, events: &Events) {
        self.texts.clone_from(&events.texts);
    }

    fn apply(&mut self, event: Event<'_>) {
        match (event.relation, event.row) {
            (0, &[order, commitdate, receiptdate]) => {
                if commitdate < receiptdate {
                    let was = self.late.contains_key(&order);
                    add(&mut self.late, order, [event.weight]);
                    let is = self.late.contains_key(&order);
                    if was != is
                        && let Some(&priority) = self.orders.get(&order)
                    {
                        add(&mut self.view, priority, [i64::from(is) - i64::from(was)]);
                    }
                }
            }
            (1, &[order, orderdate, priority]) => {
                if (date::Y1993_07..date::Y1993_10).contains(&orderdate) {
                    if event.weight > 0 {
                        self.orders.insert(order, priority);
                    } else {
                        self.orders.remove(&order);
                    }
                    if self.late.contains_key(&order) {
                        add(&mut self.view, priority, [event.weight]);
                    }
                }
            }
            _ => unreachable!("two streams"),
        }
    }

    fn answer(&self) -> Answer {
        let row = |(&priority, &[count]): (&u64, &[i64; 1])| {
            (vec![self.texts[priority as usize].clone()], vec![count as f64])
        };
        self.view.iter().map(row).collect()
    }
}

/// Revenue that small discounts cost.
#[derive(Default)]
pub struct Q6(i64);

impl Bare for Q6 {
    fn apply(&mut self, event: Event<'_>) {
        let &[shipdate, discount, quantity, price] = event.row else {
            unreachable!("four columns")
        };
        if (date::Y1994..date::Y1995).contains(&shipdate)
            && (5..=7).contains(&discount)
            && quantity < 2400
        {
            self.0 += event.weight * price as i64 * discount as i64;
        }
    }

    fn answer(&self) -> Answer {
        single(vec![self.0 as f64 * 1e-4])
    }
}

/// Value of stock, by part.
#[derive(Default)]
pub struct Q11a {
    view: Map<u64, [i64; 2]>,
    suppliers: Map<u64, [i64; 1]>,
    /// By supplier: part, and value.
    parts: Map<u64, Vec<(u64, i64)>>,
}

impl Bare for Q11a {
    fn apply(&mut self, event: Event<'_>) {
        match (event.relation, event.row) {
            (0, &[part, supplier, quantity, cost]) => {
                let value = quantity as i64 * cost as i64;
                if let Some(&[count]) = self.suppliers.get(&supplier) {
                    add(&mut self.view, part, [count, count * value].map(|v| v * event.weight));
                }
                let parts = self.parts.entry(supplier).or_default();
                if event.weight > 0 {
                    parts.push((part, value));
                } else if let Some(at) = parts.iter().position(|&known| known == (part, value)) {
                    parts.swap_remove(at);
                }
            }
            (1, &[supplier]) => {
                for &(part, value) in self.parts.get(&supplier).into_iter().flatten() {
                    add(&mut self.view, part, [event.weight, event.weight * value]);
                }
                add(&mut self.suppliers, supplier, [event.weight]);
            }
            _ => unreachable!("two streams"),
        }
    }

    fn answer(&self) -> Answer {
        let row = |(&part, sums): (&u64, &[i64; 2])| {
            (vec![part.to_string()], vec![sums[1] as f64 * CENT])
        };
        self.view.iter().map(row).collect()
    }
}

/// Late lines by ship mode, of urgent and of other orders.
#[derive(Default)]
pub struct Q12 {
    modes: [u64; 2],
    urgent: [u64; 2],
    /// By mode: count, urgent, others.
    view: Map<u64, [i64; 3]>,
    /// By order: count of urgent and of other ones.
    orders: Map<u64, [i64; 3]>,
    /// By order: lines of the two modes.
    lines: Map<u64, [i64; 3]>,
    texts: Vec<String>,
}

impl Bare for Q12 {
    fn prepare(&mut self, events: &Events) {
        self.modes = ["MAIL", "SHIP"].map(|mode| number_of(events, mode));
        self.urgent = ["1-URGENT", "2-HIGH"].map(|priority| number_of(events, priority));
        self.texts.clone_from(&events.texts);
    }

    fn apply(&mut self, event: Event<'_>) {
        match (event.relation, event.row) {
            (0, &[order, mode, shipdate, commitdate, receiptdate]) => {
                if self.modes.contains(&mode)
                    && commitdate < receiptdate
                    && shipdate < commitdate
                    && (date::Y1994..date::Y1995).contains(&receiptdate)
                {
                    if let Some(counts) = self.orders.get(&order) {
                        add(&mut self.view, mode, counts.map(|count| count * event.weight));
                    }
                    let first = i64::from(mode == self.modes[0]);
                    let line = [1, first, 1 - first].map(|value| value * event.weight);
                    add(&mut self.lines, order, line);
                }
            }
            (1, &[order, priority]) => {
                let urgent = i64::from(self.urgent.contains(&priority));
                let counts = [1, urgent, 1 - urgent].map(|value| value * event.weight);
                if let Some(&[_, first, second]) = self.lines.get(&order) {
                    for (mode, lines) in self.modes.into_iter().zip([first, second]) {
                        if lines != 0 {
                            add(&mut self.view, mode, counts.map(|count| count * lines));
                        }
                    }
                }
                add(&mut self.orders, order, counts);
            }
            _ => unreachable!("two streams"),
        }
    }

    fn answer(&self) -> Answer {
        let row = |(&mode, &[_, urgent, others]): (&u64, &[i64; 3])| {
            (vec![self.texts[mode as usize].clone()], vec![urgent as f64, others as f64])
        };
        self.view.iter().map(row).collect()
    }
}

/// Revenue of promotions within all revenue.
#[derive(Default)]
pub struct Q14 {
    promo: Vec<bool>,
    sums: [i64; 2],
    /// By part: count, and how many are promoted.
    parts: Map<u64, [i64; 2]>,
    /// By part: count and revenue of its lines.
    lines: Map<u64, [i64; 2]>,
}

impl Bare for Q14 {
    fn prepare(&mut self, events: &Events) {
        self.promo = events.texts.iter().map(|text| text.starts_with("PROMO")).collect();
    }

    fn apply(&mut self, event: Event<'_>) {
        match (event.relation, event.row) {
            (0, &[part, price, discount, shipdate]) => {
                if (date::Y1995_09..date::Y1995_10).contains(&shipdate) {
                    let revenue = event.weight * revenue(price, discount);
                    if let Some(&[count, promo]) = self.parts.get(&part) {
                        self.sums[0] += promo * revenue;
                        self.sums[1] += count * revenue;
                    }
                    add(&mut self.lines, part, [event.weight, revenue]);
                }
            }
            (1, &[part, ptype]) => {
                let promo = event.weight * i64::from(self.promo[ptype as usize]);
                if let Some(&[_, revenue]) = self.lines.get(&part) {
                    self.sums[0] += promo * revenue;
                    self.sums[1] += event.weight * revenue;
                }
                add(&mut self.parts, part, [event.weight, promo]);
            }
            _ => unreachable!("two streams"),
        }
    }

    fn answer(&self) -> Answer {
        single(self.sums.map(|sum| sum as f64 * 1e-4).to_vec())
    }
}

/// Price of small orders of a part, small being measured by all orders of the part.
#[derive(Default)]
pub struct Q17a {
    view: i64,
    parts: Map<u64, [i64; 1]>,
    /// By part: total quantity, and by quantity count and price.
    lines: Map<u64, (i64, Map<u64, [i64; 2]>)>,
}

fn small(total: i64, lines: &Map<u64, [i64; 2]>) -> i64 {
    let small = lines.iter().filter(|&(&quantity, _)| quantity as i64 * 1000 < 5 * total);
    small.map(|(_, sums)| sums[1]).sum()
}

impl Bare for Q17a {
    fn apply(&mut self, event: Event<'_>) {
        match (event.relation, event.row) {
            (0, &[part, quantity, price]) => {
                let (total, lines) = self.lines.entry(part).or_default();
                let count = self.parts.get(&part).map_or(0, |count| count[0]);
                if count != 0 {
                    self.view -= count * small(*total, lines);
                }
                *total += event.weight * quantity as i64;
                add(lines, quantity, [event.weight, event.weight * price as i64]);
                if count != 0 {
                    self.view += count * small(*total, lines);
                }
            }
            (1, &[part]) => {
                if let Some((total, lines)) = self.lines.get(&part) {
                    self.view += event.weight * small(*total, lines);
                }
                add(&mut self.parts, part, [event.weight]);
            }
            _ => unreachable!("two streams"),
        }
    }

    fn answer(&self) -> Answer {
        single(vec![self.view as f64 * CENT])
    }
}

/// Quantity of customers' large orders.
#[derive(Default)]
pub struct Q18a {
    view: Map<u64, [i64; 2]>,
    customers: Map<u64, [i64; 1]>,
    /// By order: its customer.
    orders: Map<u64, u64>,
    orders_of: Map<u64, Vec<u64>>,
    /// By order: count and quantity.
    lines: Map<u64, [i64; 2]>,
}

impl Q18a {
    /// Adds an order's lines to the view, if they are many and the order and its customer known.
    fn add(&mut self, order: u64, weight: i64) {
        let lines = self.lines.get(&order).copied().unwrap_or_default();
        if lines[1] <= 10_000 {
            return;
        }
        let Some(&customer) = self.orders.get(&order) else { return };
        if let Some(&[count]) = self.customers.get(&customer) {
            add(&mut self.view, customer, lines.map(|value| value * count * weight));
        }
    }
}

impl Bare for Q18a {
    fn apply(&mut self, event: Event<'_>) {
        match (event.relation, event.row) {
            (0, &[order, quantity]) => {
                self.add(order, -1);
                add(&mut self.lines, order, [event.weight, event.weight * quantity as i64]);
                self.add(order, 1);
            }
            (1, &[order, customer]) => {
                if event.weight > 0 {
                    self.orders.insert(order, customer);
                    self.orders_of.entry(customer).or_default().push(order);
                    self.add(order, 1);
                } else {
                    self.add(order, -1);
                    self.orders.remove(&order);
                    let orders = self.orders_of.get_mut(&customer).expect("it has this order");
                    orders.retain(|&other| other != order);
                }
            }
            (2, &[customer]) => {
                let orders = self.orders_of.get(&customer).cloned().unwrap_or_default();
                orders.iter().for_each(|&order| self.add(order, -1));
                add(&mut self.customers, customer, [event.weight]);
                orders.iter().for_each(|&order| self.add(order, 1));
            }
            _ => unreachable!("three streams"),
        }
    }

    fn answer(&self) -> Answer {
        let row = |(&customer, sums): (&u64, &[i64; 2])| {
            (vec![customer.to_string()], vec![sums[1] as f64 * CENT])
        };
        self.view.iter().map(row).collect()
    }
}
