//! The consistency conditions (clauses 3.3.2.1 to 3.3.2.12), as SQL that any engine runs.
//!
//! Each text counts the offences against a condition. Where two tables must agree in a sum, their
//! values are put one below the other, the second table's negated, and every group must sum to
//! zero: so a group that one table lacks is found as well.

use super::random::Scale;
use crate::Result;

/// A condition: number of its clause within 3.3.2, and the query that counts its offences.
pub struct Condition {
    /// 1 to 12.
    pub number: u32,
    /// A query of one number, which must be 0.
    pub text: String,
}

/// All conditions. Number 2 has two texts.
///
/// Number 11 holds in the rules for the initial population alone (orders less new orders are
/// 2,100); here it holds always, since every delivery is counted at its customer.
pub fn conditions(scale: Scale) -> Vec<Condition> {
    let delivered = scale.delivered();
    let condition = |(number, text): (u32, String)| Condition { number, text };
    let sums = |keys: &str, rows: &[&str]| sums_to(keys, rows, "0");
    let lines = "orders INNER JOIN order_line \
                 ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id";
    let delivered_lines = format!(
        "SELECT o_w_id, o_d_id, o_c_id, -ol_amount FROM {lines} WHERE ol_delivery_d IS NOT NULL"
    );
    [
        (
            1,
            sums(
                "w",
                &[
                    "SELECT w_id AS w, w_ytd AS a FROM warehouse",
                    "SELECT d_w_id, -d_ytd FROM district",
                ],
            ),
        ),
        (
            2,
            "SELECT count(*) FROM district LEFT JOIN \
             (SELECT o_w_id, o_d_id, max(o_id) AS m FROM orders GROUP BY o_w_id, o_d_id) x \
             ON o_w_id = d_w_id AND o_d_id = d_id WHERE m IS NULL OR m <> d_next_o_id - 1"
                .to_owned(),
        ),
        (
            2,
            "SELECT count(*) FROM district INNER JOIN \
             (SELECT no_w_id, no_d_id, max(no_o_id) AS m FROM new_order \
             GROUP BY no_w_id, no_d_id) x \
             ON no_w_id = d_w_id AND no_d_id = d_id WHERE m <> d_next_o_id - 1"
                .to_owned(),
        ),
        (
            3,
            "SELECT count(*) FROM (SELECT no_w_id, no_d_id FROM new_order \
             GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) v"
                .to_owned(),
        ),
        (
            4,
            sums(
                "w, d",
                &[
                    "SELECT o_w_id AS w, o_d_id AS d, o_ol_cnt AS a FROM orders",
                    "SELECT ol_w_id, ol_d_id, -1 FROM order_line",
                ],
            ),
        ),
        (
            5,
            sums(
                "w, d, o",
                &[
                    "SELECT o_w_id AS w, o_d_id AS d, o_id AS o, 1 AS a FROM orders \
                     WHERE o_carrier_id IS NULL",
                    "SELECT no_w_id, no_d_id, no_o_id, -1 FROM new_order",
                ],
            ),
        ),
        (
            6,
            sums(
                "w, d, o",
                &[
                    "SELECT o_w_id AS w, o_d_id AS d, o_id AS o, o_ol_cnt AS a FROM orders",
                    "SELECT ol_w_id, ol_d_id, ol_o_id, -1 FROM order_line",
                ],
            ),
        ),
        (
            7,
            format!(
                "SELECT count(*) FROM {lines} \
                 WHERE (o_carrier_id IS NULL AND ol_delivery_d IS NOT NULL) \
                 OR (o_carrier_id IS NOT NULL AND ol_delivery_d IS NULL)"
            ),
        ),
        (
            8,
            sums(
                "w",
                &[
                    "SELECT w_id AS w, w_ytd AS a FROM warehouse",
                    "SELECT h_w_id, -h_amount FROM history",
                ],
            ),
        ),
        (
            9,
            sums(
                "w, d",
                &[
                    "SELECT d_w_id AS w, d_id AS d, d_ytd AS a FROM district",
                    "SELECT h_w_id, h_d_id, -h_amount FROM history",
                ],
            ),
        ),
        (
            10,
            sums(
                "w, d, c",
                &[
                    "SELECT c_w_id AS w, c_d_id AS d, c_id AS c, c_balance AS a FROM customer",
                    "SELECT h_c_w_id, h_c_d_id, h_c_id, h_amount FROM history",
                    &delivered_lines,
                ],
            ),
        ),
        (
            11,
            sums_to(
                "w, d",
                &[
                    "SELECT o_w_id AS w, o_d_id AS d, 1 AS a FROM orders",
                    "SELECT no_w_id, no_d_id, -1 FROM new_order",
                    "SELECT c_w_id, c_d_id, -c_delivery_cnt FROM customer",
                ],
                &delivered.to_string(),
            ),
        ),
        (
            12,
            sums(
                "w, d, c",
                &[
                    "SELECT c_w_id AS w, c_d_id AS d, c_id AS c, c_balance + c_ytd_payment AS a \
                     FROM customer",
                    &delivered_lines,
                ],
            ),
        ),
    ]
    .into_iter()
    .map(condition)
    .collect()
}

/// Counts the groups of all `rows` by `keys` whose sum of `a` is not `wanted`.
fn sums_to(keys: &str, rows: &[&str], wanted: &str) -> String {
    let rows = rows.join(" UNION ALL ");
    format!(
        "SELECT count(*) FROM (SELECT {keys} FROM ({rows}) t \
         GROUP BY {keys} HAVING sum(a) <> {wanted}) v"
    )
}

/// Returns which conditions are broken, in words; `None` if all hold. `count` runs a text and
/// returns its one number. Errors: those of `count`.
pub fn broken(scale: Scale, count: &mut dyn FnMut(&str) -> Result<i64>) -> Result<Option<String>> {
    let mut broken = Vec::new();
    for condition in conditions(scale) {
        let offences = count(&condition.text)?;
        if offences != 0 {
            broken.push(format!("3.3.2.{} ({offences})", condition.number));
        }
    }
    let text = || format!("consistency conditions broken: {}", broken.join(", "));
    Ok((!broken.is_empty()).then(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::engines::Engine;
    use crate::tpcc::engines::halcyon::{Halcyon, Setup};
    use crate::tpcc::load::populate;

    fn loaded(scale: Scale) -> Halcyon {
        let mut engine = Halcyon::new(scale, Setup::default()).unwrap();
        let mut loading = engine.loading().unwrap();
        populate(scale, 3, &mut |table, values| loading.row(table, values)).unwrap();
        loading.finish().unwrap();
        engine
    }

    /// Every condition has a change that breaks it and that is seen under its number.
    #[test]
    fn a_planted_inconsistency_of_every_kind_is_caught() {
        let scale = Scale::tiny(1);
        let engine = loaded(scale);
        assert_eq!(engine.broken().unwrap(), None);
        let plants = [
            (1, "UPDATE warehouse SET w_ytd = w_ytd + 0.01"),
            (2, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3"),
            (2, "DELETE FROM new_order WHERE no_d_id = 4 AND no_o_id = 30"),
            (3, "DELETE FROM new_order WHERE no_d_id = 4 AND no_o_id = 25"),
            (4, "DELETE FROM order_line WHERE ol_d_id = 1 AND ol_o_id = 7 AND ol_number = 1"),
            (5, "UPDATE orders SET o_carrier_id = 1 WHERE o_d_id = 2 AND o_id = 28"),
            (6, "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 2 AND o_id = 28"),
            (7, "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 1 AND ol_o_id = 7"),
            (8, "DELETE FROM history WHERE h_c_id = 5 AND h_d_id = 9"),
            (9, "UPDATE district SET d_ytd = d_ytd - 1 WHERE d_id = 10"),
            (10, "UPDATE customer SET c_balance = c_balance + 0.01 WHERE c_d_id = 2 AND c_id = 3"),
            (11, "UPDATE customer SET c_delivery_cnt = 1 WHERE c_d_id = 2 AND c_id = 3"),
            (12, "UPDATE customer SET c_ytd_payment = 0 WHERE c_d_id = 2 AND c_id = 3"),
        ];
        for (number, plant) in plants {
            let engine = loaded(scale);
            assert!(engine.change(plant).unwrap() > 0, "{plant}");
            let seen = engine.broken().unwrap().unwrap_or_default();
            assert!(seen.contains(&format!("3.3.2.{number} ")), "{plant}: {seen}");
        }
    }
}
