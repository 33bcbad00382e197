//! Command lines in documents name subcommands and options that `--help` lists, and the pages about
//! `serve` and `shell` list all of theirs.

use crate::files::{read, relative_paths};
use crate::manual::{Manual, options, subcommands};
use crate::server::HALCYON;

fn manual() -> Manual {
    Manual::new(HALCYON, &["halcyon", "cargo run --release --"])
}

#[test]
fn command_lines_name_what_help_lists() {
    let mut manual = manual();
    let (mut checked, mut offences) = (0, Vec::new());
    for path in relative_paths() {
        let (count, found) = manual.check(&path, &read(&path));
        checked += count;
        offences.extend(found);
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
    assert!(checked >= 20, "only {checked} command lines were found");
}

#[test]
fn pages_list_every_option_and_subcommand() {
    let mut manual = manual();
    let paths = relative_paths();
    let guide = paths.iter().filter(|path| path.contains("guide/")).map(|path| read(path));
    let guide: String = guide.collect();
    let mut missing = Vec::new();
    for (command, page) in [("serve", "server"), ("shell", "shell")] {
        let page = read(&format!("docs/guide/{page}.md"));
        let help = manual.help(&[command.to_owned()]).expect("a subcommand");
        for option in options(help).iter().filter(|option| option.starts_with("--")) {
            if option != "--help" && !page.contains(option.as_str()) {
                missing.push(format!("{option} of halcyon {command}"));
            }
        }
    }
    for command in subcommands(manual.help(&[]).expect("help")) {
        if command != "help" && !guide.contains(&format!("halcyon {command}")) {
            missing.push(format!("halcyon {command}"));
        }
    }
    assert!(missing.is_empty(), "docs/guide does not tell of {missing:?}");
}

#[test]
fn a_wrong_command_line_is_found() {
    let mut manual = manual();
    let page = "```sh\nhalcyon shell --data shop\ngenerate | halcyon shell --format csv  # --nothing\n\
                halcyon shell --dat shop\n```\nWrite `halcyon shel`, `halcyon-lab x`, `halcyon sync`.\n";
    let (checked, offences) = manual.check("a.md", page);
    let expected =
        ["a.md:1: `halcyon shell` has no option --dat", "a.md:6: there is no `halcyon shel`"];
    assert_eq!((checked, offences), (4, expected.map(str::to_owned).into()));
}
