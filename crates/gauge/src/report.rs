//! The output of experiments: one JSON object per arm, or a table for people.

use serde::Serialize;
use serde_json::{Map, Value};

/// One measured arm, in the shape that scripts depend on (DESIGN §11).
#[derive(Debug, Clone, Serialize)]
pub struct Arm {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// The engine that did the work.
    pub engine: String,
    /// The parameters of the arm.
    pub params: Map<String, Value>,
    /// The figures measured; their names have the units.
    pub figures: Map<String, Value>,
    /// `ok`, or a description of the error.
    pub check: String,
}

impl Arm {
    /// An arm with these parameters, without figures yet.
    pub fn new(experiment: &'static str, engine: &str, params: Value) -> Self {
        let params = match params {
            Value::Object(params) => params,
            other => panic!("params are an object, not {other}"),
        };
        Arm {
            experiment,
            engine: engine.to_owned(),
            params,
            figures: Map::new(),
            check: "ok".into(),
        }
    }

    /// Adds a figure.
    pub fn figure(&mut self, name: &str, value: impl Into<Value>) {
        self.figures.insert(name.to_owned(), value.into());
    }

    /// Adds a figure with three digits behind the point.
    pub fn rounded(&mut self, name: &str, value: f64) {
        self.figure(name, (value * 1000.0).round() / 1000.0);
    }
}

/// A reporter: prints arms as they end, and remembers whether all were right.
pub struct Reporter {
    json: bool,
    arms: Vec<Arm>,
}

impl Reporter {
    /// A reporter for scripts (`json`) or for people.
    pub fn new(json: bool) -> Self {
        Reporter { json, arms: Vec::new() }
    }

    /// Prints an arm on stdout.
    pub fn arm(&mut self, arm: Arm) {
        if self.json {
            println!("{}", serde_json::to_string(&arm).expect("maps of text and numbers"));
        } else {
            println!("{}", table(&arm));
        }
        self.arms.push(arm);
    }

    /// Prints on stderr what is being done.
    pub fn progress(&self, what: impl std::fmt::Display) {
        eprintln!("{what}");
    }

    /// Whether no arm's answer was wrong.
    pub fn all_ok(&self) -> bool {
        self.arms.iter().all(|arm| arm.check == "ok")
    }

    /// The arms printed so far.
    pub fn arms(&self) -> &[Arm] {
        &self.arms
    }
}

fn table(arm: &Arm) -> String {
    let mut text = format!("{} · {}", arm.experiment, arm.engine);
    for (name, value) in &arm.params {
        text.push_str(&format!(" · {name}={value}"));
    }
    let width = arm.figures.keys().map(String::len).max().unwrap_or(0);
    for (name, value) in &arm.figures {
        text.push_str(&format!("\n  {name:<width$}  {value}"));
    }
    text.push_str(&format!("\n  check: {}", arm.check));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_arm_has_the_shape_that_scripts_depend_on() {
        let mut arm = Arm::new("point", "bare", json!({"rows": 10}));
        arm.figure("select_per_s", 5);
        assert_eq!(
            serde_json::to_string(&arm).unwrap(),
            r#"{"experiment":"point","engine":"bare","params":{"rows":10},"figures":{"select_per_s":5},"check":"ok"}"#
        );
    }

    #[test]
    fn one_wrong_arm_fails_the_run() {
        let mut reporter = Reporter::new(true);
        reporter.arm(Arm::new("point", "bare", json!({})));
        assert!(reporter.all_ok());
        let mut wrong = Arm::new("point", "bare", json!({}));
        wrong.check = "sum is 4, not 5".into();
        reporter.arm(wrong);
        assert!(!reporter.all_ok());
    }
}
