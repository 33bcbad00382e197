//! Completions and manual pages have all that the command line has.

use std::process::Command;

use crate::{Folder, HALCYON, halcyon, has, printed};

/// Subcommands that `halcyon --help` lists, but for `help`.
fn subcommands() -> Vec<String> {
    let help = printed(&["--help"]);
    let (_, list) = help.split_once("Commands:\n").expect("a list");
    let list = list.split("\n\n").next().expect("a list").lines();
    let names = list.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn completions_name_every_subcommand_and_shells_take_them() {
    let folder = Folder::new("completions");
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = printed(&["completions", shell]);
        for name in subcommands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        assert!(script.contains("log-format"), "{shell}");
        let file = folder.path(shell);
        std::fs::write(&file, script).expect("written");
        if has(shell) {
            let output = Command::new(shell).args([check, &file]).output().expect("it runs");
            assert!(output.status.success(), "{shell}: {output:?}");
        }
    }
    assert_eq!(halcyon(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn bash_completes_options_and_their_values() {
    let folder = Folder::new("bash");
    std::fs::write(folder.path("halcyon"), printed(&["completions", "bash"])).expect("written");
    let completed = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let script = format!(
            "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; _halcyon halcyon '{}' '{}'; echo \"${{COMPREPLY[@]}}\"",
            folder.path("halcyon"),
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    assert_eq!(completed("halcyon do"), "doctor");
    assert_eq!(completed("halcyon serve --log-f"), "--log-format");
    assert_eq!(completed("halcyon serve --log-format "), "text json");
}

#[test]
fn there_is_a_page_for_each_subcommand_with_its_options() {
    let folder = Folder::new("man");
    let pages = folder.path("man1");
    printed(&["man", &pages]);
    for name in subcommands() {
        let text = std::fs::read_to_string(format!("{pages}/halcyon-{name}.1")).expect(&name);
        assert!(text.contains(".TH"), "{name}");
    }
    let serve = std::fs::read_to_string(format!("{pages}/halcyon-serve.1")).expect("a page");
    assert!(serve.contains("\\-\\-unix\\-socket\\-mode"), "{serve}");
    if has("man") {
        for entry in std::fs::read_dir(&pages).expect("a folder") {
            let path = entry.expect("an entry").path();
            let man = Command::new("man")
                .args(["--warnings", "--local-file"])
                .arg(&path)
                .env("MANROFFSEQ", "")
                .env("MANWIDTH", "80")
                .output()
                .expect("man runs");
            assert!(man.status.success() && man.stderr.is_empty(), "{}: {man:?}", path.display());
        }
    }
    // Printed, the pages are the same ones.
    let all = printed(&["man"]);
    assert!(all.contains(&serve), "the page of serve");
    // A reader that has seen enough is no failure.
    let first = Command::new("sh")
        .args(["-c", "\"$0\" man | head -n 1; exit ${PIPESTATUS:-0}", HALCYON])
        .output()
        .expect("sh runs");
    assert!(first.stderr.is_empty(), "{first:?}");
    assert_eq!(halcyon(&["man", "/dev/null/man"]).status.code(), Some(1));
}
