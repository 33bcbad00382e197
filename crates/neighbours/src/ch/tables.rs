//! The tables that CH-benCHmark has beside TPC-C's: suppliers, nations and regions.
//!
//! A nation's key is the code of a letter or digit, so that the first character of a customer's state names a nation.
//! Names are VARCHAR, as TPC-C's are here. The published list of nations is kept as it is.

use halcyon::{Database, Session, Value, params};
use halcyon_base::rng::Rng;

use crate::Result;

/// Suppliers: by the definition, whatever the number of warehouses.
const SUPPLIERS: i32 = 10_000;

/// Names of the tables that the queries read, TPC-C's and these.
pub const READ: [&str; 9] = [
    "item",
    "customer",
    "new_order",
    "orders",
    "stock",
    "order_line",
    "supplier",
    "nation",
    "region",
];

const SCHEMA: &str = "
    CREATE TABLE region (r_regionkey INTEGER PRIMARY KEY, r_name VARCHAR(55) NOT NULL,
        r_comment VARCHAR(152) NOT NULL);
    CREATE TABLE nation (n_nationkey INTEGER PRIMARY KEY, n_name VARCHAR(25) NOT NULL,
        n_regionkey INTEGER NOT NULL, n_comment VARCHAR(152) NOT NULL);
    CREATE TABLE supplier (su_suppkey INTEGER PRIMARY KEY, su_name VARCHAR(25) NOT NULL,
        su_address VARCHAR(40) NOT NULL, su_nationkey INTEGER NOT NULL, su_phone VARCHAR(15) NOT NULL,
        su_acctbal NUMERIC(12,2) NOT NULL, su_comment VARCHAR(101) NOT NULL)";

/// Regions, whose keys are 1 to 5.
const REGIONS: [&str; 5] = ["Africa", "America", "Asia", "Australia", "Europe"];

/// Nations and the keys of their regions; their own keys are the codes of [`LETTERS`].
#[rustfmt::skip]
const NATIONS: [(&str, i32); 62] = [
    ("Australia", 4), ("Belgium", 5), ("Cameroon", 1), ("Denmark", 5), ("Equador", 2), ("France", 5),
    ("Germany", 5), ("Hungary", 5), ("Italy", 5), ("Japan", 3), ("Kenya", 1), ("Lithuania", 5),
    ("Mexico", 2), ("Netherlands", 5), ("Oman", 1), ("Portugal", 5), ("Qatar", 1), ("Rwanda", 1),
    ("Serbia", 5), ("Togo", 1), ("United States", 2), ("Vietnam", 3), ("Singapore", 3), ("Cambodia", 3),
    ("Yemen", 1), ("Zimbabwe", 1), ("Argentina", 2), ("Bolivia", 2), ("Canada", 2),
    ("Dominican Republic", 2), ("Egypt", 1), ("Finland", 5), ("Ghana", 1), ("Haiti", 2), ("India", 3),
    ("Jamaica", 4), ("Kazakhstan", 3), ("Luxemburg", 5), ("Marokko", 1), ("Norway", 5), ("Poland", 5),
    ("Peru", 2), ("Nicaragua", 2), ("Romania", 5), ("South Africa", 1), ("Thailand", 3),
    ("United Kingdom", 5), ("Venezuela", 2), ("Liechtenstein", 5), ("Austria", 5), ("Laos", 3),
    ("Zambia", 1), ("Switzerland", 5), ("China", 3), ("Papua New Guinea", 4), ("East Timor", 4),
    ("Bulgaria", 5), ("Brazil", 2), ("Albania", 5), ("Andorra", 5), ("Belize", 2), ("Botswana", 1),
];

/// Characters that states begin with, in the order of their codes.
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Makes and fills the three tables. The same seed gives the same rows.
pub fn load(database: &Database, seed: u64) -> Result<()> {
    let mut session = database.session();
    session.batch(SCHEMA)?;
    session.batch("BEGIN")?;
    let mut rng = Rng::new(seed ^ 0xC4BE);
    let region = session.prepare("INSERT INTO region VALUES ($1, $2, $3)")?;
    for (key, name) in (1..).zip(REGIONS) {
        session.execute(&region, params![key, name, text(&mut rng, 30..100)])?;
    }
    let nation = session.prepare("INSERT INTO nation VALUES ($1, $2, $3, $4)")?;
    for (letter, (name, region)) in LETTERS.iter().zip(NATIONS) {
        let key = i32::from(*letter);
        session.execute(&nation, params![key, name, region, text(&mut rng, 30..100)])?;
    }
    suppliers(&mut session, &mut rng)?;
    session.batch("COMMIT")?;
    Ok(())
}

fn suppliers(session: &mut Session, rng: &mut Rng) -> Result<()> {
    let insert = session.prepare("INSERT INTO supplier VALUES ($1, $2, $3, $4, $5, $6, $7)")?;
    for key in 0..SUPPLIERS {
        let nation = i32::from(*rng.pick(LETTERS));
        let phone =
            format!("{}-{:03}-{:04}", rng.below(90) + 10, rng.below(1_000), rng.below(10_000));
        let mut comment = text(rng, 25..90);
        // TPC-H has five suppliers with complaints among ten thousand.
        if key % 2_000 == 1_234 {
            comment.push_str(" bad");
        }
        let name = format!("Supplier#{key:09}");
        let balance = Value::Decimal(i128::from(rng.range(-99_999..1_000_000)));
        let address = text(rng, 10..40);
        session.execute(&insert, params![key, name, address, nation, phone, balance, comment])?;
    }
    Ok(())
}

/// Letters and digits, so many of them.
fn text(rng: &mut Rng, length: std::ops::Range<i64>) -> String {
    let length = rng.range(length);
    (0..length).map(|_| char::from(*rng.pick(LETTERS))).collect()
}
