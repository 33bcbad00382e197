//! TPC-H's tables as streams: a row of every table in turn, until all have ended.

use tpchgen::dates::TPCHDate;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    SupplierGenerator,
};

use super::events::{Events, Relation};
use halcyon_base::rng::Rng;

/// A row: a word per wanted column. Texts go through the events' own numbers.
type Rows = Box<dyn FnMut(&mut Events) -> Option<Vec<u64>>>;

/// Inserts of whole tables at scale factor `sf`.
pub fn inserts(sf: f64, relations: Vec<Relation>) -> Events {
    let mut events = Events::new(relations);
    let columns = |relation: &Relation| relation.columns.iter().map(|column| column.0).collect();
    let mut tables: Vec<Option<Rows>> = events
        .relations
        .iter()
        .map(|relation| Some(rows(sf, relation.name, columns(relation))))
        .collect();
    while tables.iter().any(Option::is_some) {
        for (relation, slot) in tables.iter_mut().enumerate() {
            let Some(table) = slot else { continue };
            match table(&mut events) {
                Some(row) => events.push(relation, 1, &row),
                None => *slot = None,
            }
        }
    }
    events
}

/// The same inserts, with every fourth event the delete of a row that is there.
pub fn with_deletions(inserts: &Events, seed: u64) -> Events {
    let mut rng = Rng::new(seed);
    let mut live: Vec<usize> = Vec::new();
    let mut events = Events::new(inserts.relations.clone());
    events.texts.clone_from(&inserts.texts);
    for index in 0..inserts.len() {
        let event = inserts.get(index);
        events.push(event.relation, 1, event.row);
        live.push(index);
        if rng.below(3) == 0 {
            let gone = inserts.get(live.swap_remove(rng.below(live.len() as u64) as usize));
            events.push(gone.relation, -1, gone.row);
        }
    }
    events
}

/// Days since 1970-01-01.
fn days(date: TPCHDate) -> u64 {
    date.to_unix_epoch() as u64
}

fn rows(sf: f64, table: &'static str, columns: Vec<&'static str>) -> Rows {
    macro_rules! table {
        ($generator:ident, |$row:ident, $events:ident| { $($column:literal => $value:expr),* $(,)? }) => {{
            let mut rows = $generator::new(sf, 1, 1).iter();
            Box::new(move |$events: &mut Events| {
                let $row = rows.next()?;
                let mut words = Vec::with_capacity(columns.len());
                for column in &columns {
                    words.push(match *column {
                        $($column => $value,)*
                        other => panic!("{table} has no column {other} here"),
                    });
                }
                Some(words)
            })
        }};
    }
    match table {
        "lineitem" => table!(LineItemGenerator, |row, events| {
            "orderkey" => row.l_orderkey as u64,
            "partkey" => row.l_partkey as u64,
            "quantity" => row.l_quantity as u64 * 100,
            "extendedprice" => row.l_extendedprice.0 as u64,
            "discount" => row.l_discount.0 as u64,
            "tax" => row.l_tax.0 as u64,
            "returnflag" => events.text(row.l_returnflag),
            "linestatus" => events.text(row.l_linestatus),
            "shipmode" => events.text(row.l_shipmode),
            "shipdate" => days(row.l_shipdate),
            "commitdate" => days(row.l_commitdate),
            "receiptdate" => days(row.l_receiptdate),
        }),
        "orders" => table!(OrderGenerator, |row, events| {
            "orderkey" => row.o_orderkey as u64,
            "custkey" => row.o_custkey as u64,
            "orderdate" => days(row.o_orderdate),
            "orderpriority" => events.text(row.o_orderpriority),
            "shippriority" => row.o_shippriority as u64,
        }),
        "customer" => table!(CustomerGenerator, |row, events| {
            "custkey" => row.c_custkey as u64,
            "mktsegment" => events.text(row.c_mktsegment),
        }),
        "part" => table!(PartGenerator, |row, events| {
            "partkey" => row.p_partkey as u64,
            "ptype" => events.text(row.p_type),
        }),
        "partsupp" => table!(PartSuppGenerator, |row, _events| {
            "partkey" => row.ps_partkey as u64,
            "suppkey" => row.ps_suppkey as u64,
            "availqty" => row.ps_availqty as u64,
            "supplycost" => row.ps_supplycost.0 as u64,
        }),
        "supplier" => table!(SupplierGenerator, |row, _events| {
            "suppkey" => row.s_suppkey as u64,
        }),
        other => panic!("no stream of {other}"),
    }
}
