use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use halcyon::Database;
use halcyon_console::{Console, ConsoleConfig, ConsoleError};
use halcyon_server::{ServerConfig, TlsFiles, serve};
use serde_json::json;

use crate::client::{Both, Browser, until};

#[test]
fn a_role_without_a_password_logs_in_on_this_machine_and_its_cookie_is_for_no_script() {
    let both = Both::start();
    let mut browser = Browser::new(both.console.address());
    assert_eq!(browser.get("/api/me").status, 401);
    assert_eq!(browser.get("/api/greeting").json()["trusted"], "halcyon");
    let answer = browser.log_in("halcyon", "");
    assert_eq!(answer.status, 200);
    let cookie = answer.header("set-cookie");
    let port = both.console.address().port();
    assert!(cookie.starts_with(&format!("halcyon-{port}=")), "{cookie}");
    for flag in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(cookie.contains(flag), "{cookie} lacks {flag}");
    }
    // Over TLS alone a cookie can be Secure.
    assert!(!cookie.contains("Secure"), "{cookie}");
    let me = browser.get("/api/me").json();
    assert_eq!((&me["role"], &me["superuser"]), (&json!("halcyon"), &json!(true)));
    assert_eq!(both.console.viewers(), 1);
}

#[test]
fn passwords_are_those_of_sql_and_wrong_ones_are_delayed() {
    let both = Both::start();
    both.sql("CREATE ROLE ann LOGIN PASSWORD 'right'; CREATE ROLE nobody PASSWORD 'right'");
    let mut browser = Browser::new(both.console.address());
    let refused = browser.log_in("ann", "wrong");
    assert_eq!(refused.status, 401);
    assert_eq!(refused.json()["error"]["state"], "28P01");
    for (role, password) in [("ann", ""), ("ann", "right "), ("nobody", "right"), ("", "")] {
        assert_eq!(browser.log_in(role, password).status, 401, "{role} {password}");
    }
    // Three wrong passwords before: the next attempt is judged 0.4 s later, right or wrong.
    let began = Instant::now();
    assert_eq!(browser.log_in("ann", "right").status, 200);
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    // A right password makes good the wrong ones.
    let began = Instant::now();
    assert_eq!(browser.log_in("ann", "right").status, 200);
    assert!(began.elapsed() < Duration::from_millis(390), "{:?}", began.elapsed());
}

#[test]
fn a_login_ends_with_logout_with_another_password_and_with_the_role() {
    let both = Both::start();
    both.sql("CREATE ROLE ann LOGIN PASSWORD 'a'; CREATE ROLE bob LOGIN; CREATE ROLE eve LOGIN");
    let (ann, bob, eve) =
        (both.browser("ann", "a"), both.browser("bob", ""), both.browser("eve", ""));
    let mut events = ann.events("/api/live/overview");
    events.named("overview");
    assert_eq!(eve.post("/api/logout", &json!({})).status, 200);
    assert_eq!(eve.get("/api/me").status, 401);
    both.sql("ALTER ROLE ann PASSWORD 'b'; ALTER ROLE bob NOLOGIN");
    for browser in [&ann, &bob] {
        assert_eq!(browser.get("/api/me").status, 401);
        assert_eq!(browser.post("/api/run", &json!({ "tab": "t", "sql": "SELECT 1" })).status, 401);
    }
    let mut last = None;
    while let Some((name, _)) = events.next() {
        last = Some(name);
    }
    assert_eq!(last.as_deref(), Some("over"), "a stream ends with its login");
    until("the end of the logins", || both.console.viewers() == 0);
}

#[test]
fn logins_end_in_time_and_make_room() {
    let config = ConsoleConfig {
        viewers_max: 2,
        idle_max: Duration::from_millis(700),
        ..ConsoleConfig::default()
    };
    let both = Both::with(Database::in_memory(), config);
    let (first, second) = (both.browser("halcyon", ""), both.browser("halcyon", ""));
    let mut third = Browser::new(both.console.address());
    assert_eq!(third.log_in("halcyon", "").status, 503);
    // A second login of the same browser takes the place of the first.
    assert_eq!(second.clone().log_in("halcyon", "").status, 200);
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(first.get("/api/me").status, 401);
    until("room", || third.log_in("halcyon", "").status == 200);
}

#[test]
fn a_console_that_other_machines_reach_needs_tls_and_a_password() {
    let listen = "0.0.0.0:0".parse().unwrap();
    let refused = Console::listen(ConsoleConfig { listen, ..ConsoleConfig::default() });
    let Err(ConsoleError::Exposed(error)) = refused else { panic!("it listens") };
    assert!(error.to_string().contains("without TLS"), "{error}");
}

#[test]
fn nothing_but_health_is_served_before_the_database_is_open() {
    let listen = "127.0.0.1:0".parse().unwrap();
    let console = Console::listen(ConsoleConfig { listen, ..ConsoleConfig::default() }).unwrap();
    let mut browser = Browser::new(console.address());
    assert_eq!(browser.get("/health").status, 200);
    for path in ["/ready", "/metrics", "/api/me", "/api/live/overview", "/api/greeting"] {
        assert_eq!(browser.get(path).status, 503, "{path}");
    }
    assert_eq!(browser.log_in("halcyon", "").status, 503);
    let database = Database::in_memory();
    let server =
        serve(database.clone(), ServerConfig { listen, ..ServerConfig::default() }).unwrap();
    console.open(database, server.logins()).unwrap();
    assert_eq!(browser.get("/ready").status, 200);
    assert_eq!(browser.log_in("halcyon", "").status, 200);
}

#[test]
fn a_viewer_takes_one_of_the_servers_connections() {
    let database = Database::in_memory();
    let listen = "127.0.0.1:0".parse().unwrap();
    let config = ServerConfig {
        listen,
        connections_max: 2,
        superuser_reserved_connections: 0,
        ..ServerConfig::default()
    };
    let server = serve(database.clone(), config).unwrap();
    let console = Console::listen(ConsoleConfig { listen, ..ConsoleConfig::default() }).unwrap();
    console.open(database, server.logins()).unwrap();
    let mut browsers = vec![Browser::new(console.address()); 3];
    assert_eq!(browsers[0].log_in("halcyon", "").status, 200);
    assert_eq!(browsers[1].log_in("halcyon", "").status, 200);
    let refused = browsers[2].log_in("halcyon", "");
    assert_eq!((refused.status, &refused.json()["error"]["state"]), (503, &json!("53300")));
    assert_eq!(server.connections(), 2);
    browsers[0].post("/api/logout", &json!({}));
    assert_eq!(browsers[2].log_in("halcyon", "").status, 200);
}

/// A certificate for localhost that nobody signed, made by openssl.
fn certificate() -> TlsFiles {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (certificate, key) = (folder.join("console.crt"), folder.join("console.key"));
    let status = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .stderr(Stdio::null())
        .status()
        .expect("openssl is installed");
    assert!(status.success());
    TlsFiles { certificate, key }
}

#[test]
fn over_tls_the_cookie_is_secure_and_other_machines_may_come() {
    let listen = "0.0.0.0:0".parse().unwrap();
    let tls = Some(certificate());
    let console =
        Console::listen(ConsoleConfig { listen, tls, ..ConsoleConfig::default() }).unwrap();
    let database = Database::in_memory();
    let wire = ServerConfig { listen: "127.0.0.1:0".parse().unwrap(), ..ServerConfig::default() };
    let server = serve(database.clone(), wire).unwrap();
    let refused = console.open(database.clone(), server.logins());
    let Err(ConsoleError::Exposed(error)) = refused else { panic!("no role has a password") };
    assert!(error.to_string().contains("a password"), "{error}");
    database.session().execute("ALTER ROLE halcyon PASSWORD 'secret'", &[]).unwrap();
    console.open(database, server.logins()).unwrap();
    let port = console.address().port();
    assert_eq!(console.url(), format!("https://localhost:{port}/"));
    let body = json!({ "role": "halcyon", "password": "secret" }).to_string();
    let request = format!(
        "POST /api/login HTTP/1.1\r\nhost: db.example:{port}\r\norigin: https://db.example:{port}\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-alpn", "http/1.1", "-connect"])
        .arg(format!("127.0.0.1:{port}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = client.stdin.take().unwrap();
    input.write_all(request.as_bytes()).unwrap();
    let output = client.wait_with_output().unwrap();
    drop(input);
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains(&format!("set-cookie: __Host-halcyon-{port}=")), "{answer}");
    assert!(answer.contains("; Secure"), "{answer}");
    // Without TLS there is no answer at all.
    let mut plain = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    plain.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut rest);
    assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
}
