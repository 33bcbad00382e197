//! A file to which arms are appended as they are measured, with the machine and the day.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde_json::json;

use crate::Arm;
use crate::Result;

/// A record that is being written.
pub struct Record(File);

impl Record {
    /// Opens a record and writes a description of the machine.
    pub fn open(path: &Path) -> Result<Self> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "{}", json!({ "machine": machine() }))?;
        Ok(Record(file))
    }

    /// Appends an arm.
    pub fn arm(&mut self, arm: &Arm) -> Result<()> {
        let line = serde_json::to_string(arm).expect("maps of text and numbers");
        Ok(writeln!(self.0, "{line}")?)
    }
}

/// Day, cores, processor and kernel in a line.
fn machine() -> String {
    let day = date(halcyon_base::clock::wall_us().div_euclid(86_400_000_000));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |line| line.trim_start_matches(['\t', ':', ' ']));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    format!("{day}, {cores} cores of {model}, Linux {}, Halcyon {version}", kernel.trim())
}

/// A day since 1970-01-01 as year, month and day (Hinnant's algorithm).
fn date(days: i64) -> String {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_778), "2026-11-21");
    }
}
