use std::time::{Duration, Instant};

use halcyon::Database;
use halcyon_console::ConsoleConfig;
use serde_json::{Value as Json, json};

use crate::client::{Both, until};

#[test]
fn statements_run_in_the_tabs_session_with_rows_types_and_errors() {
    let both = Both::start();
    let browser = both.browser("halcyon", "");
    let told = browser.run(
        "a",
        "CREATE TABLE t (i INTEGER PRIMARY KEY, big BIGINT, s TEXT, d DATE);
         INSERT INTO t VALUES (1, 9223372036854775807, NULL, '2026-01-02'), (2, 0, '<b>', NULL);
         SELECT * FROM t ORDER BY i",
    );
    assert_eq!(told["error"], Json::Null, "{told}");
    let results = told["results"].as_array().unwrap();
    assert_eq!(results[0]["tag"], "CREATE TABLE");
    assert_eq!(results[1]["tag"], "INSERT 0 2");
    assert_eq!(results[2]["tag"], "SELECT 2");
    let types: Vec<_> =
        results[2]["columns"].as_array().unwrap().iter().map(|c| c["type"].clone()).collect();
    assert_eq!(types, ["integer", "bigint", "text", "date"]);
    let rows = json!([["1", "9223372036854775807", null, "2026-01-02"], ["2", "0", "<b>", null]]);
    assert_eq!(results[2]["rows"], rows, "no digit is lost");
    // The position counts in the whole text, and what came before the error stays.
    let told = browser.run("a", "SELECT 1;\nSELECT nothing FROM t");
    assert_eq!(told["results"].as_array().unwrap().len(), 1);
    assert_eq!(told["error"]["state"], "42703", "{told}");
    let told = browser.run("a", "SELECT 1;\nSELECT 2 +;");
    assert_eq!(told["error"]["state"], "42601", "{told}");
    // A transaction stays open from text to text, in this tab alone.
    assert_eq!(browser.run("a", "BEGIN; DELETE FROM t")["state"], "idle in transaction");
    assert_eq!(browser.value("a", "SELECT count(*) FROM t"), "0");
    browser.run("a", "ROLLBACK");
    assert_eq!(browser.value("b", "SELECT count(*) FROM t"), "2");
    assert_eq!(browser.value("b", "SHOW application_name"), "halcyon console");
}

#[test]
fn results_have_a_limit_that_is_told() {
    let both = Both::start();
    let browser = both.browser("halcyon", "");
    let ask = |rows: u64, sql: &str| {
        let answer = browser.post("/api/run", &json!({ "tab": "a", "sql": sql, "rows": rows }));
        answer.json()["results"][0].clone()
    };
    let all = ask(10, "SELECT * FROM generate_series(1, 10)");
    assert_eq!((all["rows"].as_array().unwrap().len(), &all["more"]), (10, &json!(false)));
    let part = ask(10, "SELECT * FROM generate_series(1, 100000000)");
    assert_eq!((part["rows"].as_array().unwrap().len(), &part["more"]), (10, &json!(true)));
    let wide = ask(10_000, "SELECT repeat('x', 1000000) FROM generate_series(1, 100)");
    assert!(wide["rows"].as_array().unwrap().len() < 10, "an answer has 8 MB at most");
    assert_eq!(wide["more"], true);
    let told = browser.run("a", "COPY (SELECT 1) TO STDOUT");
    assert_eq!(told["error"]["state"], "0A000", "{told}");
    assert_eq!(browser.value("a", "SELECT 1"), "1", "the session goes on");
}

#[test]
fn a_statement_is_cancelled_by_its_page_by_a_page_that_goes_and_by_sql() {
    let both = Both::start();
    let browser = both.browser("halcyon", "");
    let other = both.browser("halcyon", "");
    let active = |browser: &crate::client::Browser| {
        let count = "SELECT count(*) FROM halcyon.sessions WHERE statement LIKE 'SELECT pg_sleep%'
                     AND state <> 'idle'";
        browser.value("watch", count) == "1"
    };
    let sleeps = |tab: &'static str| {
        let browser = browser.clone();
        std::thread::spawn(move || browser.run(tab, "SELECT pg_sleep(60); SELECT 2"))
    };
    let running = sleeps("a");
    until("the statement", || active(&other));
    let again = browser.post("/api/run", &json!({ "tab": "a", "sql": "SELECT 1" }));
    assert_eq!(again.status, 409, "one text at a time in a tab");
    // Another login does not reach this one's tab.
    assert_eq!(other.post("/api/cancel", &json!({ "tab": "a" })).json()["cancelled"], false);
    assert_eq!(browser.post("/api/cancel", &json!({ "tab": "a" })).json()["cancelled"], true);
    let told = running.join().unwrap();
    assert_eq!(told["error"]["state"], "57014", "{told}");
    assert_eq!(told["results"], json!([]), "what stands behind does not run");
    // A page that goes away ends its statement.
    let body = json!({ "tab": "a", "sql": "SELECT pg_sleep(60)" }).to_string();
    let token = browser.token.clone().unwrap();
    let text = format!(
        "POST /api/run HTTP/1.1\r\nhost: localhost\r\ncookie: {}\r\nx-halcyon-token: {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        browser.cookie.clone().unwrap(),
        body.len()
    );
    let mut stream = std::net::TcpStream::connect(browser.address).unwrap();
    std::io::Write::write_all(&mut stream, text.as_bytes()).unwrap();
    until("the statement", || active(&other));
    drop(stream);
    until("its end", || !active(&other));
    // pg_terminate_backend ends the session, and the tab gets a new one.
    let running = sleeps("c");
    until("the statement", || active(&other));
    other.value(
        "watch",
        "SELECT pg_terminate_backend(session) FROM halcyon.sessions
         WHERE statement LIKE 'SELECT pg_sleep%' AND state <> 'idle'",
    );
    assert_ne!(running.join().unwrap()["error"], Json::Null);
    assert_eq!(browser.value("c", "SELECT 1"), "1");
}

#[test]
fn the_rights_are_the_roles_own() {
    let both = Both::start();
    both.sql(
        "CREATE ROLE ann LOGIN; CREATE TABLE secret (word TEXT); CREATE TABLE open (word TEXT);
         GRANT SELECT ON open TO ann; INSERT INTO secret VALUES ('hidden')",
    );
    let (root, ann) = (both.browser("halcyon", ""), both.browser("ann", ""));
    root.run("a", "SELECT 'a statement of the superuser''s'; SELECT * FROM secret");
    let told = ann.run("a", "SELECT * FROM secret");
    assert_eq!(told["error"]["state"], "42501", "{told}");
    assert_eq!(ann.value("a", "SELECT current_user"), "ann");
    assert_eq!(ann.run("a", "CREATE ROLE eve SUPERUSER")["error"]["state"], "42501");
    // Neither pages nor streams show what the role may not see.
    assert_eq!(ann.get("/api/machine").status, 403);
    assert_eq!(root.get("/api/machine").status, 200);
    let catalog = ann.get("/api/catalog").text();
    assert!(catalog.contains("\"open\"") && !catalog.contains("\"secret\""), "{catalog}");
    let panels = "/api/live/sessions,statements,memory,workload,overview,views,machine";
    let mut events = ann.events(panels);
    for _ in 0..14 {
        let (name, data) = events.next().unwrap();
        let text = data.to_string();
        assert!(!text.contains("superuser''s") && !text.contains("hidden"), "{name}: {text}");
        if name == "statements" {
            assert_eq!(data["queries"]["statements"]["rows"], json!([]), "for superusers");
        }
    }
}

#[test]
fn at_most_so_many_statements_run_at_once() {
    let config = ConsoleConfig { statements_max: 2, ..ConsoleConfig::default() };
    let both = Both::with(Database::in_memory(), config);
    let browser = both.browser("halcyon", "");
    let sleeps = |tab: &'static str| {
        let browser = browser.clone();
        std::thread::spawn(move || browser.run(tab, "SELECT pg_sleep(60)"))
    };
    let running = [sleeps("a"), sleeps("b")];
    let count = "SELECT 1 FROM halcyon.sessions WHERE statement LIKE 'SELECT pg_sleep%'
                 AND state <> 'idle'";
    until("two statements", || both.database.session().execute(count, &[]).unwrap() == 2);
    let one = json!({ "tab": "c", "sql": "SELECT 1" });
    assert_eq!(browser.post("/api/run", &one).status, 429);
    // Panels are read all the same.
    browser.events("/api/live/sessions").named("sessions");
    for tab in ["a", "b"] {
        browser.post("/api/cancel", &json!({ "tab": tab }));
    }
    for running in running {
        assert_eq!(running.join().unwrap()["error"]["state"], "57014");
    }
    assert_eq!(browser.value("c", "SELECT 1"), "1");
}

#[test]
fn at_most_four_tabs_have_sessions() {
    let both = Both::start();
    let browser = both.browser("halcyon", "");
    for tab in ["a", "b", "c", "d", "e", "f"] {
        browser.run(tab, "SELECT 1");
    }
    let count = "SELECT count(*) FROM halcyon.sessions WHERE application = 'halcyon console'";
    assert_eq!(browser.value("f", count), "4");
    assert_eq!(both.database.session().execute("SELECT 1", &[]).unwrap(), 1);
    browser.post("/api/logout", &json!({}));
    let root = both.browser("halcyon", "");
    until("the end of the sessions", || root.value("x", count) == "1");
}

#[test]
fn what_was_not_committed_is_rolled_back_at_logout_and_at_the_end() {
    let both = Both::start();
    both.sql("CREATE TABLE t (i INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)");
    let browser = both.browser("halcyon", "");
    browser.run("a", "BEGIN; UPDATE t SET i = 2");
    browser.post("/api/logout", &json!({}));
    both.sql("UPDATE t SET i = 3");
    let browser = both.browser("halcyon", "");
    browser.run("a", "BEGIN; UPDATE t SET i = 4");
    let sleeping = browser.clone();
    let running = std::thread::spawn(move || {
        let body = json!({ "tab": "b", "sql": "SELECT pg_sleep(60)" });
        std::panic::catch_unwind(|| sleeping.post("/api/run", &body).status)
    });
    let mut events = browser.events("/api/live/overview");
    events.named("overview");
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    let (database, address) = (both.database.clone(), both.console.address());
    both.console.shutdown();
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    while events.next().is_some() {}
    let _ = running.join();
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens");
    database.session().execute("UPDATE t SET i = 5", &[]).unwrap();
}
