//! The options that a server is started with: who can reach it, and by what certificate.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use halcyon_machine::{Availability, Feature};
use halcyon_server::{Tls, TlsFiles, Validity, is_loopback};

use super::diagnosis::{Diagnosis, Severity};
use crate::serve;

/// A certificate that ends sooner is to be renewed.
const DAYS_LEFT_MIN: i64 = 30;

/// The command line of a server.
#[derive(Parser)]
#[command(name = "halcyon serve", no_binary_name = true)]
struct CommandLine {
    #[command(flatten)]
    options: serve::Options,
}

/// The options that these words say. Errors: what is wrong with them, as `halcyon serve` would tell.
pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<serve::Options, String> {
    let words = words.iter().map(|word| word.as_ref().to_owned());
    let parsed = CommandLine::try_parse_from(words).map_err(|error| error.to_string())?;
    Ok(parsed.options)
}

/// Looks at the options. `tried`: the features that only an attempt tells of.
pub fn examine(options: &serve::Options, tried: impl Fn() -> Vec<Feature>, found: &mut Diagnosis) {
    let tls = options.tls();
    listen("address", options.listen, "--listen", tls.is_some(), found);
    match options.http {
        Some(address) => listen("console", address, "--http", tls.is_some(), found),
        None => found.fine("console"),
    }
    if let Some(tls) = &tls {
        key(&tls.key, found);
        certificate(tls, found);
    }
    password(options, found);
    unix_socket(options, found);
    kept(options, found);
    fifo(options, tried, found);
}

/// Who can reach an address.
fn listen(
    about: &'static str,
    address: SocketAddr,
    flag: &str,
    has_tls: bool,
    found: &mut Diagnosis,
) {
    if is_loopback(address.ip()) {
        return found.fine(about);
    }
    let what = format!("{flag} {address} can be reached from other machines");
    if !has_tls {
        let why = "the server refuses to start: passwords and rows would travel for all to read";
        let remedy =
            format!("--tls-cert FILE --tls-key FILE, or {flag} 127.0.0.1:{}", address.port());
        found.find(Severity::Error, about, format!("{what}, without TLS"), why, remedy);
    } else if address.ip().is_unspecified() {
        let why = "every network that the machine is on can try passwords";
        let remedy = format!(
            "{flag} ADDRESS:{} of the network that clients are on, or a firewall",
            address.port()
        );
        found.find(Severity::Note, about, format!("{what}, on all its networks"), why, remedy);
    } else {
        found.fine(about);
    }
}

fn key(file: &Path, found: &mut Diagnosis) {
    secret(
        "TLS key",
        file,
        "who has it reads the connections of clients, or plays the server to them",
        found,
    );
}

/// Whether a file with a secret is for its owner alone.
fn secret(about: &'static str, file: &Path, why: &str, found: &mut Diagnosis) {
    let mode = match fs::metadata(file) {
        Ok(metadata) => metadata.mode(),
        Err(error) => {
            let why = "the server cannot start without it";
            let remedy = format!("ls -l {0} (as the server's user)", file.display());
            return found.find(
                Severity::Error,
                about,
                format!("{}: {error}", file.display()),
                why,
                remedy,
            );
        }
    };
    let whose = match mode & 0o077 {
        0 => return found.fine(about),
        rights if rights & 0o007 != 0 => (Severity::Error, "every user of this machine"),
        _ => (Severity::Note, "its group"),
    };
    let (severity, whose) = whose;
    let what = format!("{whose} may use {} (mode {:o})", file.display(), mode & 0o777);
    found.find(severity, about, what, why, format!("chmod 600 {}", file.display()));
}

fn certificate(files: &TlsFiles, found: &mut Diagnosis) {
    let about = "certificate";
    if let Err(error) = Tls::load(files, "postgresql") {
        let remedy = format!(
            "openssl x509 -in {} -noout -text; openssl pkey -in {} -check -noout",
            files.certificate.display(),
            files.key.display()
        );
        return found.find(
            Severity::Error,
            about,
            error.to_string(),
            "the server does not start",
            remedy,
        );
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    match files.validity() {
        Ok(Some(validity)) => {
            dates(&files.certificate, validity, i64::try_from(now).unwrap_or(i64::MAX), found);
        }
        Ok(None) | Err(_) => {
            let remedy = format!("openssl x509 -in {} -noout -dates", files.certificate.display());
            found.unknown(about, "its dates cannot be read", remedy);
        }
    }
}

/// Compares the dates of a certificate with the present, in seconds since 1970.
fn dates(file: &Path, validity: Validity, now: i64, found: &mut Diagnosis) {
    let about = "certificate";
    let file = file.display();
    let days = (validity.ends - now).div_euclid(86_400);
    let remedy =
        format!("openssl x509 -in {file} -noout -dates, then renew it and restart the server");
    if now < validity.begins {
        let why = "clients that verify it refuse to connect";
        found.find(Severity::Error, about, format!("{file} does not hold yet"), why, remedy);
    } else if validity.ends < now {
        let why = "clients that verify it refuse to connect";
        found.find(Severity::Error, about, format!("{file} ended {} days ago", -days), why, remedy);
    } else if days < DAYS_LEFT_MIN {
        let why = "clients that verify it refuse to connect from then on; the server reads it at its start alone";
        found.find(Severity::Warning, about, format!("{file} ends in {days} days"), why, remedy);
    } else {
        found.fine(about);
    }
}

fn password(options: &serve::Options, found: &mut Diagnosis) {
    match &options.password_file {
        Some(file) => {
            secret("password file", file, "who reads it logs in as the first superuser", found);
        }
        None => found.unknown(
            "password of the first superuser",
            "there is no --password-file, and the database was not asked",
            "give --connect URL of the running server",
        ),
    }
}

fn unix_socket(options: &serve::Options, found: &mut Diagnosis) {
    let about = "Unix socket";
    let Some(folder) = &options.unix_socket else { return found.fine(about) };
    if !folder.is_dir() {
        let why = "the server does not start";
        let remedy = format!("install -d -m 755 {}", folder.display());
        return found.find(
            Severity::Error,
            about,
            format!("{} is no folder", folder.display()),
            why,
            remedy,
        );
    }
    let mode = options.unix_socket_mode;
    match mode & 0o002 {
        0 => found.fine(about),
        _ => found.find(
            Severity::Warning,
            about,
            format!("--unix-socket-mode {mode:o} lets every user of this machine in"),
            "who may open it logs in as from this machine: as every role that has no password",
            "--unix-socket-mode 770, and a group for those who may",
        ),
    }
}

/// Whether anything outlives the process and its memory.
fn kept(options: &serve::Options, found: &mut Diagnosis) {
    match options.data {
        Some(_) => found.fine("database on disk"),
        None => found.find(
            Severity::Note,
            "database on disk",
            "there is no --data",
            "the database is gone when the process ends",
            "--data DIR",
        ),
    }
    if options.spill.is_none() {
        found.find(
            Severity::Note,
            "spill folder",
            "there is no --spill",
            "statements that exceed their memory are refused (53200) where they could go on in files",
            "--spill DIR",
        );
    }
}

fn fifo(options: &serve::Options, tried: impl Fn() -> Vec<Feature>, found: &mut Diagnosis) {
    if options.fifo.is_none() {
        return;
    }
    let features = tried();
    for (name, remedy) in [
        (
            "real-time policy",
            "setcap cap_sys_nice+ep $(command -v halcyon) (LimitRTPRIO=99 of the unit)",
        ),
        (
            "locked memory",
            "ulimit -l unlimited before the start (LimitMEMLOCK=infinity of the unit)",
        ),
    ] {
        match features.iter().find(|feature| feature.name == name) {
            Some(feature) if feature.state == Availability::Present => found.fine(feature.name),
            Some(feature) => {
                found.find(Severity::Warning, feature.name, &feature.why, feature.action, remedy);
            }
            None => found.unknown("real-time policy", "it was not tried", "halcyon machine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Severity::{Error, Note, Unknown, Warning};
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Stdio};

    fn examined(words: &[&str]) -> Diagnosis {
        let mut found = Diagnosis::default();
        examine(&parse(words).expect("options"), Vec::new, &mut found);
        found
    }

    #[test]
    fn what_other_machines_can_reach_is_found() {
        let told = |words: &[&str], about| examined(words).severities(about);
        assert_eq!(told(&[], "address"), []);
        assert_eq!(told(&["--listen", "0.0.0.0:5433"], "address"), [Error]);
        assert_eq!(told(&["--listen", "[::1]:5433"], "address"), []);
        assert_eq!(told(&["--http", "192.0.2.1:8433"], "console"), [Error]);
        assert_eq!(told(&["--http", "127.0.0.1:8433"], "console"), []);
        assert_eq!(told(&[], "password of the first superuser"), [Unknown]);
        assert_eq!(told(&["--unix-socket", "/nowhere"], "Unix socket"), [Error]);
        let folder = std::env::temp_dir();
        let folder = folder.to_str().expect("UTF-8");
        let socket = |mode| ["--unix-socket", folder, "--unix-socket-mode", mode];
        assert_eq!(told(&socket("777"), "Unix socket"), [Warning]);
        assert_eq!(told(&socket("770"), "Unix socket"), []);
        assert_eq!(told(&[], "database on disk"), [Note]);
        assert_eq!(told(&["--data", "shop"], "database on disk"), []);
        assert_eq!(
            told(&["--dedicated", "0", "--fifo", "5"], "real-time policy"),
            [Unknown, Unknown]
        );
    }

    #[test]
    fn wrong_options_are_told_as_serve_tells_them() {
        let error = parse(&["--lisen", "1"]).expect_err("there is no such option");
        assert!(error.contains("unexpected argument '--lisen'"), "{error}");
    }

    #[test]
    fn certificate_key_and_password_file_are_looked_at() {
        let folder =
            std::env::temp_dir().join(format!("halcyon-doctor-tls-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
        let (certificate, key, password) = (path("cert.pem"), path("key.pem"), path("password"));
        let status = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args([
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                "-keyout",
                &key,
                "-out",
                &certificate,
            ])
            .stderr(Stdio::null())
            .status()
            .expect("openssl is installed");
        assert!(status.success());
        fs::write(&password, "secret\n").expect("written");
        let set = |path: &str, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
        };
        let words = ["--listen", "0.0.0.0:5433", "--tls-cert", &certificate, "--tls-key", &key];
        let words = [&words[..], &["--password-file", &password]].concat();
        set(&key, 0o600);
        set(&password, 0o600);
        let found = examined(&words);
        assert_eq!(found.severities("address"), [Note], "{found:#?}");
        assert_eq!(found.severities("TLS key"), []);
        assert_eq!(found.severities("password file"), []);
        let [finding] = found.about("certificate")[..] else { panic!("{found:#?}") };
        assert_eq!(finding.severity, Warning);
        assert!(
            finding.what.ends_with("ends in 1 days") || finding.what.ends_with("ends in 2 days"),
            "{finding:?}"
        );
        set(&key, 0o640);
        set(&password, 0o644);
        let found = examined(&words);
        assert_eq!(found.severities("TLS key"), [Note]);
        assert_eq!(found.severities("password file"), [Error]);
        fs::write(&key, "no key").expect("written");
        assert_eq!(examined(&words).severities("certificate"), [Error]);
        fs::remove_file(&password).expect("removed");
        assert_eq!(examined(&words).severities("password file"), [Error]);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn dates_of_a_certificate_are_compared_with_the_present() {
        let day = 86_400;
        let told = |now| {
            let mut found = Diagnosis::default();
            let validity = Validity { begins: 100 * day, ends: 200 * day };
            dates(Path::new("cert.pem"), validity, now, &mut found);
            found.severities("certificate")
        };
        assert_eq!(told(99 * day), [Error]);
        assert_eq!(told(150 * day), []);
        assert_eq!(told(180 * day), [Warning]);
        assert_eq!(told(201 * day), [Error]);
    }
}
