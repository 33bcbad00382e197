//! The Debian package of this build: what it has, and that it installs, goes and leaves the data. And the unit, the
//! container file: their command lines are right.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::{Folder, HALCYON, halcyon, has, repository};

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).stdin(Stdio::null()).output().expect("the program runs")
}

/// Output of a program that ends well.
fn text(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Builds the package in a folder, and returns its path.
fn build(folder: &Folder) -> String {
    let output = Command::new(repository("packaging/deb/build"))
        .args([HALCYON, &folder.path("")])
        .env("HALCYON_DEB_COMPRESSION", "none")
        .output()
        .expect("bash is there");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

/// Words of a command line behind `halcyon serve` with which a server would start, as the doctor sees it.
fn assert_options_of_serve(words: &[&str]) {
    let output = halcyon(&[&["doctor", "--json", "--"], words].concat());
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = answer["findings"].as_array().expect("a list");
    let wrong = findings.iter().find(|finding| finding["about"] == "options of the server");
    assert!(wrong.is_none(), "{words:?}: {wrong:?}");
}

#[test]
fn the_package_has_all_of_it_and_installs_and_goes() {
    if !has("dpkg-deb") {
        return;
    }
    let folder = Folder::new("package");
    let package = build(&folder);
    let info = text("dpkg-deb", &["--info", &package]);
    let version = env!("CARGO_PKG_VERSION");
    for line in ["Package: halcyon\n", &format!("Version: {version}-1\n"), "libc6 (>= 2."] {
        assert!(info.contains(line), "{line:?}: {info}");
    }
    let contents = text("dpkg-deb", &["--contents", &package]);
    for (mode, file) in [
        ("-rwxr-xr-x root/root", "/usr/bin/halcyon"),
        ("-rw-r--r-- root/root", "/usr/lib/systemd/system/halcyon.service"),
        ("-rw-r--r-- root/root", "/usr/share/doc/halcyon/halcyon-shield.conf"),
        ("-rw-r--r-- root/root", "/usr/lib/sysusers.d/halcyon.conf"),
        ("-rw-r--r-- root/root", "/usr/lib/tmpfiles.d/halcyon.conf"),
        ("-rw-r--r-- root/root", "/etc/default/halcyon"),
        ("-rw-r--r-- root/root", "/usr/share/bash-completion/completions/halcyon"),
        ("-rw-r--r-- root/root", "/usr/share/zsh/vendor-completions/_halcyon"),
        ("-rw-r--r-- root/root", "/usr/share/fish/vendor_completions.d/halcyon.fish"),
        ("-rw-r--r-- root/root", "/usr/share/man/man1/halcyon-serve.1.gz"),
        ("-rw-r--r-- root/root", "/usr/share/doc/halcyon/copyright"),
        ("-rw-r--r-- root/root", "/usr/share/doc/halcyon/changelog.Debian.gz"),
    ] {
        let found = contents.lines().find(|line| line.ends_with(&format!(" .{file}")));
        assert!(found.is_some_and(|line| line.starts_with(mode)), "{file}: {found:?}");
    }
    // The scripts of the package make users, which only root can.
    if text("id", &["-u"]).trim() == "0" && has("systemd-sysusers") && has("deb-systemd-helper") {
        installs_and_goes(&folder, &package);
    }
}

/// Installs the package below a folder as if that were a machine, removes it and purges it.
fn installs_and_goes(folder: &Folder, package: &str) {
    let root = folder.path("root");
    for path in ["var/lib/dpkg/updates", "var/lib/dpkg/info", "etc"] {
        std::fs::create_dir_all(format!("{root}/{path}")).expect("a folder");
    }
    for path in ["status", "available"] {
        std::fs::write(format!("{root}/var/lib/dpkg/{path}"), "").expect("written");
    }
    // As on every Debian since 12.
    std::fs::create_dir_all(format!("{root}/usr/lib")).expect("a folder");
    std::os::unix::fs::symlink("usr/lib", format!("{root}/lib")).expect("a link");
    let root_flag = format!("--root={root}");
    let dpkg = |arguments: &[&str]| {
        let flags = [root_flag.as_str(), "--force-script-chrootless", "--force-depends"];
        let output = run("dpkg", &[&flags, arguments].concat());
        assert!(output.status.success(), "dpkg {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let there = |path: &str| Path::new(&root).join(path).exists();
    let read = |path: &str| std::fs::read_to_string(Path::new(&root).join(path)).expect("a text");
    dpkg(&["--install", package]);
    assert!(read("etc/passwd").contains("halcyon:"), "the user is made");
    let password = read("etc/halcyon/superuser-password");
    assert_eq!((password.trim().len(), password.lines().count()), (32, 1), "{password:?}");
    let modes = ["var/lib/halcyon", "etc/halcyon/superuser-password"]
        .map(|path| text("stat", &["--format=%a", &format!("{root}/{path}")]).trim().to_owned());
    assert_eq!(modes, ["700", "600"]);
    let wanted = "etc/systemd/system/multi-user.target.wants/halcyon.service";
    let wanted = std::fs::symlink_metadata(Path::new(&root).join(wanted));
    assert!(wanted.is_ok(), "the service starts with the machine");
    if has("systemd-analyze") {
        let unit = "usr/lib/systemd/system/halcyon.service";
        let verified = run(
            "systemd-analyze",
            &["verify", "--man=no", "--recursive-errors=no", &format!("{root}/{unit}")],
        );
        let told = String::from_utf8(verified.stderr).expect("UTF-8");
        // The binary is not where the unit will find it.
        let told: Vec<&str> = told
            .lines()
            .filter(|line| !line.contains("/usr/bin/halcyon is not executable"))
            .collect();
        assert!(told.iter().all(|line| !line.contains("halcyon")), "{told:?}");
    }
    std::fs::write(format!("{root}/var/lib/halcyon/data"), "rows").expect("written");
    // Installing it again changes neither password nor data.
    dpkg(&["--install", package]);
    assert_eq!(read("etc/halcyon/superuser-password"), password);
    dpkg(&["--remove", "halcyon"]);
    assert!(!there("usr/bin/halcyon") && there("etc/default/halcyon"));
    let told = dpkg(&["--purge", "halcyon"]);
    assert!(told.contains("the database is left in /var/lib/halcyon"), "{told}");
    assert!(!there("etc/default/halcyon") && !there("etc/halcyon"), "the configuration goes");
    assert_eq!(read("var/lib/halcyon/data"), "rows");
}

#[test]
fn units_and_containers_start_the_server_by_options_that_it_has() {
    let read = |path: &str| std::fs::read_to_string(repository(path)).expect("a text");
    let unit = read("packaging/halcyon.service");
    let start =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/halcyon serve "));
    let defaults = read("packaging/halcyon.default");
    let defaults = defaults.lines().find_map(|line| line.strip_prefix("HALCYON_OPTIONS="));
    let start = start
        .expect("a start")
        .replace("$HALCYON_OPTIONS", defaults.expect("options").trim_matches('"'));
    assert_options_of_serve(&start.split_whitespace().collect::<Vec<_>>());
    let shielded = read("packaging/halcyon-shield.conf");
    let shielded = shielded.lines().find_map(|line| line.strip_prefix("#   HALCYON_OPTIONS="));
    let shielded = shielded.expect("options").trim_matches('"').to_owned();
    assert!(shielded.contains("--shield "), "{shielded}");
    // A machine with fewer processors refuses those of the example.
    let shielded = shielded.replace("--shield 2-3", "--shield 0");
    assert_options_of_serve(&shielded.split_whitespace().collect::<Vec<_>>());
    let container = read("packaging/Containerfile");
    let words = container.lines().find_map(|line| line.strip_prefix("CMD ")).expect("a start");
    let words: Vec<String> = serde_json::from_str(words).expect("a list");
    assert_eq!(words[0], "serve");
    assert_options_of_serve(&words[1..].iter().map(String::as_str).collect::<Vec<_>>());
}
