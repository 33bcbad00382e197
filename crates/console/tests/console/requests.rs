use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use halcyon::Database;
use halcyon_console::ConsoleConfig;
use serde_json::json;

use crate::client::{Both, Browser};

const RUN: &[u8] = b"{\"tab\": \"t\", \"sql\": \"SELECT 1\"}";

#[test]
fn a_request_that_changes_something_needs_the_pages_token_its_origin_and_json() {
    let both = Both::start();
    let browser = both.browser("halcyon", "");
    let own = format!("http://{}", browser.address);
    let token = browser.token.clone().unwrap();
    let json = ("content-type", "application/json");
    let send = |headers: &[(&str, &str)]| browser.send("POST", "/api/run", headers, RUN).status;
    assert_eq!(send(&[json, ("x-halcyon-token", &token), ("origin", &own)]), 200);
    assert_eq!(send(&[json, ("x-halcyon-token", &token)]), 200, "no browser, no origin");
    assert_eq!(send(&[json, ("origin", &own)]), 403, "no token");
    assert_eq!(send(&[json, ("x-halcyon-token", "guess"), ("origin", &own)]), 403);
    for origin in ["http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:1"] {
        assert_eq!(send(&[json, ("x-halcyon-token", &token), ("origin", origin)]), 403, "{origin}");
    }
    let fetched = |site| [json, ("x-halcyon-token", &token), ("sec-fetch-site", site)];
    assert_eq!(send(&fetched("cross-site")), 403);
    assert_eq!(send(&fetched("same-origin")), 200);
    assert_eq!(send(&[("content-type", "text/plain"), ("x-halcyon-token", &token)]), 415);
    // A form of another site logs nobody in: no preflight is answered, and JSON needs one.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(browser.send("POST", "/api/login", &form, b"role=halcyon").status, 415);
    let asked = browser.send("OPTIONS", "/api/run", &[("origin", "http://evil.example")], b"");
    assert_eq!(asked.status, 405);
    assert_eq!(asked.header("access-control-allow-origin"), "");
}

#[test]
fn names_of_other_sites_are_refused_on_loopback() {
    let both = Both::start();
    let browser = Browser::new(both.console.address());
    let status = |host: &str| browser.send("GET", "/api/greeting", &[("host", host)], b"").status;
    for host in ["localhost", "localhost:8433", "127.0.0.1:1", "[::1]"] {
        assert_eq!(status(host), 200, "{host}");
    }
    for host in ["evil.example", "evil.example:8433", "localhost.evil.example", "10.1.2.3"] {
        assert_eq!(status(host), 421, "{host}");
    }
}

#[test]
fn every_answer_forbids_what_pages_do_not_need() {
    let both = Both::start();
    let browser = both.browser("halcyon", "");
    let paths = ["/", "/assets/main.js", "/assets/nothing", "/api/me", "/metrics", "/health", "/x"];
    for path in paths {
        let answer = browser.get(path);
        let policy = answer.header("content-security-policy");
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert!(answer.headers.keys().all(|name| !name.starts_with("access-control")), "{path}");
    }
    assert_eq!(browser.get("/api/me").header("cache-control"), "no-store");
    let page = browser.get("/");
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let known = [("if-none-match", page.header("etag"))];
    assert_eq!(browser.send("GET", "/", &known, b"").status, 304);
    assert_eq!(browser.get("/assets/../Cargo.toml").status, 404);
}

#[test]
fn large_bodies_late_headers_and_malformed_requests_are_refused() {
    let config = ConsoleConfig {
        body_bytes_max: 10_000,
        request_timeout: Duration::from_millis(500),
        ..ConsoleConfig::default()
    };
    let both = Both::with(Database::in_memory(), config);
    let browser = both.browser("halcyon", "");
    let long = json!({ "tab": "t", "sql": "x".repeat(20_000) });
    assert_eq!(browser.post("/api/run", &long).status, 413);
    let wrong = [json!({}), json!({ "tab": "t" }), json!({ "tab": "", "sql": "" }), json!([1])];
    for body in wrong {
        assert_eq!(browser.post("/api/run", &body).status, 400, "{body}");
    }
    for path in ["/api/live/nothing", "/api/live/", "/api/live/overview,x"] {
        assert!([400, 404].contains(&browser.get(path).status), "{path}");
    }
    // Nothing at all, headers that do not end, and no headers.
    for begun in ["", "GET / HTTP/1.1\r\nhost: localhost\r\n", "nonsense\r\n\r\n"] {
        let mut stream = TcpStream::connect(browser.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(begun.as_bytes()).unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        assert!(ended.is_ok(), "{begun}: the server did not close the connection");
    }
    assert_eq!(browser.get("/api/me").status, 200);
}

#[test]
fn sockets_beyond_the_limit_wait_and_others_are_served_later() {
    let config = ConsoleConfig { sockets_max: 2, ..ConsoleConfig::default() };
    let both = Both::with(Database::in_memory(), config);
    let address = both.console.address();
    let held = [TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap()];
    std::thread::sleep(Duration::from_millis(100));
    let waiting = std::thread::spawn(move || Browser::new(address).get("/health").status);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!waiting.is_finished());
    drop(held);
    assert_eq!(waiting.join().unwrap(), 200);
}
