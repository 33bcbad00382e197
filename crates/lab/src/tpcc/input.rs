//! Inputs of transactions, drawn before a transaction begins, so that every engine gets the same.

use clap::ValueEnum;

use super::random::{DISTRICTS, Random, last_name};

/// The five types of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    /// Puts in an order of five to fifteen lines.
    NewOrder,
    /// Books a customer's payment.
    Payment,
    /// Shows a customer's last order; only reads.
    OrderStatus,
    /// Delivers the oldest order of each of ten districts.
    Delivery,
    /// Counts what is short in a district's last twenty orders; only reads.
    StockLevel,
}

impl Type {
    /// All five.
    pub const ALL: [Type; 5] =
        [Type::NewOrder, Type::Payment, Type::OrderStatus, Type::Delivery, Type::StockLevel];

    /// The name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Type::NewOrder => "new_order",
            Type::Payment => "payment",
            Type::OrderStatus => "order_status",
            Type::Delivery => "delivery",
            Type::StockLevel => "stock_level",
        }
    }

    /// Whether it writes nothing.
    pub fn only_reads(self) -> bool {
        matches!(self, Type::OrderStatus | Type::StockLevel)
    }
}

/// How often each type comes: the mixes of P1 §5, by their share of reading transactions.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// TPC-C's own: 8 % read
    #[value(name = "standard")]
    Standard,
    /// 50 % read
    #[value(name = "50-50")]
    Half,
    /// 80 % read
    #[value(name = "80-20")]
    MostlyReads,
    /// 100 % read
    #[value(name = "100-0")]
    Reads,
}

impl Mix {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Standard => "standard",
            Mix::Half => "50-50",
            Mix::MostlyReads => "80-20",
            Mix::Reads => "100-0",
        }
    }

    fn read_percent(self) -> u32 {
        match self {
            Mix::Standard => 8,
            Mix::Half => 50,
            Mix::MostlyReads => 80,
            Mix::Reads => 100,
        }
    }

    /// The next type. Both readers are as frequent; writers stand 45 : 43 : 4 as in TPC-C.
    fn draw(self, random: &mut Random) -> Type {
        if random.percent(self.read_percent()) {
            return if random.percent(50) { Type::OrderStatus } else { Type::StockLevel };
        }
        match random.below(92) {
            0..45 => Type::NewOrder,
            45..88 => Type::Payment,
            _ => Type::Delivery,
        }
    }
}

/// A reference to a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// By number.
    Id(i32),
    /// By last name; the middle one of several, in order of first names.
    Name(String),
}

/// A line of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// What is ordered; one number beyond the items in an order that must be rolled back.
    pub item: i32,
    /// The warehouse that supplies it.
    pub supply: i32,
    /// How many.
    pub quantity: i32,
}

/// Clause 2.4.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// Home warehouse.
    pub w: i32,
    /// District.
    pub d: i32,
    /// Customer.
    pub c: i32,
    /// Microseconds since 1970.
    pub at: i64,
    /// Lines in order of supplying warehouse and item, the order in which stock is locked; an
    /// unused item stands last (2.4.1.5).
    pub lines: Vec<Line>,
    /// Whether the last item does not exist.
    pub unused_item: bool,
}

/// Clause 2.5.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Warehouse that gets the money.
    pub w: i32,
    /// District that gets the money.
    pub d: i32,
    /// Warehouse of the customer: another one in 15 % of the cases.
    pub c_w: i32,
    /// District of the customer.
    pub c_d: i32,
    /// Customer: by name in 60 % of the cases.
    pub who: Who,
    /// In cents.
    pub amount: i64,
    /// Microseconds since 1970.
    pub at: i64,
}

/// Clause 2.6.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    /// Warehouse.
    pub w: i32,
    /// District.
    pub d: i32,
    /// Customer.
    pub who: Who,
}

/// Clause 2.7.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Warehouse.
    pub w: i32,
    /// Carrier.
    pub carrier: i32,
    /// Microseconds since 1970.
    pub at: i64,
}

/// Clause 2.8.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockLevel {
    /// Warehouse.
    pub w: i32,
    /// District.
    pub d: i32,
    /// What less of than counts as short.
    pub threshold: i32,
}

/// The input of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// See [`NewOrder`].
    NewOrder(NewOrder),
    /// See [`Payment`].
    Payment(Payment),
    /// See [`OrderStatus`].
    OrderStatus(OrderStatus),
    /// See [`Delivery`].
    Delivery(Delivery),
    /// See [`StockLevel`].
    StockLevel(StockLevel),
}

impl Input {
    /// The type of transaction.
    pub fn kind(&self) -> Type {
        match self {
            Input::NewOrder(_) => Type::NewOrder,
            Input::Payment(_) => Type::Payment,
            Input::OrderStatus(_) => Type::OrderStatus,
            Input::Delivery(_) => Type::Delivery,
            Input::StockLevel(_) => Type::StockLevel,
        }
    }

    /// The input as a line of numbers for a driver in another process: the type, then the fields in
    /// order, a customer as number and name (`0 NAME` or `7 -`).
    pub fn line(&self) -> String {
        let who = |who: &Who| match who {
            Who::Id(id) => format!("{id} -"),
            Who::Name(name) => format!("0 {name}"),
        };
        match self {
            Input::NewOrder(o) => {
                let mut text = format!("0 {} {} {} {} {}", o.w, o.d, o.c, o.at, o.lines.len());
                for line in &o.lines {
                    text += &format!(" {} {} {}", line.item, line.supply, line.quantity);
                }
                text
            }
            Input::Payment(p) => {
                let who = who(&p.who);
                format!("1 {} {} {} {} {who} {} {}", p.w, p.d, p.c_w, p.c_d, p.amount, p.at)
            }
            Input::OrderStatus(o) => format!("2 {} {} {}", o.w, o.d, who(&o.who)),
            Input::Delivery(d) => format!("3 {} {} {}", d.w, d.carrier, d.at),
            Input::StockLevel(s) => format!("4 {} {} {}", s.w, s.d, s.threshold),
        }
    }
}

/// The inputs of one client, whose home is one warehouse.
#[derive(Clone, Debug)]
pub struct Inputs {
    random: Random,
    mix: Mix,
    home: i32,
    /// The present moment. Moments advance by a millisecond from the start, because a clock would
    /// make runs differ.
    at: i64,
}

impl Inputs {
    /// Client number `client`, from 0; clients are at home in the warehouses in turn.
    pub fn new(random: Random, mix: Mix, client: u32) -> Self {
        let home = client as i32 % random.scale.warehouses + 1;
        Inputs { random, mix, home, at: super::load::START_US + 3_600_000_000 }
    }

    /// The next input.
    pub fn draw(&mut self) -> Input {
        self.at += 1_000;
        let d = self.random.number(1, DISTRICTS);
        match self.mix.draw(&mut self.random) {
            Type::NewOrder => Input::NewOrder(self.new_order(d)),
            Type::Payment => Input::Payment(self.payment(d)),
            Type::OrderStatus => {
                let who = self.who();
                Input::OrderStatus(OrderStatus { w: self.home, d, who })
            }
            Type::Delivery => {
                let carrier = self.random.number(1, 10);
                Input::Delivery(Delivery { w: self.home, carrier, at: self.at })
            }
            Type::StockLevel => {
                let threshold = self.random.number(10, 20);
                Input::StockLevel(StockLevel { w: self.home, d, threshold })
            }
        }
    }

    /// By last name in 60 % of the cases.
    fn who(&mut self) -> Who {
        match self.random.percent(60) {
            true => Who::Name(last_name(self.random.name())),
            false => Who::Id(self.random.customer()),
        }
    }

    /// A warehouse that is not the client's own, if there is one.
    fn other_warehouse(&mut self) -> i32 {
        let count = self.random.scale.warehouses;
        if count == 1 {
            return 1;
        }
        let other = self.random.number(1, count - 1);
        if other >= self.home { other + 1 } else { other }
    }

    fn new_order(&mut self, d: i32) -> NewOrder {
        let c = self.random.customer();
        let count = self.random.number(5, 15);
        let unused_item = self.random.percent(1);
        let mut lines = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let item = self.random.item();
            let remote = self.random.percent(1);
            let supply = if remote { self.other_warehouse() } else { self.home };
            lines.push(Line { item, supply, quantity: self.random.number(1, 10) });
        }
        lines.sort_unstable_by_key(|line| (line.supply, line.item));
        if unused_item {
            let last = lines.last_mut().expect("at least five lines");
            last.item = self.random.scale.items + 1;
        }
        NewOrder { w: self.home, d, c, at: self.at, lines, unused_item }
    }

    fn payment(&mut self, d: i32) -> Payment {
        let (c_w, c_d) = match self.random.percent(85) {
            true => (self.home, d),
            false => (self.other_warehouse(), self.random.number(1, DISTRICTS)),
        };
        let who = self.who();
        let amount = i64::from(self.random.number(100, 500_000));
        Payment { w: self.home, d, c_w, c_d, who, amount, at: self.at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::random::Scale;

    fn many(mix: Mix) -> Vec<Input> {
        let mut inputs = Inputs::new(Random::new(Scale::full(4), 11, 3), mix, 1);
        (0..50_000).map(|_| inputs.draw()).collect()
    }

    fn percent(part: usize, of: usize) -> f64 {
        part as f64 * 100.0 / of as f64
    }

    #[test]
    fn mixes_have_their_share_of_reads() {
        for (mix, share) in [(Mix::Standard, 8.0), (Mix::Half, 50.0), (Mix::MostlyReads, 80.0)] {
            let inputs = many(mix);
            let reads = inputs.iter().filter(|input| input.kind().only_reads()).count();
            assert!((percent(reads, inputs.len()) - share).abs() < 1.0, "{mix:?}: {reads}");
        }
        assert!(many(Mix::Reads).iter().all(|input| input.kind().only_reads()));
    }

    #[test]
    fn the_standard_mix_has_the_rules_shares() {
        let inputs = many(Mix::Standard);
        let count = |wanted: Type| inputs.iter().filter(|input| input.kind() == wanted).count();
        for (kind, share) in [
            (Type::NewOrder, 45.0),
            (Type::Payment, 43.0),
            (Type::Delivery, 4.0),
            (Type::OrderStatus, 4.0),
            (Type::StockLevel, 4.0),
        ] {
            let found = percent(count(kind), inputs.len());
            assert!((found - share).abs() < 1.0, "{kind:?}: {found}");
        }
    }

    #[test]
    fn orders_and_payments_are_as_the_rules_draw_them() {
        let (mut orders, mut unused, mut lines, mut remote) = (0, 0, 0, 0);
        let (mut payments, mut elsewhere, mut by_name) = (0, 0, 0);
        for input in many(Mix::Standard) {
            match input {
                Input::NewOrder(order) => {
                    orders += 1;
                    unused += usize::from(order.unused_item);
                    assert!((5..=15).contains(&order.lines.len()));
                    lines += order.lines.len();
                    remote += order.lines.iter().filter(|line| line.supply != 2).count();
                    let good = &order.lines[..order.lines.len() - usize::from(order.unused_item)];
                    assert!(good.is_sorted_by_key(|line| (line.supply, line.item)));
                    let last = order.lines.last().unwrap().item;
                    assert_eq!(last == 100_001, order.unused_item);
                }
                Input::Payment(payment) => {
                    payments += 1;
                    elsewhere += usize::from(payment.c_w != 2);
                    by_name += usize::from(matches!(payment.who, Who::Name(_)));
                }
                _ => {}
            }
        }
        assert!((percent(unused, orders) - 1.0).abs() < 0.4, "{unused} of {orders}");
        assert!((percent(remote, lines) - 1.0).abs() < 0.2, "{remote} of {lines}");
        assert!((percent(elsewhere, payments) - 15.0).abs() < 1.5, "{elsewhere} of {payments}");
        assert!((percent(by_name, payments) - 60.0).abs() < 2.0, "{by_name} of {payments}");
    }
}
