//! Passwords, TLS, and what is refused without them.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use halcyon::Database;
use halcyon_server::{ServerConfig, StartError, TlsFiles, serve};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use super::common::*;

fn login(port: u16, user: &str, password: &str) -> Result<(), tokio_postgres::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(port).user(user).password(password);
        let (client, connection) = config.connect(NoTls).await?;
        let connection = tokio::spawn(connection);
        client.simple_query("SELECT 1").await?;
        drop(client);
        connection.await.unwrap()
    })
}

#[test]
fn a_server_with_a_password_lets_in_who_knows_it() {
    let password = "it's a pässword";
    let config = ServerConfig { password: Some(password.into()), ..ServerConfig::default() };
    let server = server_with(config);
    let port = server.address().port();
    login(port, &superuser(), password).expect("the right password");
    let refused = |user: &str, password| {
        let error = login(port, user, password).expect_err("no login");
        assert_eq!(error.code(), Some(&SqlState::INVALID_PASSWORD), "{error}");
    };
    refused(&superuser(), "wrong");
    refused("nobody", password);
}

#[test]
fn roles_with_a_password_need_it_where_others_are_trusted() {
    let server = server();
    let port = server.address().port();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE ROLE ann LOGIN PASSWORD 'secret'");
    raw.ok("CREATE ROLE bob LOGIN");
    raw.ok("CREATE ROLE guild");
    login(port, "ann", "secret").expect("the right password");
    login(port, "bob", "").expect("trust");
    let code = |user, password| login(port, user, password).expect_err("no login").code().cloned();
    assert_eq!(code("ann", "wrong"), Some(SqlState::INVALID_PASSWORD));
    let not_allowed = Some(SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
    assert_eq!(code("guild", ""), not_allowed);
    assert_eq!(code("nobody", ""), not_allowed);
}

/// Three times as many sockets as the server lets wait, silent, with half a startup packet, or in the
/// middle of SASL; none of them has the password.
#[test]
fn who_has_not_logged_in_keeps_nobody_out() {
    let config = ServerConfig {
        password: Some("secret".into()),
        connections_max: 4,
        logins_max: 16,
        ..ServerConfig::default()
    };
    let server = server_with(config);
    let port = server.address().port();
    let packet = startup(&superuser());
    let stopped: Vec<Raw> = (0..48)
        .map(|number| {
            let mut raw = Raw::silent(server.address());
            match number % 3 {
                0 => {}
                1 => raw.send(&packet[..packet.len() / 2]),
                _ => {
                    raw.send(&packet);
                    assert_eq!(raw.next().expect("a question").kind, b'R');
                }
            }
            raw
        })
        .collect();
    assert_eq!(server.connections(), 0, "no place is taken before the password");
    let began = std::time::Instant::now();
    login(port, &superuser(), "secret").expect("the right password");
    assert!(began.elapsed() < ServerConfig::default().login_timeout, "nobody had to be waited for");
    // The oldest have been shown out, the youngest may go on.
    for mut raw in stopped.into_iter().take(16) {
        assert!(raw.next().is_none());
    }
}

#[test]
fn wrong_passwords_delay_the_next_attempt() {
    let config = ServerConfig { password: Some("secret".into()), ..ServerConfig::default() };
    let server = server_with(config);
    let port = server.address().port();
    for _ in 0..3 {
        login(port, &superuser(), "wrong").expect_err("no login");
    }
    let began = std::time::Instant::now();
    login(port, &superuser(), "secret").expect("a right password is let in, however late");
    // 100 ms after the first wrong one, doubled by each of the others.
    assert!(began.elapsed() >= Duration::from_millis(400), "after {:?}", began.elapsed());
}

#[test]
fn an_address_others_can_reach_needs_tls_and_a_password() {
    let start = |tls: Option<TlsFiles>, password: Option<&str>| {
        let config = ServerConfig {
            listen: ([0, 0, 0, 0], 0).into(),
            tls,
            password: password.map(Into::into),
            ..ServerConfig::default()
        };
        serve(Database::in_memory(), config)
    };
    let files = certificate("exposed");
    for (tls, password) in [(None, None), (Some(files.clone()), None), (None, Some("secret"))] {
        let error = start(tls, password).err().expect("refused");
        assert!(matches!(error, StartError::Exposed { .. }), "{error}");
        assert!(error.to_string().starts_with("refusing to listen at 0.0.0.0:0"), "{error}");
    }
    let server = start(Some(files), Some("secret")).expect("both are given");
    assert_ne!(server.address().port(), 0);
}

#[test]
fn files_that_are_no_certificate_are_named() {
    let wrong = TlsFiles { certificate: "/dev/null".into(), key: "/nonexistent".into() };
    let config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        tls: Some(wrong),
        ..ServerConfig::default()
    };
    let error = serve(Database::in_memory(), config).err().expect("refused");
    assert!(error.to_string().contains("/dev/null"), "{error}");
}

/// A certificate for localhost that nobody signed, made by openssl.
fn certificate(name: &str) -> TlsFiles {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let files = TlsFiles {
        certificate: folder.join(format!("{name}.crt")),
        key: folder.join(format!("{name}.key")),
    };
    let status = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout"])
        .arg(&files.key)
        .arg("-out")
        .arg(&files.certificate)
        .stderr(Stdio::null())
        .status()
        .expect("openssl is installed");
    assert!(status.success());
    files
}

/// Runs psql over TLS; gives what it prints, or what it complains of.
fn psql(
    port: u16,
    options: &str,
    root: &Path,
    password: &str,
    sql: &str,
) -> Result<String, String> {
    let output = Command::new("psql")
        .arg(format!(
            "host=localhost hostaddr=127.0.0.1 port={port} user={} dbname=halcyon {options}",
            superuser()
        ))
        .args(["-XAtc", sql])
        .env("PGPASSWORD", password)
        .env("PGSSLROOTCERT", root)
        .output()
        .expect("psql is installed");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stderr)),
    }
}

#[test]
fn tls_is_verified_and_bound_to_the_password() {
    let files = certificate("tls");
    let root = files.certificate.clone();
    let config = ServerConfig {
        tls: Some(files),
        password: Some("secret".into()),
        ..ServerConfig::default()
    };
    let server = server_with(config);
    let port = server.address().port();
    let run = |options, password| psql(port, options, &root, password, "SELECT 42");
    assert_eq!(run("sslmode=verify-full", "secret").as_deref(), Ok("42"));
    let bound = run("sslmode=verify-full channel_binding=require", "secret");
    assert_eq!(bound.as_deref(), Ok("42"));
    assert!(run("sslmode=verify-full", "wrong").unwrap_err().contains("password authentication"));
    assert_eq!(run("sslmode=disable", "secret").as_deref(), Ok("42"), "loopback may do without");
    let other = certificate("other").certificate;
    let distrusted = psql(port, "sslmode=verify-full", &other, "secret", "SELECT 42");
    assert!(distrusted.unwrap_err().contains("certificate"), "a stranger's certificate");
}

#[test]
fn plain_bytes_after_a_request_for_tls_are_not_taken_for_encrypted() {
    let config = ServerConfig { tls: Some(certificate("injected")), ..ServerConfig::default() };
    let server = server_with(config);
    let mut raw = Raw::silent(server.address());
    let request = [8u32.to_be_bytes(), 80_877_103u32.to_be_bytes()].concat();
    raw.stream.write_all(&[&request[..], &startup(&superuser())].concat()).unwrap();
    let mut answer = [0];
    raw.stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"S");
    let refused = raw.until(b'Z');
    assert_eq!(refused[0].field(b'C'), Some("08P01"), "{refused:?}");
}
