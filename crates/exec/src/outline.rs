//! A physical plan as text, for EXPLAIN: each operator with the rows that it was estimated to give, and once it has
//! run with those that it gave; then the estimate that was furthest from the truth.

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use halcyon_scan::scan::ScanExec;

/// Rows below which an estimate is not called wrong.
const ROWS_FEW: f64 = 100.0;

/// The plan, an operator a line.
pub(crate) fn planned(plan: &dyn ExecutionPlan) -> String {
    let mut outline = Outline { text: String::new(), has_run: false, worst: None };
    outline.node(plan, 0);
    outline.text
}

/// The plan with what its operators have measured.
pub(crate) fn measured(plan: &dyn ExecutionPlan) -> String {
    let mut outline = Outline { text: String::new(), has_run: true, worst: None };
    outline.node(plan, 0);
    if let Some(worst) = outline.worst {
        let Worst { name, estimated, actual, .. } = worst;
        let line = format!("Worst estimate: {name}, {estimated} rows for {actual}\n");
        outline.text.push_str(&line);
    }
    outline.text
}

struct Outline {
    text: String,
    has_run: bool,
    worst: Option<Worst>,
}

struct Worst {
    name: String,
    estimated: usize,
    actual: usize,
    factor: f64,
}

impl Outline {
    fn node(&mut self, node: &dyn ExecutionPlan, depth: usize) {
        let shown = match self.has_run {
            true => DisplayableExecutionPlan::with_metrics(node),
            false => DisplayableExecutionPlan::new(node),
        };
        let line = shown.one_line().to_string();
        self.text.push_str(&"  ".repeat(depth));
        self.text.push_str(line.trim_end());
        let estimated = StatisticsContext::new().compute(node, &StatisticsArgs::new());
        let estimated = estimated.ok().and_then(|known| known.num_rows.get_value().copied());
        if let Some(estimated) = estimated {
            self.text.push_str(&format!(", estimated_rows={estimated}"));
        }
        self.text.push('\n');
        // What a scan leaves out since the execution found that nobody wants it was not to be estimated.
        let is_judged = !node.downcast_ref::<ScanExec>().is_some_and(ScanExec::has_found);
        let actual = node.metrics().filter(|_| self.has_run && is_judged);
        let actual = actual.and_then(|metrics| metrics.output_rows());
        if let (Some(estimated), Some(actual)) = (estimated, actual) {
            let ratio = (estimated as f64).max(ROWS_FEW) / (actual as f64).max(ROWS_FEW);
            let factor = ratio.max(1.0 / ratio);
            if factor > self.worst.as_ref().map_or(1.0, |worst| worst.factor) {
                let name = node.name().to_owned();
                self.worst = Some(Worst { name, estimated, actual, factor });
            }
        }
        for child in node.children() {
            self.node(child.as_ref(), depth + 1);
        }
    }
}
