//! What a ramp comes to: slopes, levels against the idle machine, and whether the run shows anything.

use serde_json::json;

use super::{Ramp, Step, TARGET_OF_IDLE};
use crate::open_loop::{Outcome, Sent};
use crate::statistics::{mean, median, quantile, theil_sen};
use crate::workload::Options;
use crate::workload::classes::ClassArm;
use crate::{Arm, Reporter};

/// How many times the idle machine's mean the control arm's must come to, at the least.
const POWER: f64 = 5.0;
/// The length of a window in which the target is met or missed, s.
const WINDOW_S: f64 = 10.0;
/// Windows with fewer statements say nothing of a 99th percentile.
const WINDOW_STATEMENTS: usize = 20;

/// A figure of web's latencies in a step.
type Figure = fn(&[f64]) -> Option<f64>;

/// The two figures that are judged.
const FIGURES: [(&str, Figure); 2] = [("mean", mean), ("p99", |all| quantile(all, 0.99))];

/// Prints what each ramp comes to.
pub fn report(ramps: &[Ramp], options: &Options, reporter: &mut Reporter) {
    let void = !ramps.iter().any(|ramp| ramp.arm == ClassArm::Control.name() && has_power(ramp));
    let first = ramps.iter().find(|ramp| ramp.arm == ClassArm::Classes.name());
    for ramp in ramps {
        let mut arm = ramp.arm(options, json!({ "step": "all", "steps": options.steps }));
        summarize(ramp, &mut arm);
        if let Some(first) = first {
            beside(ramp, first, &mut arm);
        }
        arm.figure("void", void);
        if let Some(failure) = &ramp.failure {
            arm.check = failure.to_string();
        }
        reporter.arm(arm);
    }
}

/// Whether the load is enough to be felt where nobody protects web from it.
fn has_power(control: &Ramp) -> bool {
    let means: Vec<_> = control.steps.iter().filter_map(|step| mean(&step.web_ms)).collect();
    match (control.failure.as_ref(), means.as_slice()) {
        (None, [idle, .., last]) => last / idle >= POWER,
        _ => false,
    }
}

fn summarize(ramp: &Ramp, arm: &mut Arm) {
    let Some((idle, loaded)) = ramp.steps.split_first() else { return };
    arm.rounded("web_processor_ms", ramp.web_processor_ms);
    for (name, figure) in FIGURES {
        let Some(idle_ms) = figure(&idle.web_ms) else { continue };
        arm.rounded(&format!("web_{name}_idle_ms"), idle_ms);
        let of_idle = of_idle(loaded, figure, idle_ms);
        if let Some(level) = median(&of_idle) {
            arm.rounded(&format!("web_{name}_of_idle"), level);
            let worst = of_idle.iter().copied().fold(0.0, f64::max);
            arm.rounded(&format!("web_{name}_of_idle_worst"), worst);
        }
        let points: Vec<_> = (1..).map(f64::from).zip(of_idle).collect();
        if let Some(slope) = theil_sen(&points) {
            arm.rounded(&format!("web_{name}_slope_percent"), 100.0 * slope.median);
            arm.rounded(&format!("web_{name}_slope_low_percent"), 100.0 * slope.low);
            arm.rounded(&format!("web_{name}_slope_high_percent"), 100.0 * slope.high);
        }
    }
    if let Some(target_ms) = ramp.target_ms {
        arm.rounded("target_ms", target_ms);
    }
    if let Some(idle_ms) = quantile(&idle.web_ms, 0.99)
        && let Some(attained) = attained(&ramp.sent, TARGET_OF_IDLE * idle_ms)
    {
        arm.rounded("attained", attained);
    }
    let rejected = ramp.steps.iter().map(|step| step.rejected);
    arm.figure("web_rejected", rejected.sum::<usize>());
    let busy: Vec<_> = loaded.iter().map(|step| step.machine_busy).collect();
    arm.rounded("machine_busy", median(&busy).unwrap_or_default());
    let others = ramp.steps.iter().map(|step| step.others_busy).fold(0.0, f64::max);
    arm.rounded("others_busy_worst", others);
    if let (Some(last), None) = (loaded.last(), &ramp.failure) {
        background(ramp, last, arm);
    }
}

/// A figure of each step as a multiple of the idle machine's.
fn of_idle(loaded: &[Step], figure: Figure, idle_ms: f64) -> Vec<f64> {
    loaded.iter().filter_map(|step| Some(figure(&step.web_ms)? / idle_ms)).collect()
}

/// What web costs the others: their rates with web, before and after the step without, by those without.
fn background(ramp: &Ramp, last: &Step, arm: &mut Arm) {
    let share = |rate: fn(&Step) -> f64| {
        let with = (rate(last) + rate(&ramp.with_web)) / 2.0;
        with / rate(&ramp.without_web)
    };
    arm.rounded("background_per_s", last.background_per_s());
    arm.rounded("background_per_s_again", ramp.with_web.background_per_s());
    arm.rounded("background_per_s_without_web", ramp.without_web.background_per_s());
    arm.rounded("background_of_without_web", share(Step::background_per_s));
    let report: fn(&Step) -> f64 = |step| step.counts.reports as f64 / step.seconds;
    let etl: fn(&Step) -> f64 = |step| step.counts.etl as f64 / step.seconds;
    arm.rounded("report_of_without_web", share(report));
    arm.rounded("etl_of_without_web", share(etl));
}

/// The share of windows whose 99th percentile is within a target, ms; `None` without a window of enough
/// statements. A rejected statement misses every target.
fn attained(sent: &[Sent], target_ms: f64) -> Option<f64> {
    let window = |sent: &Sent| (sent.due.as_secs_f64() / WINDOW_S) as u64;
    let windows = sent.chunk_by(|one, next| window(one) == window(next));
    let met = windows.filter(|window| window.len() >= WINDOW_STATEMENTS).map(|window| {
        let latency = |sent: &Sent| match sent.outcome {
            Outcome::Rejected => f64::INFINITY,
            _ => sent.latency_ms(),
        };
        let all: Vec<_> = window.iter().map(latency).collect();
        f64::from(u8::from(quantile(&all, 0.99).is_some_and(|p99| p99 <= target_ms)))
    });
    mean(&met.collect::<Vec<_>>())
}

/// Latencies by those of the arm with classes, step by step: what differs when an arm runs once more is chance.
fn beside(ramp: &Ramp, first: &Ramp, arm: &mut Arm) {
    for (name, figure) in FIGURES {
        let both = ramp.steps.iter().zip(&first.steps).skip(1);
        let ratios: Vec<_> = both
            .filter_map(|(own, first)| Some(figure(&own.web_ms)? / figure(&first.web_ms)?))
            .collect();
        if let Some(ratio) = median(&ratios) {
            arm.rounded(&format!("web_{name}_of_classes"), ratio);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::workload::Engine;

    fn ramp(arm: ClassArm, means_ms: &[f64]) -> Ramp {
        let mut ramp = Ramp::new(Engine::Halcyon, Some(arm));
        let step =
            |mean_ms: &f64| Step { web_ms: vec![*mean_ms; 10], seconds: 1.0, ..Step::default() };
        ramp.steps = means_ms.iter().map(step).collect();
        ramp
    }

    #[test]
    fn a_run_without_a_control_that_suffers_is_void() {
        assert!(has_power(&ramp(ClassArm::Control, &[8.0, 20.0, 40.0])));
        assert!(!has_power(&ramp(ClassArm::Control, &[8.0, 90.0, 39.0])));
        assert!(!has_power(&ramp(ClassArm::Control, &[8.0])));
        let mut failed = ramp(ClassArm::Control, &[8.0, 20.0, 40.0]);
        failed.failure = Some(crate::Failure::Engine("gone".into()));
        assert!(!has_power(&failed));
    }

    #[test]
    fn slopes_are_in_percent_of_the_idle_machine() {
        let mut arm = Arm::new("workload", "halcyon", json!({}));
        summarize(&ramp(ClassArm::Classes, &[10.0, 11.0, 12.0, 13.0, 14.0]), &mut arm);
        assert_eq!(arm.figures["web_mean_slope_percent"], 10.0);
        assert_eq!(arm.figures["web_p99_of_idle"], 1.25);
        assert_eq!(arm.figures["web_p99_of_idle_worst"], 1.4);
    }

    #[test]
    fn windows_meet_their_target_or_miss_it() {
        let statement = |due_ms: u64, latency_ms: u64, outcome| {
            let at = Duration::from_millis;
            Sent { due: at(due_ms), sent: at(due_ms), ended: at(due_ms + latency_ms), outcome }
        };
        let mut sent: Vec<Sent> =
            (0..400).map(|number| statement(100 * number, 5, Outcome::Answered)).collect();
        assert_eq!(attained(&sent, 6.0), Some(1.0));
        sent[10] = statement(1_000, 50, Outcome::Answered);
        assert_eq!(attained(&sent, 6.0), Some(1.0), "one of a hundred may be late");
        sent[150] = statement(15_000, 1, Outcome::Rejected);
        sent[151] = statement(15_100, 50, Outcome::Answered);
        assert_eq!(attained(&sent, 6.0), Some(0.75));
        assert_eq!(attained(&sent[..5], 6.0), None);
    }
}
