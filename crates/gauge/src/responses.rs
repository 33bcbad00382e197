//! Web's response times beside a growing load, drawn as P4 Figure 1 is, twice: the mean, which the paper shows, and
//! the 99th percentile. The axis of the times is logarithmic, since the arms lie orders of magnitude apart.

use std::fmt::Write as _;

use crate::chart::{COLOURS, escaped, grouped, ticks};

/// Response times in ms by the number of statements beside web.
pub type Points = Vec<(u32, f64)>;

/// The steps of an arm: statements beside web, and web's response time in ms.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Text of the legend.
    pub name: String,
    /// Mean response times.
    pub mean_ms: Points,
    /// 99th percentiles.
    pub p99_ms: Points,
}

const PANEL: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 400.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 330.0;
const HEIGHT: f64 = 400.0;
/// Labels that fit below a panel.
const LABELS_MAX: usize = 13;

/// The curves of all arms. An empty drawing has axes and nothing else.
pub fn svg(curves: &[Curve]) -> String {
    let height = HEIGHT + 20.0 * curves.len() as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        2.0 * PANEL
    );
    let all = || curves.iter().flat_map(|curve| curve.mean_ms.iter().chain(&curve.p99_ms));
    let mut steps: Vec<u32> = all().map(|point| point.0).collect();
    steps.sort_unstable();
    steps.dedup();
    let scale = Scale {
        low: all().map(|point| point.1).fold(f64::INFINITY, f64::min).clamp(1e-3, 1.0e3) / 1.3,
        high: all().map(|point| point.1).fold(1.0, f64::max) * 1.3,
        most: f64::from(steps.last().copied().unwrap_or(0).max(1)),
        steps,
    };
    scale.axes(&mut text, 0.0, "(a) mean");
    scale.axes(&mut text, PANEL, "(b) 99th percentile");
    for (at, curve) in curves.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        scale.line(&mut text, 0.0, colour, &curve.mean_ms);
        scale.line(&mut text, PANEL, colour, &curve.p99_ms);
    }
    for (at, curve) in curves.iter().enumerate() {
        let (y, colour) = (HEIGHT + 20.0 * at as f64, COLOURS[at % COLOURS.len()]);
        put(
            &mut text,
            format_args!(
                "<line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" \
                 stroke-width=\"2\"/><text x=\"{}\" y=\"{}\">{}</text>",
                LEFT + 30.0,
                LEFT + 38.0,
                y + 4.0,
                escaped(&curve.name)
            ),
        );
    }
    text.push_str("</svg>\n");
    text
}

/// Both axes: response times from `low` to `high`, and up to `most` statements beside web.
struct Scale {
    low: f64,
    high: f64,
    most: f64,
    /// Numbers of statements beside web that were measured, ascending.
    steps: Vec<u32>,
}

impl Scale {
    fn x(&self, beside: f64) -> f64 {
        LEFT + beside / self.most * (RIGHT - LEFT)
    }

    fn y(&self, ms: f64) -> f64 {
        let share = (ms.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        BOTTOM - share * (BOTTOM - TOP)
    }

    fn axes(&self, text: &mut String, left: f64, title: &str) {
        let middle = left + (LEFT + RIGHT) / 2.0;
        let high = (TOP + BOTTOM) / 2.0;
        put(
            text,
            format_args!(
                "<text x=\"{}\" y=\"28\" font-size=\"16\">{title}</text>\
                 <text x=\"{middle}\" y=\"370\" text-anchor=\"middle\">analytical statements and \
                 writers beside web</text>\
                 <text x=\"{x}\" y=\"{high}\" text-anchor=\"middle\" \
                 transform=\"rotate(-90 {x} {high})\">response time, ms</text>",
                left + LEFT,
                x = left + 18.0
            ),
        );
        for value in ticks(self.low, self.high) {
            let y = self.y(value);
            let label = if value < 1.0 { value.to_string() } else { grouped(value) };
            put(
                text,
                format_args!(
                    "<line x1=\"{}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                     <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                    left + LEFT,
                    left + RIGHT,
                    left + LEFT - 6.0,
                    y + 4.0
                ),
            );
        }
        let dense = self.steps.len().div_ceil(LABELS_MAX).max(1);
        for beside in self.steps.iter().step_by(dense) {
            put(
                text,
                format_args!(
                    "<text x=\"{:.1}\" y=\"350\" text-anchor=\"middle\">{beside}</text>",
                    left + self.x(f64::from(*beside))
                ),
            );
        }
    }

    fn line(&self, text: &mut String, left: f64, colour: &str, points: &[(u32, f64)]) {
        let mut path = String::new();
        for (beside, ms) in points {
            let (x, y) = (left + self.x(f64::from(*beside)), self.y(*ms));
            write!(path, "{x:.1},{y:.1} ").expect("strings take everything");
            let dot =
                format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
            put(text, dot);
        }
        put(
            text,
            format_args!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.trim_end()
            ),
        );
    }
}

fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(text, "{what}").expect("strings take everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_drawn_once_per_panel_and_higher_times_are_higher() {
        let curve = |name: &str, ms: f64| Curve {
            name: name.to_owned(),
            mean_ms: vec![(0, 8.0), (10, ms)],
            p99_ms: vec![(0, 9.0), (10, 2.0 * ms)],
        };
        let text = svg(&[curve("classes", 8.5), curve("a < b", 700.0)]);
        assert_eq!(text.matches("<circle").count(), 8);
        assert_eq!(text.matches("<polyline").count(), 4);
        assert_eq!(text.matches(">10</text>").count(), 4, "a time and a step in each panel");
        assert!(text.contains("a &lt; b") && text.contains(">classes<"));
        let scale = Scale { low: 1.0, high: 100.0, most: 10.0, steps: vec![0, 10] };
        assert_eq!((scale.y(1.0), scale.y(100.0)), (BOTTOM, TOP));
        assert_eq!(scale.y(10.0), (BOTTOM + TOP) / 2.0);
        assert_eq!(svg(&[]).matches("<circle").count(), 0);
    }
}
