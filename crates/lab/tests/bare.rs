//! The server that does no work answers a driver's lookups, over TCP and over a Unix socket, and nothing else; the
//! experiment measures it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// The server, ended when dropped.
struct Server {
    process: Child,
    listens: String,
}

impl Server {
    fn start(listen: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_halcyon-lab"))
            .args(["bare-server", "--rows", "1000", "--look", "150", "--listen", listen])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let listens = line.trim().strip_prefix("listening at ").unwrap().to_owned();
        Server { process, listens }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Connects, and runs the driver's side of the connection until the test's runtime ends.
async fn connect(config: &mut Config) -> Client {
    let (client, connection) = config.user("lab").dbname("lab").connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Every way in which the experiment looks a row up, and texts that the server does not know.
async fn check(config: &mut Config) {
    let text = "SELECT branch, balance, filler FROM account WHERE id = $1";
    let client = connect(config).await;
    let statement = client.prepare(text).await.unwrap();
    for id in 1..=3_i32 {
        let prepared = client.query_one(&statement, &[&id]).await.unwrap();
        let params = [(&id as &(dyn ToSql + Sync), Type::INT4)];
        let typed = client.query_typed(text, &params).await.unwrap().remove(0);
        for row in [prepared, typed] {
            let found: (i32, i32, &str) = (row.get(0), row.get("balance"), row.get(2));
            assert_eq!(found, (1, 0, format!("row {id}").as_str()));
        }
        let simple = format!("SELECT branch, balance AS b7, filler FROM account WHERE id = {id}");
        let messages = client.simple_query(&simple).await.unwrap();
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((row.get(0), row.get("b7"), row.get("filler"))),
            _ => None,
        });
        let filler = format!("row {id}");
        assert_eq!(rows.collect::<Vec<_>>(), [(Some("1"), Some("0"), Some(filler.as_str()))]);
    }
    let all = futures::future::join_all((1..=1000).map(|id: i32| {
        let (client, statement) = (&client, &statement);
        async move { client.query_one(statement, &[&id]).await.unwrap().len() }
    }));
    assert_eq!(all.await.iter().sum::<usize>(), 3000, "a thousand at once");
    assert_eq!(client.query(&statement, &[&1001]).await.unwrap().len(), 0);
    for refused in ["SELECT 1", "SELECT FROM account WHERE id = one"] {
        let client = connect(config).await;
        let error = client.simple_query(refused).await.unwrap_err();
        let code = error.code().expect("the server says why").code();
        assert_eq!(code, "0A000", "{refused}");
        assert!(client.simple_query("SELECT 1").await.is_err(), "it has hung up");
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

#[test]
fn a_driver_looks_rows_up_over_tcp() {
    let server = Server::start("127.0.0.1:0");
    let (host, port) = server.listens.rsplit_once(':').unwrap();
    run(check(Config::new().host(host).port(port.parse().unwrap())));
}

#[test]
fn a_driver_looks_rows_up_over_a_unix_socket() {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("b{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let server = Server::start(folder.join(".s.PGSQL.5432").to_str().unwrap());
    run(check(Config::new().host_path(&folder).port(5432)));
    drop(server);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_experiment_measures_it_and_checks_its_rows() {
    let arguments = ["wire", "--arms", "bare,bare_awake", "--rows", "1000", "--clients", "2"];
    let output = Command::new(env!("CARGO_BIN_EXE_halcyon-lab"))
        .args(arguments)
        .args(["--seconds", "0.1", "--rounds", "1", "--json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    for (line, name) in text.lines().zip(["bare", "bare_awake"]) {
        let arm: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&arm["engine"], &arm["check"]), (&name.into(), &"ok".into()), "{arm}");
        for figure in ["prepared_per_s", "extended_server_us", "simple_p50_us", "new_p99_us"] {
            assert!(arm["figures"][figure].as_f64().is_some_and(|figure| figure >= 0.0), "{arm}");
        }
        assert!(arm["figures"]["tpcb_per_s"].is_null(), "it has no tables to change");
    }
}
