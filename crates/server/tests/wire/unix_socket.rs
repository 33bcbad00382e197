//! Clients that come through the Unix socket.

use std::path::PathBuf;
use std::time::Duration;

use halcyon_server::{ServerConfig, UnixSocket};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::common::*;

/// A folder of this test's own, which goes with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("halcyon-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn config(&self) -> ServerConfig {
        let unix_socket = Some(UnixSocket { folder: self.0.clone(), mode: 0o700 });
        ServerConfig { unix_socket, ..ServerConfig::default() }
    }

    async fn connect(&self, port: u16, more: &str) -> Result<Client, tokio_postgres::Error> {
        let config = format!("host={} port={port} user={} {more}", self.0.display(), superuser());
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn block_on<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("no hang") });
}

#[test]
fn a_client_of_the_unix_socket_is_served_as_one_of_this_machine() {
    let folder = Folder::new("unix");
    let server = server_with(folder.config());
    let port = server.address().port();
    let path = server.unix_socket().expect("it has one").to_owned();
    assert_eq!(path, folder.0.join(format!(".s.PGSQL.{port}")));
    block_on(async {
        let client = folder.connect(port, "").await.expect("a login");
        let text = "SELECT client_addr::text, $1::int + 1 FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        let row = client.query_one(text, &[&41]).await.expect("rows");
        assert_eq!((row.get::<_, Option<&str>>(0), row.get::<_, i32>(1)), (None, 42));
        // A large answer, which the socket does not take at once.
        let text = "SELECT repeat('x', 1000) FROM generate_series(1, 5000)";
        assert_eq!(client.query(text, &[]).await.expect("rows").len(), 5000);
        // A request to cancel comes through the same door.
        let cancel = client.cancel_token();
        let (slept, ()) = tokio::join!(client.batch_execute("SELECT pg_sleep(60)"), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            cancel.cancel_query(NoTls).await.expect("it is taken");
        });
        assert_eq!(slept.expect_err("cancelled").code(), Some(&SqlState::QUERY_CANCELED));
    });
    server.shutdown();
    assert!(!path.exists());
}

#[test]
fn a_client_of_the_unix_socket_that_vanishes_leaves_nothing_behind() {
    let folder = Folder::new("unix-vanishing");
    let server = server_with(folder.config());
    let port = server.address().port();
    block_on(async {
        let other = folder.connect(port, "").await.expect("a login");
        other
            .batch_execute("CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
            .await
            .unwrap();
        let config = format!("host={} port={port} user={}", folder.0.display(), superuser());
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("a login");
        let connection = tokio::spawn(connection);
        client.batch_execute("BEGIN; DELETE FROM t").await.unwrap();
        let asleep = tokio::spawn(async move { client.batch_execute("SELECT pg_sleep(60)").await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        connection.abort();
        let _ = asleep.await;
        other.batch_execute("DELETE FROM t").await.expect("the row is free");
    });
}

#[test]
fn a_password_is_asked_for_at_the_unix_socket_too() {
    let folder = Folder::new("unix-password");
    let server = server_with(ServerConfig { password: Some("right".into()), ..folder.config() });
    let port = server.address().port();
    block_on(async {
        let code = |refused: tokio_postgres::Error| refused.code().cloned();
        let refused = folder.connect(port, "password=wrong").await.map(drop).map_err(code);
        assert_eq!(refused, Err(Some(SqlState::INVALID_PASSWORD)));
        folder.connect(port, "password=right").await.expect("a login");
    });
}
