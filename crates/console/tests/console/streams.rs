use std::time::{Duration, Instant};

use halcyon::Database;
use halcyon_console::ConsoleConfig;

use crate::client::{Both, Events};

#[test]
fn panels_come_every_second_with_their_rows() {
    let both = Both::start();
    let browser = both.browser("halcyon", "");
    let mut events = browser.events("/api/live/overview,sessions");
    let first = events.named("sessions");
    let columns = &first["queries"]["sessions"]["columns"];
    assert_eq!(columns[0], "session");
    let began = Instant::now();
    let (at, mut last) = (events.named("overview")["at"].as_u64().unwrap(), 0);
    for _ in 0..3 {
        last = events.named("overview")["at"].as_u64().unwrap();
    }
    assert!((2_500..6_000).contains(&(last - at)), "{}", last - at);
    assert!(began.elapsed() > Duration::from_millis(2_500));
    let accounts = events.named("overview")["queries"]["accounts"]["rows"].clone();
    let total = accounts.as_array().unwrap().iter().find(|row| row[0] == "total").unwrap().clone();
    assert!(total[2].as_u64().unwrap() > 0, "{total}");
}

#[test]
fn ten_viewers_cost_what_one_does() {
    let both = Both::start();
    let queries_in = |seconds: u64| {
        let before = both.console.panel_queries();
        std::thread::sleep(Duration::from_secs(seconds));
        both.console.panel_queries() - before
    };
    let watch = |count: usize| -> Vec<Events> {
        let browsers = (0..count).map(|_| both.browser("halcyon", ""));
        let mut events: Vec<Events> =
            browsers.map(|browser| browser.events("/api/live/overview")).collect();
        events.iter_mut().for_each(|events| drop(events.named("overview")));
        events
    };
    let one = watch(1);
    let cost_of_one = queries_in(3);
    let ten = watch(9);
    let cost_of_ten = queries_in(3);
    // A look is six queries; one more or less fits into three seconds.
    assert!(cost_of_one >= 12, "{cost_of_one}");
    assert!(cost_of_ten <= cost_of_one + 12, "{cost_of_one} {cost_of_ten}");
    drop((one, ten));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(queries_in(2), 0, "nobody looks");
}

#[test]
fn a_view_is_followed_row_by_row() {
    let both = Both::start();
    both.sql(
        "CREATE ROLE ann LOGIN;
         CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER); INSERT INTO t VALUES (1, 10);
         CREATE MATERIALIZED VIEW \"odd \"\"view\" AS SELECT k, v FROM t;
         CREATE MATERIALIZED VIEW total AS SELECT SUM(v) AS s FROM t",
    );
    let browser = both.browser("halcyon", "");
    let mut events = browser.events("/api/follow/public/total");
    assert_eq!(events.named("columns")[0]["name"], "s");
    let first = events.named("changes");
    assert_eq!(first["changes"], serde_json::json!([["+", ["10"]]]));
    both.sql("INSERT INTO t VALUES (2, 5)");
    let next = events.named("changes");
    assert_eq!(next["changes"], serde_json::json!([["-", ["10"]], ["+", ["15"]]]));
    both.sql("DROP MATERIALIZED VIEW total");
    assert_eq!(events.named("refused")["state"], "42P01");
    assert!(events.next().is_none());
    let mut odd = browser.events("/api/follow/public/odd%20%22view");
    odd.named("columns");
    assert_eq!(odd.named("changes")["changes"].as_array().unwrap().len(), 2);
    // Another role needs the right to read the view; a table is none.
    let ann = both.browser("ann", "");
    let refused = ann.get("/api/follow/public/odd%20%22view");
    assert_eq!((refused.status, refused.json()["error"]["state"].as_str()), (409, Some("42501")));
    assert_eq!(browser.get("/api/follow/public/t").json()["error"]["state"], "42809");
}

#[test]
fn a_class_that_is_made_comes_to_pages_that_are_open() {
    let both = Both::start();
    let browser = both.browser("halcyon", "");
    let mut events = browser.events("/api/live/workload");
    assert!(!events.named("workload").to_string().contains("\"late\""));
    both.sql("CREATE WORKLOAD CLASS late SET 'PRIORITY' = 3");
    crate::client::until("the class", || {
        events.named("workload")["queries"]["definitions"].to_string().contains("\"late\"")
    });
}

#[test]
fn a_login_has_a_bounded_number_of_streams() {
    let both = Both::with(Database::in_memory(), ConsoleConfig::default());
    let browser = both.browser("halcyon", "");
    let open: Vec<_> = (0..12).map(|_| browser.events("/api/live/overview")).collect();
    assert_eq!(browser.get("/api/live/overview").status, 429);
    drop(open);
    crate::client::until("room for a stream", || {
        std::panic::catch_unwind(|| browser.events("/api/live/overview")).is_ok()
    });
}
