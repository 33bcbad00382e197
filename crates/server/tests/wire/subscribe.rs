//! SUBSCRIBE: a view's rows and its changes as the data of a COPY that does not end by itself.

use futures::{SinkExt as _, StreamExt as _};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, CopyOutStream};

use super::common::*;
use super::driver::connect;

/// A subscription and its client; dropping the client would end the connection.
struct Subscriber {
    client: Client,
    lines: std::pin::Pin<Box<CopyOutStream>>,
    rest: String,
}

impl Subscriber {
    async fn new(client: Client, text: &str) -> Self {
        let lines = Box::pin(client.copy_out(text).await.unwrap());
        Subscriber { client, lines, rest: String::new() }
    }

    /// The next line, without its end.
    async fn line(&mut self) -> Result<String, tokio_postgres::Error> {
        loop {
            if let Some((line, rest)) = self.rest.split_once('\n') {
                let line = line.to_owned();
                self.rest = rest.to_owned();
                return Ok(line);
            }
            let bytes = self.lines.next().await.expect("a subscription does not end")?;
            self.rest.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
}

fn with_view<F: Future<Output = ()>>(
    test: impl FnOnce(std::rc::Rc<halcyon_server::Server>, Client) -> F,
) {
    let server = std::rc::Rc::new(server());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = connect(&server).await;
        client
            .batch_execute(
                "CREATE TABLE t (g INTEGER, s TEXT); INSERT INTO t VALUES (1, 'a\tb');
                 CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t GROUP BY g;
                 CREATE MATERIALIZED VIEW texts AS SELECT s FROM t",
            )
            .await
            .unwrap();
        tokio::time::timeout(PATIENCE, test(server.clone(), client)).await.expect("no hang");
    });
}

#[test]
fn rows_then_changes_come_until_the_client_cancels() {
    with_view(|server, writer| async move {
        let mut follower = Subscriber::new(connect(&server).await, "SUBSCRIBE v").await;
        for expected in ["0\t+\t1\t1", "0\t="] {
            assert_eq!(follower.line().await.unwrap(), expected);
        }
        writer.batch_execute("BEGIN; INSERT INTO t VALUES (1), (2); ROLLBACK").await.unwrap();
        writer.batch_execute("INSERT INTO t VALUES (1), (NULL)").await.unwrap();
        let mut lines = Vec::new();
        for _ in 0..3 {
            lines.push(follower.line().await.unwrap());
        }
        lines.sort();
        assert_eq!(lines, ["1\t+\t1\t2", "1\t+\t\\N\t1", "1\t-\t1\t1"]);
        assert_eq!(follower.line().await.unwrap(), "1\t=");
        let token = follower.client.cancel_token();
        token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        let error = loop {
            // A sign of life may have been on its way.
            match follower.line().await {
                Ok(line) => assert_eq!(line, "1\t="),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        // The connection goes on, and a client that knows a position can continue from there.
        let client = follower.client;
        client.batch_execute("INSERT INTO t VALUES (3)").await.unwrap();
        let mut again = Subscriber::new(client, "SUBSCRIBE TO v FROM 1").await;
        assert_eq!(again.line().await.unwrap(), "2\t+\t3\t1");
        let mut texts = Subscriber::new(connect(&server).await, "SUBSCRIBE texts").await;
        assert!(texts.line().await.unwrap().starts_with("0\t+\t"));
    });
}

#[test]
fn a_view_in_a_cell_is_fed_by_copy_and_followed() {
    with_view(|server, writer| async move {
        writer
            .batch_execute(
                "CREATE STREAM s (g INTEGER, x BIGINT);
                 CREATE MATERIALIZED VIEW sums WITH (place = 'thread') AS
                 SELECT g, SUM(x * 2) AS x FROM s GROUP BY g",
            )
            .await
            .unwrap();
        let mut follower = Subscriber::new(connect(&server).await, "SUBSCRIBE sums").await;
        assert_eq!(follower.line().await.unwrap(), "0\t=");
        let copied = async |rows: &'static str| {
            let mut sink = Box::pin(writer.copy_in::<_, &[u8]>("COPY s FROM STDIN").await.unwrap());
            sink.send(rows.as_bytes()).await.unwrap();
            sink.as_mut().finish().await
        };
        assert_eq!(copied("1\t5\n1\t2\n").await.unwrap(), 2);
        let next = async |follower: &mut Subscriber| {
            let mut lines = Vec::new();
            while lines.last().is_none_or(|line: &String| !line.ends_with('=')) {
                lines.push(follower.line().await.unwrap());
            }
            lines
        };
        assert_eq!(next(&mut follower).await, ["1\t+\t1\t14", "1\t="]);
        // Of a load that fails nothing arrives.
        let error = copied("1\t1\n1\t9223372036854775807\n").await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::NUMERIC_VALUE_OUT_OF_RANGE));
        assert_eq!(copied("1\t3\n").await.unwrap(), 1);
        assert_eq!(next(&mut follower).await, ["2\t-\t1\t14", "2\t+\t1\t20", "2\t="]);
        writer.batch_execute("DROP MATERIALIZED VIEW sums").await.unwrap();
        let error = loop {
            match follower.line().await {
                Ok(line) => assert_eq!(line, "2\t="),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), Some(&SqlState::UNDEFINED_TABLE));
    });
}

#[test]
fn what_cannot_be_followed_is_refused() {
    with_view(|_, client| async move {
        let refused = async |text: &str| client.copy_out(text).await.map(|_| ()).unwrap_err();
        assert_eq!(refused("SUBSCRIBE t").await.code(), Some(&SqlState::WRONG_OBJECT_TYPE));
        assert_eq!(refused("SUBSCRIBE nowhere").await.code(), Some(&SqlState::UNDEFINED_TABLE));
        client.batch_execute("BEGIN").await.unwrap();
        let error = refused("SUBSCRIBE v").await;
        assert_eq!(error.code(), Some(&SqlState::ACTIVE_SQL_TRANSACTION));
        client.batch_execute("ROLLBACK").await.unwrap();
        let mut late = Subscriber::new(client, "SUBSCRIBE v FROM 5").await;
        let error = late.line().await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::CONFIGURATION_LIMIT_EXCEEDED));
    });
}

#[test]
fn many_clients_follow_one_view() {
    with_view(|server, writer| async move {
        let mut followers = Vec::new();
        for _ in 0..90 {
            followers.push(Subscriber::new(connect(&server).await, "SUBSCRIBE v").await);
        }
        for _ in 0..10 {
            writer.batch_execute("INSERT INTO t VALUES (1)").await.unwrap();
        }
        for mut follower in followers {
            let mut ends = Vec::new();
            while ends.last() != Some(&10) {
                let line = follower.line().await.unwrap();
                if let Some(position) = line.strip_suffix("\t=") {
                    ends.push(position.parse().unwrap());
                }
            }
            assert!(ends.is_sorted());
        }
    });
}
