//! Findings, and how they are shown: as text, as JSON, as an exit status.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

/// How much a finding matters, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The server will not start, loses data, or lets in who should not be.
    Error,
    /// The server works, and less safely or evenly than it could.
    Warning,
    /// Worth knowing; nothing is wrong.
    Note,
    /// What should have been looked at could not be.
    Unknown,
}

impl Severity {
    const ALL: [Severity; 4] =
        [Severity::Error, Severity::Warning, Severity::Note, Severity::Unknown];

    fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
            Severity::Unknown => "not known",
        }
    }
}

/// Something that is not as it should be, or could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The thing that was looked at, in the same words each time.
    pub about: &'static str,
    /// What was found.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// What to do: a command, where there is one.
    pub remedy: String,
}

/// All that was looked at.
#[derive(Debug, Default)]
pub struct Diagnosis {
    findings: Vec<Finding>,
    /// Things that are as they should be.
    fine: Vec<&'static str>,
}

impl Diagnosis {
    /// Something is as it should be.
    pub fn fine(&mut self, about: &'static str) {
        self.fine.push(about);
    }

    /// Something is not as it should be.
    pub fn find(
        &mut self,
        severity: Severity,
        about: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let (what, why, remedy) = (what.into(), why.into(), remedy.into());
        self.findings.push(Finding { severity, about, what, why, remedy });
    }

    /// Something could not be looked at, by this reason; `remedy`: how it can be.
    pub fn unknown(
        &mut self,
        about: &'static str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.find(Severity::Unknown, about, reason, "it was not looked at", remedy);
    }

    /// What was found about a thing.
    #[cfg(test)]
    pub fn about(&self, about: &str) -> Vec<&Finding> {
        self.findings.iter().filter(|finding| finding.about == about).collect()
    }

    /// The severities of what was found about a thing; `fine` is none.
    #[cfg(test)]
    pub fn severities(&self, about: &str) -> Vec<Severity> {
        let found: Vec<Severity> =
            self.about(about).iter().map(|finding| finding.severity).collect();
        assert!(
            !found.is_empty() || self.fine.contains(&about),
            "{about} was not looked at: {self:#?}"
        );
        found
    }

    /// 0 without errors and warnings, 1 with warnings, 2 with errors.
    pub fn status(&self) -> ExitCode {
        ExitCode::from(match self.findings.iter().map(|finding| finding.severity).min() {
            Some(Severity::Error) => 2,
            Some(Severity::Warning) => 1,
            Some(Severity::Note | Severity::Unknown) | None => 0,
        })
    }

    /// The findings, the worst first, in the order in which they were made.
    fn sorted(&self) -> Vec<&Finding> {
        let mut sorted: Vec<&Finding> = self.findings.iter().collect();
        sorted.sort_by_key(|finding| finding.severity);
        sorted
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Lines for a terminal.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for Finding { severity, about, what, why, remedy } in self.sorted() {
            let _ = writeln!(text, "{:<9}  {about}: {what}", severity.name());
            let _ = writeln!(text, "           why  {why}\n           do   {remedy}");
        }
        let counts = Severity::ALL.map(|severity| {
            let count = self.count(severity);
            let plural = if count == 1 || severity == Severity::Unknown { "" } else { "s" };
            format!("{count} {}{plural}", severity.name())
        });
        let _ = writeln!(text, "{}; {} as they should be", counts.join(", "), self.fine.len());
        text
    }

    /// One object: `findings` as they are shown, `fine` the names of what is as it should be.
    pub fn json(&self) -> Value {
        let finding = |finding: &Finding| {
            json!({
                "severity": finding.severity.name(),
                "about": finding.about,
                "what": finding.what,
                "why": finding.why,
                "do": finding.remedy,
            })
        };
        let findings: Vec<Value> = self.sorted().into_iter().map(finding).collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "notes": self.count(Severity::Note),
            "not_known": self.count(Severity::Unknown),
            "findings": findings,
            "fine": self.fine,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_decides_the_status() {
        let mut diagnosis = Diagnosis::default();
        diagnosis.fine("clock source");
        diagnosis.unknown("swap", "it cannot be read", "read it");
        diagnosis.find(Severity::Note, "governor", "a", "b", "c");
        assert_eq!(diagnosis.status(), ExitCode::from(0));
        diagnosis.find(Severity::Warning, "swap", "a", "b", "c");
        assert_eq!(diagnosis.status(), ExitCode::from(1));
        diagnosis.find(Severity::Error, "data folder", "gone", "all is lost", "look for it");
        assert_eq!(diagnosis.status(), ExitCode::from(2));
        let text = diagnosis.render();
        let error = "error      data folder: gone\n           why  all is lost\n           do   look for it\n";
        assert!(text.starts_with(error), "{text}");
        let end = "\n1 error, 1 warning, 1 note, 1 not known; 1 as they should be\n";
        assert!(text.ends_with(end), "{text}");
        let json = diagnosis.json();
        assert_eq!((&json["errors"], &json["not_known"]), (&json!(1), &json!(1)));
        assert_eq!(json["findings"][0]["do"], json!("look for it"));
        assert_eq!(json["fine"], json!(["clock source"]));
    }
}
