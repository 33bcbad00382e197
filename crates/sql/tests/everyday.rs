//! Everyday texts are read in one pass as the SQL parser reads them, or are left to it.

use halcyon_quick::{CHAIN_MAX, NESTING_MAX, TEXT_BYTES_MAX, names, statement};
use halcyon_sql::parse::parse_tokens;
use halcyon_sql::syntax::Statement;

/// Whether a text is read here, and as the SQL parser reads it.
fn reads(text: &str) -> bool {
    let Some((statement, place)) = statement(text) else { return false };
    let Ok(parsed) = parse_tokens(text) else { return false };
    let [parsed] = &parsed[..] else { return false };
    let Statement::Sql(slow) = &parsed.statement else { return false };
    format!("{slow:?}") == format!("{statement:?}")
        && parsed.text == &text[place.clone()]
        && parsed.offset as usize == place.start
}

#[test]
fn keywords_are_names() {
    let words = names().iter().map(|word| word.to_string().to_lowercase());
    let words = words.chain(["plainly", "\"Quoted\"", "_x1$"].map(str::to_owned));
    let wrong = |word: &String| {
        let texts = NAME_TEXTS.iter().map(|text| text.replace("«»", word));
        texts.filter(|text| !reads(text)).collect::<Vec<_>>()
    };
    let wrong: Vec<String> = words.flat_map(|word| wrong(&word)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn everyday_texts_are_read_as_the_sql_parser_reads_them() {
    for text in TEXTS {
        assert!(reads(text), "{text}");
        assert!(reads(&format!("\n  {text} ;\n")), "{text}");
        assert!(reads(&text.replace(' ', "\n\t ")), "{text}");
        if !text.starts_with("EXPLAIN") {
            assert!(reads(&format!("EXPLAIN {text}")), "{text}");
            assert!(reads(&format!("EXPLAIN (SUMMARY) {text}")), "{text}");
            assert!(reads(&format!("EXPLAIN ANALYZE {text}")), "{text}");
        }
    }
}

/// What is cut off or put together differently has an error, or a meaning of its own that the SQL parser
/// knows.
#[test]
fn damaged_texts_are_read_alike_or_left() {
    let mut left = 0;
    for (number, text) in TEXTS.iter().enumerate() {
        let words: Vec<&str> = text.split(' ').collect();
        let other: Vec<&str> = TEXTS[(number * 7 + 3) % TEXTS.len()].split(' ').collect();
        for at in 0..words.len() {
            let mut damaged = vec![words[..at].join(" ")];
            damaged.push([&words[..at], &words[at + 1..]].concat().join(" "));
            damaged.push([&words[..at], &other[at.min(other.len())..]].concat().join(" "));
            damaged.push([&words[..=at], &words[at..]].concat().join(" "));
            for text in damaged {
                assert!(statement(&text).is_none() || reads(&text), "{text}");
                left += usize::from(statement(&text).is_none());
            }
        }
    }
    assert!(left > 100, "the test damages nothing");
}

#[test]
fn other_texts_are_left_to_the_sql_parser() {
    for text in [
        "",
        " ",
        ";",
        "SELECT 1; SELECT 2",
        "SELECT 1 -- why",
        "SELECT /* why */ 1",
        "SELECT a FROM t WHERE b = (SELECT 1)",
        "SELECT DISTINCT a FROM t",
        "SELECT a FROM t UNION SELECT b FROM t",
        "SELECT date '2020-01-01' + interval '1 day'",
        "SELECT a[1] FROM t",
        "SELECT E'a', U&'b', x'00'",
        "SELECT 'a' 'b'",
        "SELECT a->b FROM t",
        "SELECT 1e3, 1., .5",
        "SELECT \u{e4}rger FROM t",
        "EXPLAIN (TRIGGERS) SELECT 1",
        "EXPLAIN EXPLAIN SELECT 1",
        "TABLE t",
        "CREATE TABLE t (a INT)",
    ] {
        assert!(statement(text).is_none(), "{text}");
    }
    let deep = format!("SELECT {}1{}", "(".repeat(NESTING_MAX), ")".repeat(NESTING_MAX));
    let long = |terms: usize| format!("SELECT 1{}", " + 1".repeat(terms));
    assert!(reads(&deep) && reads(&long(CHAIN_MAX)));
    assert!(statement(&deep.replace('1', "(1)")).is_none());
    assert!(statement(&long(CHAIN_MAX + 1)).is_none());
    assert!(statement(&format!("SELECT '{}'", "a".repeat(TEXT_BYTES_MAX))).is_none());
}

const TEXTS: &[&str] = &[
    "SELECT name, amount, price FROM item WHERE id = 7",
    "SELECT * FROM item WHERE id = $1",
    "SELECT id, name FROM item WHERE id IN ( 1 , $2, -3 ) ORDER BY id",
    "SELECT t.*, u.a AS \"A_b\" FROM t AS t, public.users u WHERE t.id = u.id AND u.b <> 'it''s'",
    "SELECT count(*), sum(a), count(DISTINCT b), now() FROM t WHERE c NOT IN ('a', 'b') OR NOT_x IS NULL",
    "SELECT a FROM t WHERE (b = 1 OR c = 2) AND d BETWEEN 1 AND 2 AND e LIKE 'x%' AND f NOT LIKE 'y'",
    "SELECT a + 1 * 2 - b / 3 % 4, -a, - 1.50, (a + b) * 2 FROM t GROUP BY a, b ORDER BY a DESC NULLS LAST, 2 ASC",
    "SELECT o_id FROM orders WHERE o_w_id = $1 ORDER BY o_id DESC LIMIT 1 OFFSET $2 FOR UPDATE",
    "SELECT a FROM t FOR SHARE",
    "SELECT a FROM t FOR NO KEY UPDATE",
    "SELECT a.b FROM a JOIN b ON a.x = b.x INNER JOIN c AS d ON d.y = a.y LEFT JOIN e ON TRUE LEFT OUTER JOIN f ON e.z > f.z",
    "SELECT 'gr\u{fc}n', $1::int8, a::text, DATE '2020-01-02', TIMESTAMP '2020-01-02 03:04:05', \"x\".\"y\" FROM \"s\".\"x\" WHERE true IS NOT FALSE",
    "SELECT a FROM t WHERE id = ANY ($1) AND b = ANY ($2::text) OFFSET 3",
    "INSERT INTO item VALUES (1, 'a', NULL, DEFAULT, $1, -2.5)",
    "INSERT INTO public.item AS i (id, \"name\") VALUES (1, 'a'), (2, b + 1) RETURNING id, name AS n, *",
    "INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING",
    "INSERT INTO t (a) VALUES (1) ON CONFLICT (a, b) DO UPDATE SET c = excluded.c, d = t.d + 1 WHERE t.e > 2 RETURNING t.a",
    "UPDATE item SET amount = amount + $1, name = DEFAULT WHERE id = $2",
    "UPDATE public.item AS i SET a = NULL WHERE i.id = 3 RETURNING *",
    "DELETE FROM item WHERE id = $1",
    "DELETE FROM s.item x WHERE x.id >= 1 AND x.id != 2 RETURNING x.id",
    "EXPLAIN (SUMMARY, ANALYZE) SELECT 1 FROM t",
];

/// Texts with names in all places where a name may stand.
const NAME_TEXTS: &[&str] = &[
    "SELECT «» FROM t",
    "SELECT «»",
    "SELECT a.«», «», t.«» AS «» FROM t WHERE «» = 1 AND t.«» = 2",
    "SELECT «» + 1, 1 + «», - «», («») FROM s.«» AS «»",
    "SELECT «».* FROM «» JOIN «» AS x ON «».a = «» LEFT JOIN «» ON «» = 1",
    "SELECT a FROM «», «» WHERE «» IN («», 1) OR «» NOT IN (1, 2)",
    "SELECT a FROM «».t WHERE «» BETWEEN «» AND «» AND «» LIKE «» OR «» NOT LIKE 'x'",
    "SELECT a FROM t WHERE «» IS NULL OR «» IS NOT NULL OR «» IS TRUE",
    "SELECT a FROM t WHERE 1 = «» AND «» < «»",
    "SELECT count(«»), sum(DISTINCT «») FROM t GROUP BY «», «» ORDER BY «», «» DESC, «» NULLS FIRST LIMIT «» OFFSET «»",
    "SELECT a FROM t WHERE a = «» ORDER BY «» FOR UPDATE",
    "SELECT a FROM t WHERE a = «»::text AND a = ANY («»)",
    "SELECT a FROM t WHERE a = «» GROUP BY «» LIMIT 1",
    "SELECT a FROM t WHERE a = «» LIMIT 1",
    "SELECT a AS «» FROM t",
    "SELECT a FROM t AS «» WHERE a = 1",
    "SELECT a FROM «» x WHERE a = 1",
    "SELECT a FROM «»",
    "SELECT a FROM «» FOR UPDATE",
    "SELECT a FROM «» LIMIT 1",
    "SELECT a FROM «» ORDER BY 1",
    "INSERT INTO «» («», b, «») VALUES («», 1, «»), (- «», 2, «» + 1)",
    "INSERT INTO «» VALUES (1) ON CONFLICT («», a) DO UPDATE SET «» = excluded.«», a = «» WHERE «».a = «» RETURNING «», a AS «»",
    "INSERT INTO s.«» AS «» (a) VALUES (1) ON CONFLICT DO NOTHING RETURNING «».a",
    "UPDATE «» SET «» = «», b = «» + 1 WHERE «» = 1 RETURNING «»",
    "UPDATE «» AS «» SET a = 1 WHERE «».b = 2",
    "UPDATE «».t SET a = «»",
    "UPDATE t SET a = 1 WHERE b = «» RETURNING a",
    "DELETE FROM «»",
    "DELETE FROM «» WHERE «» = «» RETURNING «»",
    "DELETE FROM «» AS «» WHERE a = 1",
    "SELECT lower(«»), f(«», 1, «») FROM t",
];
