//! tokio-postgres: prepared statements, pipelines, portals, COPY, binary values of every type.

use std::error::Error;
use std::time::{Duration, SystemTime};

use bytes::{BufMut as _, BytesMut};
use futures::{SinkExt as _, StreamExt as _, TryStreamExt as _};
use halcyon_server::Server;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::common::*;

pub(super) async fn connect(server: &Server) -> Client {
    let config = format!("host=127.0.0.1 port={} user={}", server.address().port(), superuser());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("a login");
    tokio::spawn(connection);
    client
}

/// Runs a test with a client of its own server.
fn with_client<F: Future<Output = ()>>(test: impl FnOnce(Client) -> F) {
    let server = server();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = connect(&server).await;
        tokio::time::timeout(PATIENCE, test(client)).await.expect("no hang");
    });
}

#[test]
fn the_system_views_name_the_client_s_address() {
    with_client(|client| async move {
        let text = "SELECT client FROM halcyon.sessions WHERE session = pg_backend_pid()";
        let row = client.query_one(text, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "127.0.0.1");
    });
}

#[test]
fn values_of_every_type_go_in_and_come_out_in_binary() {
    with_client(|client| async move {
        client
            .batch_execute(
                "CREATE TABLE v (b BOOLEAN, s SMALLINT, i INTEGER, l BIGINT, r REAL,
                 d DOUBLE PRECISION, t TEXT, c VARCHAR(10), y BYTEA, m TIMESTAMP, z TIMESTAMPTZ)",
            )
            .await
            .unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        let insert = client
            .prepare("INSERT INTO v VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
            .await
            .unwrap();
        let count = client
            .execute(
                &insert,
                &[
                    &true,
                    &-2i16,
                    &3i32,
                    &(1i64 << 40),
                    &1.5f32,
                    &-0.1f64,
                    &"tä",
                    &"c",
                    &&[0u8, 255][..],
                    &time,
                    &time,
                ],
            )
            .await
            .unwrap();
        assert_eq!(count, 1);
        let row = client.query_one("SELECT * FROM v", &[]).await.unwrap();
        assert!(row.get::<_, bool>(0));
        assert_eq!(row.get::<_, i16>(1), -2);
        assert_eq!(row.get::<_, i32>(2), 3);
        assert_eq!(row.get::<_, i64>(3), 1 << 40);
        assert_eq!(row.get::<_, f32>(4), 1.5);
        assert_eq!(row.get::<_, f64>(5), -0.1);
        assert_eq!(row.get::<_, &str>(6), "tä");
        assert_eq!(row.get::<_, &str>(7), "c");
        assert_eq!(row.get::<_, &[u8]>(8), [0, 255]);
        assert_eq!(row.get::<_, SystemTime>(9), time);
        assert_eq!(row.get::<_, SystemTime>(10), time);
        let none: Option<i32> = None;
        let row = client.query_one("SELECT $1::int AS n", &[&none]).await.unwrap();
        assert_eq!(row.columns()[0].name(), "n");
        assert_eq!(row.columns()[0].type_(), &Type::INT4);
        assert_eq!(row.get::<_, Option<i32>>(0), None);
    });
}

#[test]
fn results_have_the_types_that_postgresql_describes() {
    const CASES: &[(&str, &[Type])] = &[
        ("SELECT generate_series(1, 3)", &[Type::INT4]),
        ("SELECT x, sum(x) FROM generate_series(1, 3) AS x GROUP BY x", &[Type::INT4, Type::INT8]),
        ("SELECT x FROM (VALUES (NULL), (1)) AS v (x)", &[Type::INT4]),
        ("SELECT '1' UNION SELECT 1", &[Type::INT4]),
        (
            "SELECT 1 + '3', now() + '1 day', 1::real + 1",
            &[Type::INT4, Type::TIMESTAMPTZ, Type::FLOAT8],
        ),
        (
            "SELECT ntile(2) OVER w, row_number() OVER w, rank() OVER w, lead(a, 1, 0.5) OVER w
             FROM (VALUES (1)) AS v (a) WINDOW w AS (ORDER BY a)",
            &[Type::INT4, Type::INT8, Type::INT8, Type::NUMERIC],
        ),
        ("SELECT array_length(ARRAY[1], 1), cardinality(ARRAY[1])", &[Type::INT4, Type::INT4]),
        ("SELECT avg(a), stddev(a) FROM (VALUES (1)) AS v (a)", &[Type::NUMERIC, Type::NUMERIC]),
        ("SELECT avg(a) FROM (VALUES (INTERVAL '1 day')) AS v (a)", &[Type::INTERVAL]),
        ("SELECT date_part('year', DATE '2020-01-01'), + '2'", &[Type::FLOAT8, Type::FLOAT8]),
    ];
    with_client(|client| async move {
        for (text, types) in CASES {
            let prepared = client.prepare(text).await.expect(text);
            let found: Vec<Type> =
                prepared.columns().iter().map(|column| column.type_().clone()).collect();
            assert_eq!(found, *types, "{text}");
        }
    });
}

/// A NUMERIC as clients send it: its text, or groups of four digits, the first of them before the point.
#[derive(Debug)]
enum Number {
    Text(&'static str),
    Binary { groups: &'static [u16], places: u16 },
}

impl ToSql for Number {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Number::Text(text) => out.put_slice(text.as_bytes()),
            Number::Binary { groups, places } => {
                for part in [groups.len() as u16, 0, 0, *places].iter().chain(*groups) {
                    out.put_u16(*part);
                }
            }
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }

    fn encode_format(&self, _: &Type) -> Format {
        match self {
            Number::Text(_) => Format::Text,
            Number::Binary { .. } => Format::Binary,
        }
    }

    to_sql_checked!();
}

#[test]
fn numbers_keep_their_digits_beside_columns_with_fewer() {
    with_client(|client| async move {
        client
            .batch_execute(
                "CREATE TABLE price (id INTEGER PRIMARY KEY, amount NUMERIC(10, 2));
                 CREATE INDEX ON price (amount);
                 INSERT INTO price VALUES (1, 1.50), (2, 1.51), (3, 2.00)",
            )
            .await
            .unwrap();
        let binary = |groups, places| Number::Binary { groups, places };
        let text = "SELECT count(*), min(amount + $1)::text FROM price WHERE amount >= $1";
        for declared in [vec![], vec![Type::NUMERIC]] {
            let above = client.prepare_typed(text, &declared).await.unwrap();
            for (number, count, least) in [
                (Number::Text("1.5"), 3, "3.00"),
                (Number::Text("1.50001"), 2, "3.01001"),
                (binary(&[1, 5000], 1), 3, "3.00"),
                (binary(&[1, 5000, 1000], 5), 2, "3.01001"),
                // The statement's own plan is as before.
                (Number::Text("1.51"), 2, "3.02"),
            ] {
                let row = client.query_one(&above, &[&number]).await.unwrap();
                let found = (row.get::<_, i64>(0), row.get::<_, String>(1));
                assert_eq!(found, (count, least.to_owned()), "{number:?} of {declared:?}");
            }
        }
        let insert = client.prepare("INSERT INTO price VALUES ($1, $2)").await.unwrap();
        client.execute(&insert, &[&4, &binary(&[2, 4990], 4)]).await.unwrap();
        let error = client.execute(&insert, &[&5, &Number::Text("123456789.123")]).await;
        assert_eq!(error.unwrap_err().code(), Some(&SqlState::NUMERIC_VALUE_OUT_OF_RANGE));
        let row =
            client.query_one("SELECT amount::text FROM price WHERE id = 4", &[]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), "2.50");
    });
}

/// The bytes of a value as they have come.
struct Sent(Vec<u8>);

impl FromSql<'_> for Sent {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Sent(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl Sent {
    /// Places behind the point with which a NUMERIC is to be shown, and its groups of four digits.
    fn number(&self) -> (u16, Vec<u16>) {
        let words: Vec<u16> =
            self.0.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]])).collect();
        (words[3], words[4..].to_vec())
    }
}

#[test]
fn numerics_without_digits_are_sent_with_those_of_each_value() {
    with_client(|client| async move {
        client
            .batch_execute(
                "CREATE TABLE plain (id INTEGER PRIMARY KEY, a NUMERIC, l NUMERIC[], b NUMERIC(12,2));
                 INSERT INTO plain VALUES (1, 9.99, '{9.99,100}', 9.9), (2, 100, '{0.5}', 100)",
            )
            .await
            .unwrap();
        let text =
            "SELECT a, a + 1, a * a, a % 2, a / 3, b, sum(a) OVER (), l FROM plain ORDER BY id";
        let rows = client.query(text, &[]).await.unwrap();
        let sent = |row: usize, at: usize| rows[row].get::<_, Sent>(at);
        let numbers = |row: usize| (0..7).map(|at| sent(row, at).number()).collect::<Vec<_>>();
        let expected = [
            (2, vec![9, 9900]),
            (2, vec![10, 9900]),
            (4, vec![99, 8001]),
            (2, vec![1, 9900]),
            (16, vec![3, 3300]),
            (2, vec![9, 9000]),
            (2, vec![109, 9900]),
        ];
        assert_eq!(numbers(0), expected);
        let expected = [
            (0, vec![100]),
            (0, vec![101]),
            (0, vec![1]),
            (0, vec![]),
            (16, vec![33, 3333, 3333, 3333, 3333]),
            (2, vec![100]),
            (2, vec![109, 9900]),
        ];
        assert_eq!(numbers(1), expected);
        // Behind the array's header (dimensions, NULLs, type, length, first subscript) and the element's length.
        let list = sent(0, 7).0;
        assert_eq!(list[24..36], [0, 2, 0, 0, 0, 0, 0, 2, 0, 9, 0x26, 0xac]);

        let mut shown = Vec::new();
        for message in client.simple_query(text).await.unwrap() {
            if let SimpleQueryMessage::Row(row) = message {
                shown.push(
                    (0..row.len())
                        .map(|at| row.get(at).unwrap_or("NULL"))
                        .collect::<Vec<_>>()
                        .join(" "),
                );
            }
        }
        assert_eq!(
            shown,
            [
                "9.99 10.99 99.8001 1.99 3.3300000000000000 9.90 109.99 {9.99,100}",
                "100 101 10000 0 33.3333333333333333 100.00 109.99 {0.5}",
            ]
        );
        let copied = async |text: &str| {
            let out = client.copy_out(text).await.unwrap();
            out.try_collect::<Vec<_>>().await.unwrap().concat()
        };
        assert_eq!(
            copied("COPY plain TO STDOUT").await,
            b"1\t9.99\t{9.99,100}\t9.90\n2\t100\t{0.5}\t100.00\n"
        );
        let of_query =
            "COPY (SELECT a, a * a, a::text FROM plain ORDER BY id) TO STDOUT (FORMAT csv)";
        assert_eq!(copied(of_query).await, b"9.99,99.8001,9.99\n100,10000,100\n");
        // The signature and two words; the row's fields, and the length of the first.
        let binary =
            copied("COPY (SELECT a FROM plain WHERE id = 1) TO STDOUT (FORMAT binary)").await;
        assert_eq!(binary[25..37], [0, 2, 0, 0, 0, 0, 0, 2, 0, 9, 0x26, 0xac]);
    });
}

#[test]
fn pipelined_statements_are_answered_in_order() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t (id INTEGER PRIMARY KEY)").await.unwrap();
        let insert = client.prepare("INSERT INTO t VALUES ($1)").await.unwrap();
        let select = client.prepare("SELECT id FROM t WHERE id = $1").await.unwrap();
        let work = (0..100).map(|id| {
            let (client, insert, select) = (&client, &insert, &select);
            async move {
                client.execute(insert, &[&id]).await.unwrap();
                client.query_one(select, &[&id]).await.unwrap().get::<_, i32>(0)
            }
        });
        let seen = futures::future::join_all(work).await;
        assert_eq!(seen, (0..100).collect::<Vec<i32>>());
    });
}

#[test]
fn a_failed_transaction_takes_only_its_end() {
    with_client(|mut client| async move {
        client.batch_execute("CREATE TABLE t (id INTEGER PRIMARY KEY)").await.unwrap();
        let tx = client.transaction().await.unwrap();
        tx.execute("INSERT INTO t VALUES (1)", &[]).await.unwrap();
        let error = tx.execute("INSERT INTO t VALUES (1)", &[]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code(), &SqlState::UNIQUE_VIOLATION);
        assert_eq!(error.table(), Some("t"));
        assert_eq!(error.constraint(), Some("t_pkey"));
        let refused = tx.query("SELECT 1", &[]).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
        drop(tx);
        let row = client.query_one("SELECT count(*) FROM t", &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 0);
    });
}

#[test]
fn portals_hand_out_rows_in_portions() {
    with_client(|mut client| async move {
        client.batch_execute("CREATE TABLE t (id INTEGER PRIMARY KEY)").await.unwrap();
        let values: Vec<_> = (0..25).map(|id| format!("({id})")).collect();
        let insert = format!("INSERT INTO t VALUES {}", values.join(","));
        client.batch_execute(&insert).await.unwrap();
        let tx = client.transaction().await.unwrap();
        let portal = tx.bind("SELECT id FROM t ORDER BY id", &[]).await.unwrap();
        let mut seen = Vec::new();
        loop {
            let rows = tx.query_portal(&portal, 10).await.unwrap();
            if rows.is_empty() {
                break;
            }
            seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
        }
        assert_eq!(seen, (0..25).collect::<Vec<_>>());
        tx.commit().await.unwrap();
    });
}

#[test]
fn copy_goes_both_ways_and_a_bad_line_leaves_nothing() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n TEXT)").await.unwrap();
        let sink = client.copy_in("COPY t FROM STDIN (FORMAT csv)").await.unwrap();
        futures::pin_mut!(sink);
        let pieces = ["1,one\n2,\"t,w", "o\"\n", "3,\n"];
        for piece in pieces {
            sink.send(bytes::Bytes::from_static(piece.as_bytes())).await.unwrap();
        }
        assert_eq!(sink.finish().await.unwrap(), 3);
        let out = client.copy_out("COPY t TO STDOUT (FORMAT csv)").await.unwrap();
        let bytes: Vec<bytes::Bytes> = out.try_collect().await.unwrap();
        assert_eq!(bytes.concat(), b"1,one\n2,\"t,wo\"\n3,\n");
        assert_eq!(bytes.len(), 3, "a message for each row");
        let sink = client.copy_in("COPY t FROM STDIN (FORMAT csv)").await.unwrap();
        futures::pin_mut!(sink);
        sink.send(bytes::Bytes::from_static(b"4,four\nno number,x\n")).await.unwrap();
        let error = sink.finish().await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code(), &SqlState::INVALID_TEXT_REPRESENTATION);
        assert!(error.where_().is_some_and(|place| place.contains("line 2")), "{error:?}");
        let row = client.query_one("SELECT count(*) FROM t", &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 3);
    });
}

#[test]
fn another_client_sees_how_far_a_copy_is() {
    let server = server();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let test = async {
        let (client, other) = (connect(&server).await, connect(&server).await);
        client.batch_execute("CREATE TABLE t (id INTEGER PRIMARY KEY)").await.unwrap();
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let sink = client.copy_in("COPY t FROM STDIN").await.unwrap();
        futures::pin_mut!(sink);
        let data: String = (1000..2000).map(|id| format!("{id}\n")).collect();
        let length = data.len() as i64;
        sink.send(bytes::Bytes::from(data)).await.unwrap();
        sink.flush().await.unwrap();
        let text = "SELECT pid, relid::regclass::text, command, type, bytes_processed, bytes_total, \
                    tuples_processed, tuples_excluded, datname FROM pg_stat_progress_copy";
        let row = loop {
            let row = other.query_one(text, &[]).await.unwrap();
            if row.get::<_, i64>(4) == length {
                break row;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!(row.get::<_, i32>(0), pid);
        let words: [&str; 4] = [row.get(1), row.get(2), row.get(3), row.get(8)];
        assert_eq!(words, ["t", "COPY FROM", "PIPE", "halcyon"]);
        let counts: [i64; 3] = [row.get(5), row.get(6), row.get(7)];
        assert_eq!(counts, [0, 1000, 0]);
        assert_eq!(sink.finish().await.unwrap(), 1000);
        assert!(other.query(text, &[]).await.unwrap().is_empty());
        for (name, columns) in [("vacuum", 11), ("analyze", 12), ("cluster", 12), ("basebackup", 6)]
        {
            let text = format!("SELECT * FROM pg_stat_progress_{name}");
            let statement = other.prepare(&text).await.unwrap();
            assert_eq!(statement.columns().len(), columns, "{name}");
            assert!(other.query(&statement, &[]).await.unwrap().is_empty(), "{name}");
        }
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("no hang") });
}

#[test]
fn a_copy_that_the_client_gives_up_leaves_nothing() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t (id INTEGER PRIMARY KEY)").await.unwrap();
        {
            let sink = client.copy_in("COPY t FROM STDIN").await.unwrap();
            futures::pin_mut!(sink);
            sink.send(bytes::Bytes::from_static(b"1\n2\n")).await.unwrap();
        }
        let row = client.query_one("SELECT count(*) FROM t", &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 0);
    });
}

#[test]
fn a_cancelled_query_fails_and_the_client_goes_on() {
    with_client(|client| async move {
        let mut values: Vec<_> = (0..1000).map(|id| format!("({id})")).collect();
        client.batch_execute("CREATE TABLE k (id INTEGER PRIMARY KEY)").await.unwrap();
        values[0] = "(0)".into();
        let insert = format!("INSERT INTO k VALUES {}", values.join(","));
        client.batch_execute(&insert).await.unwrap();
        let token = client.cancel_token();
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            token.cancel_query(NoTls).await.unwrap();
        };
        let text = "SELECT count(*) FROM k a, k b, k c WHERE a.id + b.id + c.id = -1";
        let (answer, ()) = tokio::join!(client.query(text, &[]), cancel);
        assert_eq!(answer.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
        client.query_one("SELECT 1", &[]).await.unwrap();
    });
}

#[test]
fn rows_arrive_as_they_are_read() {
    with_client(|client| async move {
        let values: Vec<_> = (0..300).map(|id| format!("({id})")).collect();
        client.batch_execute("CREATE TABLE k (id INTEGER PRIMARY KEY)").await.unwrap();
        let insert = format!("INSERT INTO k VALUES {}", values.join(","));
        client.batch_execute(&insert).await.unwrap();
        let params: [i32; 0] = [];
        let rows = client.query_raw("SELECT a.id + b.id FROM k a, k b", params).await.unwrap();
        let count = rows.map(|row| row.unwrap().get::<_, i32>(0)).count().await;
        assert_eq!(count, 90_000);
    });
}

#[test]
fn ten_thousand_parameters_and_a_megabyte_of_text_are_taken() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t (id INTEGER PRIMARY KEY)").await.unwrap();
        let places: Vec<_> = (1..=10_000).map(|n| format!("(${n})")).collect();
        let insert = format!("INSERT INTO t VALUES {}", places.join(","));
        let ids: Vec<i32> = (0..10_000).collect();
        let params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> =
            ids.iter().map(|id| id as _).collect();
        assert_eq!(client.execute(&insert, &params).await.unwrap(), 10_000);
        let text = format!("SELECT length('{}')", "x".repeat(1 << 20));
        let rows = client.simple_query(&text).await.unwrap();
        assert!(rows.len() >= 2);
    });
}
