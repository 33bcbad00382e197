//! The 22 queries of TPC-H as views, without ORDER BY and LIMIT, over a tiny database of its shape
//! whose values make every predicate true now and then, while rows of all eight tables come and go.

mod common;

use arrow::datatypes::DataType::{self, Date32, Int64, Utf8};
use common::{Db, Random, ScalarRow, Table, View};
use datafusion::common::ScalarValue as V;

const MONEY: DataType = DataType::Decimal128(15, 2);

fn database() -> Db {
    let no = false;
    Db::new(vec![
        Table::new("region", &[("r_regionkey", Int64, no), ("r_name", Utf8, no)], &[&[0]]),
        Table::new(
            "nation",
            &[("n_nationkey", Int64, no), ("n_name", Utf8, no), ("n_regionkey", Int64, no)],
            &[&[0]],
        ),
        Table::new(
            "supplier",
            &[
                ("s_suppkey", Int64, no),
                ("s_name", Utf8, no),
                ("s_address", Utf8, no),
                ("s_nationkey", Int64, no),
                ("s_phone", Utf8, no),
                ("s_acctbal", MONEY, no),
                ("s_comment", Utf8, no),
            ],
            &[&[0]],
        ),
        Table::new(
            "part",
            &[
                ("p_partkey", Int64, no),
                ("p_name", Utf8, no),
                ("p_mfgr", Utf8, no),
                ("p_brand", Utf8, no),
                ("p_type", Utf8, no),
                ("p_size", Int64, no),
                ("p_container", Utf8, no),
            ],
            &[&[0]],
        ),
        Table::new(
            "partsupp",
            &[
                ("ps_partkey", Int64, no),
                ("ps_suppkey", Int64, no),
                ("ps_availqty", Int64, no),
                ("ps_supplycost", MONEY, no),
            ],
            &[&[0, 1]],
        ),
        Table::new(
            "customer",
            &[
                ("c_custkey", Int64, no),
                ("c_name", Utf8, no),
                ("c_address", Utf8, no),
                ("c_nationkey", Int64, no),
                ("c_phone", Utf8, no),
                ("c_acctbal", MONEY, no),
                ("c_mktsegment", Utf8, no),
                ("c_comment", Utf8, no),
            ],
            &[&[0]],
        ),
        Table::new(
            "orders",
            &[
                ("o_orderkey", Int64, no),
                ("o_custkey", Int64, no),
                ("o_orderstatus", Utf8, no),
                ("o_totalprice", MONEY, no),
                ("o_orderdate", Date32, no),
                ("o_orderpriority", Utf8, no),
                ("o_shippriority", Int64, no),
                ("o_comment", Utf8, no),
            ],
            &[&[0]],
        ),
        Table::new(
            "lineitem",
            &[
                ("l_orderkey", Int64, no),
                ("l_partkey", Int64, no),
                ("l_suppkey", Int64, no),
                ("l_linenumber", Int64, no),
                ("l_quantity", MONEY, no),
                ("l_extendedprice", MONEY, no),
                ("l_discount", MONEY, no),
                ("l_tax", MONEY, no),
                ("l_returnflag", Utf8, no),
                ("l_linestatus", Utf8, no),
                ("l_shipdate", Date32, no),
                ("l_commitdate", Date32, no),
                ("l_receiptdate", Date32, no),
                ("l_shipinstruct", Utf8, no),
                ("l_shipmode", Utf8, no),
            ],
            &[&[0, 3]],
        ),
    ])
}

const NATIONS: [&str; 6] = ["FRANCE", "GERMANY", "BRAZIL", "SAUDI ARABIA", "CANADA", "INDIA"];
const REGIONS: [&str; 3] = ["EUROPE", "AMERICA", "ASIA"];

struct Values<'r>(&'r mut Random);

impl Values<'_> {
    fn key(&mut self, of: usize) -> V {
        V::Int64(Some(self.0.below(of) as i64))
    }

    fn word(&mut self, of: &[&str]) -> V {
        V::Utf8(Some((*self.0.pick(of)).to_owned()))
    }

    fn money(&mut self, from: i64, to: i64) -> V {
        let value = from + self.0.below((to - from) as usize) as i64;
        V::Decimal128(Some(value.into()), 15, 2)
    }

    /// A day in 1993 to 1996, one of few, so that rows meet.
    fn day(&mut self) -> V {
        V::Date32(Some(8401 + 30 * self.0.below(48) as i32))
    }

    fn row(&mut self, table: &str) -> ScalarRow {
        let phones = ["13-555", "31-555", "23-555", "29-555", "17-555", "99-555"];
        match table {
            "region" => {
                let key = self.0.below(3);
                vec![V::Int64(Some(key as i64)), V::Utf8(Some(REGIONS[key].into()))]
            }
            "nation" => {
                let key = self.0.below(6);
                let name = V::Utf8(Some(NATIONS[key].into()));
                vec![V::Int64(Some(key as i64)), name, V::Int64(Some(key as i64 % 3))]
            }
            "supplier" => {
                let comments = ["good", "Customer said Complaints", "Customer Recommends"];
                vec![
                    self.key(6),
                    self.word(&["s1", "s2", "s3"]),
                    self.word(&["here", "there"]),
                    self.key(6),
                    self.word(&phones),
                    self.money(-100, 900),
                    self.word(&comments),
                ]
            }
            "part" => vec![
                self.key(8),
                self.word(&["green apple", "forest pine", "forest green", "blue sky"]),
                self.word(&["m1", "m2"]),
                self.word(&["Brand#12", "Brand#23", "Brand#34", "Brand#45"]),
                self.word(&["PROMO BRASS", "ECONOMY ANODIZED STEEL", "MEDIUM POLISHED TIN"]),
                {
                    let size = *self.0.pick(&[1, 5, 9, 15]);
                    V::Int64(Some(size))
                },
                self.word(&["SM CASE", "MED BOX", "LG CASE"]),
            ],
            "partsupp" => {
                vec![self.key(8), self.key(6), self.key(100), self.money(1, 500)]
            }
            "customer" => vec![
                self.key(8),
                self.word(&["c1", "c2", "c3"]),
                self.word(&["here", "there"]),
                self.key(6),
                self.word(&phones),
                self.money(-300, 900),
                self.word(&["BUILDING", "AUTOMOBILE"]),
                self.word(&["", "slow"]),
            ],
            "orders" => vec![
                self.key(14),
                self.key(8),
                self.word(&["F", "O"]),
                self.money(1000, 9000),
                self.day(),
                self.word(&["1-URGENT", "2-HIGH", "3-MEDIUM"]),
                self.key(2),
                self.word(&["fine", "special packages and requests"]),
            ],
            _ => vec![
                self.key(14),
                self.key(8),
                self.key(6),
                self.key(4),
                self.money(100, 4000),
                self.money(1000, 90000),
                self.money(0, 10),
                self.money(0, 8),
                self.word(&["A", "N", "R"]),
                self.word(&["F", "O"]),
                self.day(),
                self.day(),
                self.day(),
                self.word(&["DELIVER IN PERSON", "NONE"]),
                self.word(&["AIR", "MAIL", "SHIP", "REG AIR"]),
            ],
        }
    }
}

/// An insert of a row whose key is free, or a delete; tables stay near their sizes.
fn event(db: &mut Db, random: &mut Random) -> Option<(String, ScalarRow, i64)> {
    let shares = [1, 2, 3, 4, 6, 4, 8, 20];
    let mut at = random.below(shares.iter().sum());
    let index = shares.iter().position(|share| {
        let here = at < *share;
        at = at.saturating_sub(*share);
        here
    });
    let table = &mut db.tables[index.unwrap()];
    let name = table.name.clone();
    let full = table.rows.len() > [3, 6, 5, 7, 22, 7, 12, 40][index.unwrap()];
    if !table.rows.is_empty() && random.chance(if full { 70 } else { 15 }) {
        let row = random.below(table.rows.len());
        return Some((name, table.rows.swap_remove(row), -1));
    }
    let row = Values(random).row(&name);
    let taken = |key: &Vec<usize>| {
        table.rows.iter().any(|other| key.iter().all(|column| other[*column] == row[*column]))
    };
    if table.unique.iter().any(taken) {
        return None;
    }
    table.rows.push(row.clone());
    Some((name, row, 1))
}

const QUERIES: [(&str, &str); 23] = [
    (
        "1",
        "SELECT l_returnflag, l_linestatus, SUM(l_quantity), SUM(l_extendedprice), \
         SUM(l_extendedprice * (1 - l_discount)), \
         SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)), AVG(l_quantity), \
         AVG(l_extendedprice), AVG(l_discount), COUNT(*) FROM lineitem \
         WHERE l_shipdate <= DATE '1996-12-01' - INTERVAL '90' DAY GROUP BY l_returnflag, l_linestatus",
    ),
    (
        "2",
        "SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment \
         FROM part, supplier, partsupp, nation, region WHERE p_partkey = ps_partkey \
         AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS' \
         AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE' \
         AND ps_supplycost = (SELECT MIN(ps_supplycost) FROM partsupp, supplier, nation, region \
         WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey \
         AND n_regionkey = r_regionkey AND r_name = 'EUROPE')",
    ),
    (
        "3",
        "SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, \
         o_shippriority FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' \
         AND c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15' \
         AND l_shipdate > DATE '1995-03-15' GROUP BY l_orderkey, o_orderdate, o_shippriority",
    ),
    (
        "4",
        "SELECT o_orderpriority, COUNT(*) FROM orders WHERE o_orderdate >= DATE '1994-01-01' \
         AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR AND EXISTS (SELECT * FROM lineitem \
         WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate) GROUP BY o_orderpriority",
    ),
    (
        "5",
        "SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) FROM customer, orders, lineitem, \
         supplier, nation, region WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey \
         AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey \
         AND n_regionkey = r_regionkey AND r_name IN ('ASIA', 'EUROPE', 'AMERICA') AND o_orderdate >= DATE '1993-01-01' \
         AND o_orderdate < DATE '1993-01-01' + INTERVAL '3' YEAR GROUP BY n_name",
    ),
    (
        "6",
        "SELECT SUM(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' \
         AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR \
         AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    ),
    (
        "7",
        "SELECT supp_nation, cust_nation, l_year, SUM(volume) FROM (SELECT n1.n_name AS supp_nation, \
         n2.n_name AS cust_nation, EXTRACT(YEAR FROM l_shipdate) AS l_year, \
         l_extendedprice * (1 - l_discount) AS volume FROM supplier, lineitem, orders, customer, \
         nation n1, nation n2 WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey \
         AND c_custkey = o_custkey AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey \
         AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') \
         OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE')) \
         AND l_shipdate BETWEEN DATE '1993-01-01' AND DATE '1996-12-31') AS shipping \
         GROUP BY supp_nation, cust_nation, l_year",
    ),
    (
        "8",
        "SELECT o_year, SUM(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / SUM(volume) FROM \
         (SELECT EXTRACT(YEAR FROM o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, \
         n2.n_name AS nation FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, \
         region WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey \
         AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey \
         AND r_name = 'AMERICA' AND s_nationkey = n2.n_nationkey \
         AND o_orderdate BETWEEN DATE '1993-01-01' AND DATE '1996-12-31' \
         AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations GROUP BY o_year",
    ),
    (
        "9",
        "SELECT nation, o_year, SUM(amount) FROM (SELECT n_name AS nation, \
         EXTRACT(YEAR FROM o_orderdate) AS o_year, \
         l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount \
         FROM part, supplier, lineitem, partsupp, orders, nation WHERE s_suppkey = l_suppkey \
         AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey \
         AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%') \
         AS profit GROUP BY nation, o_year",
    ),
    (
        "10",
        "SELECT c_custkey, c_name, SUM(l_extendedprice * (1 - l_discount)), c_acctbal, n_name, \
         c_address, c_phone, c_comment FROM customer, orders, lineitem, nation \
         WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01' \
         AND o_orderdate < DATE '1993-10-01' + INTERVAL '12' MONTH AND l_returnflag = 'R' \
         AND c_nationkey = n_nationkey GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, \
         c_address, c_comment",
    ),
    (
        "11",
        "SELECT ps_partkey, SUM(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation \
         WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY' \
         GROUP BY ps_partkey HAVING SUM(ps_supplycost * ps_availqty) > \
         (SELECT SUM(ps_supplycost * ps_availqty) * 0.3 FROM partsupp, supplier, nation \
         WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')",
    ),
    (
        "11a",
        "SELECT ps_partkey, SUM(ps_supplycost * ps_availqty) FROM partsupp, supplier \
         WHERE ps_suppkey = s_suppkey GROUP BY ps_partkey",
    ),
    (
        "12",
        "SELECT l_shipmode, SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' \
         THEN 1 ELSE 0 END), SUM(CASE WHEN o_orderpriority <> '1-URGENT' \
         AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) FROM orders, lineitem \
         WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') \
         AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate \
         AND l_receiptdate >= DATE '1994-01-01' \
         AND l_receiptdate < DATE '1994-01-01' + INTERVAL '2' YEAR GROUP BY l_shipmode",
    ),
    (
        "13",
        "SELECT c_count, COUNT(*) FROM (SELECT c_custkey, COUNT(o_orderkey) AS c_count FROM customer \
         LEFT OUTER JOIN orders ON c_custkey = o_custkey \
         AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey) AS c_orders GROUP BY c_count",
    ),
    (
        "14",
        "SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) \
         ELSE 0 END) / SUM(l_extendedprice * (1 - l_discount)) FROM lineitem, part \
         WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-01-01' \
         AND l_shipdate < DATE '1995-01-01' + INTERVAL '1' YEAR",
    ),
    (
        "15",
        "WITH revenue AS (SELECT l_suppkey AS supplier_no, \
         SUM(l_extendedprice * (1 - l_discount)) AS total_revenue FROM lineitem \
         WHERE l_shipdate >= DATE '1995-01-01' AND l_shipdate < DATE '1995-01-01' + INTERVAL '9' MONTH \
         GROUP BY l_suppkey) SELECT s_suppkey, s_name, s_address, s_phone, total_revenue \
         FROM supplier, revenue WHERE s_suppkey = supplier_no \
         AND total_revenue = (SELECT MAX(total_revenue) FROM revenue)",
    ),
    (
        "16",
        "SELECT p_brand, p_type, p_size, COUNT(DISTINCT ps_suppkey) FROM partsupp, part \
         WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%' \
         AND p_size IN (1, 9, 15) AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier \
         WHERE s_comment LIKE '%Customer%Complaints%') GROUP BY p_brand, p_type, p_size",
    ),
    (
        "17",
        "SELECT SUM(l_extendedprice) / 7.0 FROM lineitem, part WHERE p_partkey = l_partkey \
         AND p_brand = 'Brand#23' AND p_container = 'MED BOX' AND l_quantity < \
         (SELECT 0.7 * AVG(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)",
    ),
    (
        "18",
        "SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, SUM(l_quantity) \
         FROM customer, orders, lineitem WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem \
         GROUP BY l_orderkey HAVING SUM(l_quantity) > 50) AND c_custkey = o_custkey \
         AND o_orderkey = l_orderkey GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice",
    ),
    (
        "19",
        "SELECT SUM(l_extendedprice * (1 - l_discount)) FROM lineitem, part WHERE \
         (p_partkey = l_partkey AND p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX') \
         AND l_quantity >= 1 AND l_quantity <= 30 AND p_size BETWEEN 1 AND 5 \
         AND l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON') OR \
         (p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX') \
         AND l_quantity >= 10 AND l_quantity <= 35 AND p_size BETWEEN 1 AND 10 \
         AND l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON') OR \
         (p_partkey = l_partkey AND p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX') \
         AND l_quantity >= 5 AND l_quantity <= 30 AND p_size BETWEEN 1 AND 15 \
         AND l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON')",
    ),
    (
        "20",
        "SELECT s_name, s_address FROM supplier, nation WHERE s_suppkey IN (SELECT ps_suppkey \
         FROM partsupp WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%') \
         AND ps_availqty > (SELECT 0.5 * SUM(l_quantity) FROM lineitem WHERE l_partkey = ps_partkey \
         AND l_suppkey = ps_suppkey AND l_shipdate >= DATE '1993-01-01' \
         AND l_shipdate < DATE '1993-01-01' + INTERVAL '3' YEAR)) \
         AND s_nationkey = n_nationkey AND n_name IN ('CANADA', 'FRANCE', 'INDIA')",
    ),
    (
        "21",
        "SELECT s_name, COUNT(*) FROM supplier, lineitem l1, orders, nation \
         WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F' \
         AND l1.l_receiptdate > l1.l_commitdate AND EXISTS (SELECT * FROM lineitem l2 \
         WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey) \
         AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey \
         AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate) \
         AND s_nationkey = n_nationkey AND n_name IN ('SAUDI ARABIA', 'FRANCE', 'BRAZIL') \
         GROUP BY s_name",
    ),
    (
        "22",
        "SELECT cntrycode, COUNT(*), SUM(c_acctbal) FROM (SELECT substring(c_phone FROM 1 FOR 2) \
         AS cntrycode, c_acctbal FROM customer WHERE substring(c_phone FROM 1 FOR 2) IN \
         ('13', '31', '23', '29', '30', '18', '17') AND c_acctbal > (SELECT AVG(c_acctbal) \
         FROM customer WHERE c_acctbal > 0.00 AND substring(c_phone FROM 1 FOR 2) IN \
         ('13', '31', '23', '29', '30', '18', '17')) AND NOT EXISTS (SELECT * FROM orders \
         WHERE o_custkey = c_custkey)) AS custsale GROUP BY cntrycode",
    ),
];

fn run(names: &[&str]) {
    for (name, sql) in QUERIES.iter().filter(|(name, _)| names.contains(name)) {
        let mut found = 0;
        for seed in 1..=2 {
            let mut db = database();
            let mut random = Random::new(seed);
            let mut view = View::new(&db, sql).unwrap_or_else(|e| panic!("query {name}: {e}"));
            for step in 0..500 {
                if let Some((table, row, weight)) = event(&mut db, &mut random) {
                    let applied = view.apply(&table, &row, weight);
                    applied.unwrap_or_else(|e| panic!("query {name}, step {step}: {e}"));
                }
                if step % 50 == 49 {
                    let same = view.check(&db);
                    same.unwrap_or_else(|e| panic!("query {name}, seed {seed}, step {step}: {e}"));
                    found += view.rows().iter().filter(|row| *row != "NULL").count();
                }
            }
        }
        assert!(found > 0, "query {name} never had a row");
        if std::env::var("HALCYON_PROGRAMS").is_ok() {
            let view = View::new(&database(), sql).unwrap();
            println!("query {name}\n{}\n{}", view.compiled.program, view.compiled.certificate);
        }
    }
}

#[test]
fn queries_1_to_6() {
    run(&["1", "2", "3", "4", "5", "6"]);
}

#[test]
fn queries_7_to_12() {
    run(&["7", "8", "9", "10", "11", "11a", "12"]);
}

#[test]
fn queries_13_to_17() {
    run(&["13", "14", "15", "16", "17"]);
}

#[test]
fn queries_18_to_22() {
    run(&["18", "19", "20", "21", "22"]);
}

/// The cost of an event: class and look-ups for the tables with the most events.
#[test]
fn certificates_of_the_streams() {
    use halcyon_delta::certificate::CostClass;
    for (name, table, class, probes_max) in [
        ("1", "lineitem", CostClass::CONSTANT, 1),
        ("3", "lineitem", CostClass::CONSTANT, 5),
        ("3", "orders", CostClass::CONSTANT, 9),
        ("4", "lineitem", CostClass::CONSTANT, 7),
        ("6", "lineitem", CostClass::CONSTANT, 1),
        ("11", "partsupp", CostClass::LINEAR, 22),
        ("11a", "partsupp", CostClass::CONSTANT, 3),
        ("11a", "supplier", CostClass::FAN_OUT, 3),
        ("12", "lineitem", CostClass::CONSTANT, 3),
        ("14", "lineitem", CostClass::CONSTANT, 3),
        ("17", "lineitem", CostClass::LOGARITHMIC, 19),
        ("18", "lineitem", CostClass::CONSTANT, 22),
        ("19", "lineitem", CostClass::CONSTANT, 3),
    ] {
        let (_, sql) = QUERIES.iter().find(|(own, _)| *own == name).unwrap();
        let certificate = View::new(&database(), sql).unwrap().compiled.certificate;
        let cost = certificate.events.iter().find(|event| event.relation == table).unwrap();
        assert_eq!(cost.class, class, "query {name}: {certificate}");
        assert!(cost.probes <= probes_max, "query {name}: {certificate}");
    }
}
