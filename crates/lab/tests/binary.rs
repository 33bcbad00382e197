//! The binary `halcyon-lab` as scripts use it: JSON on stdout, a status, help by its usual name.

use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_halcyon-lab")).args(arguments).output().unwrap()
}

#[test]
fn an_experiment_prints_one_object_per_arm_and_succeeds() {
    let output = lab(&["point", "--rows", "1000", "--seconds", "0.05", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let arms: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!arms.is_empty());
    for arm in arms {
        assert_eq!((&arm["experiment"], &arm["check"]), (&"point".into(), &"ok".into()), "{arm}");
    }
}

#[test]
fn experiments_are_listed_and_a_wrong_one_is_refused() {
    let help = String::from_utf8(lab(&["--help"]).stdout).unwrap();
    assert!(help.contains("Usage: halcyon lab [OPTIONS] <COMMAND>"), "{help}");
    for name in ["point", "durability", "snapshot", "tasks", "tpcc", "tpch", "tree", "views"] {
        assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
    }
    assert_eq!(lab(&["nothing"]).status.code(), Some(2));
}
