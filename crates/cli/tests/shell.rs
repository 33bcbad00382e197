//! The shell as a user meets it: `-c` and `-f` in every format, exit statuses, and a terminal.
//!
//! Terminal tests run the binary under `script`, which gives it a pseudo-terminal.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const HALCYON: &str = env!("CARGO_BIN_EXE_halcyon");

fn shell(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(HALCYON)
        .arg("shell")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A shell that does not read its input may have ended before all of it is written.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const TABLE: &str = "CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, NULL);";

#[test]
fn every_format_prints_the_same_rows() {
    let cases = [
        ("table", " a |  b   \n---+------\n 1 | x\n 2 | NULL\n(2 rows)\n\n"),
        ("csv", "a,b\n1,x\n2,\n"),
        ("json", "[{\"a\": 1, \"b\": \"x\"},\n {\"a\": 2, \"b\": null}]\n"),
    ];
    for (format, expected) in cases {
        let output =
            shell(&["-c", TABLE, "-c", "SELECT * FROM t ORDER BY a", "--format", format], "");
        assert!(output.status.success(), "{output:?}");
        let printed = text(&output.stdout);
        let expected = match format {
            "table" => format!("CREATE TABLE\nINSERT 0 2\n{expected}"),
            _ => expected.to_owned(),
        };
        assert_eq!(printed, expected, "{format}");
    }
}

#[test]
fn a_file_runs_until_its_first_error() {
    let file = std::env::temp_dir().join(format!("halcyon-shell-{}.sql", std::process::id()));
    std::fs::write(&file, "SELECT 1 AS one;\nSELECT nothing;\nSELECT 2 AS two;\n").unwrap();
    let path = file.to_str().unwrap();
    let output = shell(&["-f", path, "--format", "csv"], "");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "one\n1\n");
    assert!(text(&output.stderr).contains("\"nothing\" does not exist"), "{output:?}");
    let output = shell(&["-f", path, "--format", "csv", "--keep-going"], "");
    assert_eq!(text(&output.stdout), "one\n1\ntwo\n2\n");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn errors_point_at_their_place() {
    let output = shell(&["-c", "SELECT 1,\n  nothing FROM pg_class"], "");
    let shown = text(&output.stderr);
    assert!(shown.starts_with("ERROR:  column \"nothing\" does not exist\n"), "{shown}");
    assert!(shown.contains("LINE 2:   nothing FROM pg_class\n          ^\n"), "{shown}");
}

#[test]
fn standard_input_is_a_script_and_copy_data_stand_in_it() {
    let script = "CREATE TABLE t (a INTEGER, b TEXT);\nCOPY t FROM STDIN WITH (FORMAT csv);\n\
                  1,one\n2,\"two, three\"\n\\.\nSELECT b FROM t ORDER BY a;\n";
    let output = shell(&["--format", "csv"], script);
    assert_eq!(text(&output.stdout), "b\none\n\"two, three\"\n", "{output:?}");
}

#[test]
fn a_table_travels_through_a_file() {
    let file = std::env::temp_dir().join(format!("halcyon-copy-{}.csv", std::process::id()));
    let path = file.display();
    let script = format!(
        "{TABLE}\n\\copy t TO '{path}' WITH (FORMAT csv, HEADER)\n\
         CREATE TABLE u (a INTEGER, b TEXT);\nCOPY u FROM '{path}' WITH (FORMAT csv, HEADER);\n\
         SELECT count(*) AS n, count(b) AS named FROM u;\n"
    );
    let output = shell(&["--format", "csv"], &script);
    assert_eq!(text(&output.stdout), "n,named\n2,1\n", "{output:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a,b\n1,x\n2,\n");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn data_of_a_copy_stand_between_results() {
    let script = "CREATE TABLE t (a INTEGER, b TEXT);\nINSERT INTO t VALUES (1, 'x'), (2, NULL);\n\
                  SELECT 1 AS before;\nCOPY (SELECT a, b FROM t ORDER BY a) TO STDOUT;\n\
                  SELECT 2 AS behind;\n";
    let output = shell(&["--format", "csv"], script);
    assert_eq!(text(&output.stdout), "before\n1\n1\tx\n2\t\\N\nbehind\n2\n", "{output:?}");
}

/// The same over a connection, where the data come as messages of their own.
#[test]
fn data_of_a_copy_come_over_a_connection() {
    let mut server = Command::new(HALCYON)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap();
    let url = format!("postgres://halcyon@{address}/halcyon");
    let at = ["--connect", &url, "--format", "csv"];
    let loaded = shell(
        &[&at[..], &["-c", "CREATE TABLE t (a INTEGER, b TEXT)", "-c", "COPY t FROM STDIN"]]
            .concat(),
        "1\tx\n2\t\\N\n",
    );
    let script = "SELECT 1 AS before;\nCOPY (SELECT a, b FROM t ORDER BY a) TO STDOUT;\n\
                  SELECT 2 AS behind;\n";
    let told = shell(&at, script);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(loaded.status.success(), "{loaded:?}");
    assert_eq!(text(&told.stdout), "before\n1\n1\tx\n2\t\\N\nbehind\n2\n", "{told:?}");
}

#[test]
fn a_table_is_described() {
    let script = "CREATE TABLE parent (id INTEGER PRIMARY KEY);\n\
                  CREATE TABLE child (id INTEGER PRIMARY KEY, p INTEGER REFERENCES parent (id), \
                  n TEXT NOT NULL DEFAULT 'x' CHECK (n <> ''));\n\\d child\n\\dt\n\\d nothing\n";
    let output = shell(&["--keep-going"], script);
    let shown = text(&output.stdout);
    for expected in [
        "Table \"public.child\"",
        "not null",
        "PRIMARY KEY",
        "Check constraints:",
        "Foreign-key constraints:",
        "| parent",
    ] {
        assert!(shown.contains(expected), "{expected:?} is missing in\n{shown}");
    }
    assert!(text(&output.stderr).contains("no relation named \"nothing\""), "{output:?}");
}

#[test]
fn a_console_for_other_machines_needs_tls_like_the_wire() {
    let output = Command::new(HALCYON).args(["serve", "--http", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = text(&output.stderr);
    assert!(told.starts_with("error: console: refusing to listen at 0.0.0.0:0"), "{told}");
    assert!(told.contains("without TLS"), "{told}");
}

#[test]
fn a_database_in_a_folder_is_there_for_the_next_shell() {
    let name = format!("halcyon-shell-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let path = folder.to_str().unwrap();
    let run = |arguments: &[&str]| Command::new(HALCYON).args(arguments).output().unwrap();
    let missing = run(&["check", "--data", path]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(text(&missing.stderr).contains("holds no database"), "{missing:?}");
    let made = run(&["shell", "--data", path, "-c", "CREATE TABLE t (id INT)"]);
    assert!(made.status.success(), "{made:?}");
    let filled = run(&["shell", "--data", path, "-c", "INSERT INTO t VALUES (7)"]);
    assert!(filled.status.success(), "{filled:?}");
    let read = run(&["shell", "--data", path, "--format", "csv", "-c", "SELECT id FROM t"]);
    assert_eq!(text(&read.stdout), "id\n7\n", "{read:?}");
    let checked = run(&["check", "--data", path]);
    assert!(text(&checked.stdout).starts_with("ok: "), "{checked:?}");
    let within = run(&["backup", folder.join("copy").to_str().unwrap(), "--data", path]);
    assert!(text(&within.stderr).contains("lies in the folder of the database"), "{within:?}");
    let copy = folder.with_extension("copy");
    let backed = run(&["backup", copy.to_str().unwrap(), "--data", path]);
    assert!(backed.status.success(), "{backed:?}");
    let copied = ["shell", "--data", copy.to_str().unwrap(), "--format", "csv"];
    let read = run(&[&copied[..], &["-c", "SELECT id FROM t"]].concat());
    assert_eq!(text(&read.stdout), "id\n7\n", "{read:?}");
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::remove_dir_all(copy).unwrap();
}

/// A shell at a pseudo-terminal.
struct Terminal {
    child: Child,
    printed: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn open() -> Self {
        let mut terminal = Terminal::running("");
        terminal.wait_for("=> ");
        terminal
    }

    /// The program with arguments, as a shell's words.
    fn running(arguments: &str) -> Self {
        let mut child = Command::new("script")
            // `exec`, because a shell that waits for Halcyon would get Ctrl-C as well and report it
            // as its own end.
            .args(["-q", "-e", "-c", &format!("exec {HALCYON} {arguments}"), "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("HALCYON_HISTORY", "")
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let (sender, printed) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = out.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { child, printed, seen: String::new() }
    }

    fn type_keys(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until `wanted` has been printed, and drops the output before it.
    fn wait_for(&mut self, wanted: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.seen.contains(wanted) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.printed.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{wanted:?} was not printed; instead: {:?}", self.seen),
            }
        }
        let end = self.seen.find(wanted).unwrap() + wanted.len();
        self.seen.drain(..end);
    }

    fn status(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The process has ended already if the test went well.
        let _ = self.child.kill();
    }
}

#[test]
fn a_statement_may_span_lines_and_ctrl_d_leaves() {
    let mut terminal = Terminal::open();
    terminal.type_keys("SELECT 41 +\r");
    terminal.type_keys("1 AS answer;\r");
    terminal.wait_for("answer");
    terminal.wait_for("42");
    terminal.wait_for("(1 row)");
    terminal.wait_for("=> ");
    terminal.type_keys("\x04");
    assert_eq!(terminal.status(), Some(0));
}

#[test]
fn ctrl_c_cancels_the_statement_and_not_the_shell() {
    let mut terminal = Terminal::open();
    let endless =
        "SELECT count(*) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b;\r";
    terminal.type_keys(endless);
    std::thread::sleep(Duration::from_millis(1500));
    terminal.type_keys("\x03");
    terminal.wait_for("canceling statement");
    terminal.wait_for("=> ");
    terminal.type_keys("SELECT 7 * 6 AS after;\r");
    terminal.wait_for("42");
    terminal.type_keys("\\q\r");
    assert_eq!(terminal.status(), Some(0));
}

#[test]
fn tab_completes_a_name_from_the_catalog() {
    let mut terminal = Terminal::open();
    terminal.type_keys("CREATE TABLE extraordinary (a INTEGER);\r");
    terminal.wait_for("CREATE TABLE\r\n");
    terminal.wait_for("=> ");
    terminal.type_keys("SELECT count(*) FROM extrao\t;\r");
    terminal.wait_for("(1 row)");
    terminal.wait_for("=> ");
    terminal.type_keys("\x03");
    terminal.wait_for("leaves");
    terminal.type_keys("\x03");
    assert_eq!(terminal.status(), Some(0));
}

/// A statement reads a pipe that stays open, so that it stands at a row of the test's choice.
#[test]
fn a_terminal_sees_how_far_a_statement_of_a_server_is_and_a_pipe_does_not() {
    let pipe = std::env::temp_dir().join(format!("halcyon-shell-pipe-{}", std::process::id()));
    let path = pipe.to_str().unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let mut server = Command::new(HALCYON)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let url = format!("postgres://halcyon@{}/halcyon", line.trim().rsplit(' ').next().unwrap());
    let made = shell(&["--connect", &url, "-c", "CREATE TABLE t (a INTEGER)"], "");
    assert!(made.status.success(), "{made:?}");

    let copy = format!("COPY t FROM '{path}'");
    let mut terminal = Terminal::running(&format!("shell --connect {url} -c \"{copy}\""));
    let mut rows = std::fs::File::options().write(true).open(path).unwrap();
    rows.write_all(b"1\n2\n3\n").unwrap();
    terminal.wait_for("COPY FROM t: copying, 6 B");
    drop(rows);
    terminal.wait_for("COPY 3");
    assert_eq!(terminal.status(), Some(0));

    let running = std::thread::spawn({
        let (url, copy) = (url.clone(), copy.clone());
        move || shell(&["--connect", &url, "-c", &copy], "")
    });
    let mut rows = std::fs::File::options().write(true).open(path).unwrap();
    rows.write_all(b"4\n").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    drop(rows);
    let told = running.join().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    std::fs::remove_file(pipe).unwrap();
    assert_eq!((text(&told.stdout), text(&told.stderr)), ("COPY 1\n", ""), "{told:?}");
}

/// A program that starts a server may read no further than the address, or not at all.
#[test]
fn a_server_outlives_the_readers_of_its_output() {
    let mut server = Command::new(HALCYON)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(server.stderr.take());
    let mut output = server.stdout.take().unwrap();
    // The first line byte by byte, so that the pipe closes with the second one unread.
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        line.extend(byte);
    }
    drop(output);
    let line = String::from_utf8(line).unwrap();
    let url = format!("postgres://halcyon@{}/halcyon", line.trim().rsplit(' ').next().unwrap());
    let told = shell(&["--connect", &url, "--format", "csv", "-c", "SELECT 1 AS one"], "");
    let ended = server.try_wait().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(ended.is_none(), "{ended:?}");
    assert_eq!(text(&told.stdout), "one\n1\n", "{told:?}");
}
