//! The percentiles of each series, a line for each: a box from the 0.05th percentile to the 99.95th, the bounds beyond which
//! the paper calls a tuple extreme (P2, §2.2), the median and the 99th percentile as strokes in it, and a whisker from the
//! shortest tuple to the longest.

use std::fmt::Write as _;

use super::{Axis, escaped, three_digits};

const LEFT: f64 = 200.0;
const WIDTH: f64 = 460.0;
const TOP: f64 = 56.0;
const LINE: f64 = 13.0;
const GAP: f64 = 10.0;
/// Colours of boxes: without load, and with load.
const COLOURS: [&str; 2] = ["#56B4E9", "#E69F00"];

/// One series.
#[derive(Clone, Debug)]
pub struct Quantiles {
    /// What is measured: series of one group stand together.
    pub group: String,
    /// The scenario.
    pub name: String,
    /// Whether tenants worked beside the series.
    pub load: bool,
    /// Shortest tuple, 0.05th percentile, median, 99th and 99.95th percentile, longest tuple; µs.
    pub us: [f64; 6],
    /// A remark behind the line.
    pub note: Option<String>,
}

/// A figure of series.
#[derive(Clone, Debug)]
pub struct Boxes {
    /// Title above the figure.
    pub title: String,
    /// The series; those of a group in one run.
    pub series: Vec<Quantiles>,
}

impl Boxes {
    /// The figure as a file's text. `None` without series.
    pub fn svg(&self) -> Option<String> {
        let all = || self.series.iter().flat_map(|series| series.us);
        let low =
            all().fold(None, |least: Option<f64>, us| Some(least.map_or(us, |l| l.min(us))))?;
        let high = all().fold(low, f64::max);
        let low = low.max(1e-3);
        let x = Axis { low: low / 1.5, high: high.max(low) * 1.5, from: LEFT, to: LEFT + WIDTH };
        let (mut lines, mut top, mut group) = (String::new(), TOP, "");
        for series in &self.series {
            if series.group != group {
                top += GAP;
                group = &series.group;
                let name = escaped(group);
                let at = top + 10.0;
                put(
                    &mut lines,
                    format_args!("<text x=\"8\" y=\"{at:.0}\" font-weight=\"bold\">{name}</text>"),
                );
            }
            draw(&mut lines, series, &x, top);
            top += LINE + 2.0;
        }
        let bottom = top + 6.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" \
             font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"8\" y=\"22\" font-size=\"15\">{}</text>\n\
             <text x=\"{:.0}\" y=\"40\" text-anchor=\"middle\">µs of a tuple: shortest, p0.05 to p99.95 with \
             median and p99, longest</text>\n",
            LEFT + WIDTH + 150.0,
            bottom + 30.0,
            escaped(&self.title),
            LEFT + WIDTH / 2.0
        );
        for decade in x.decades() {
            let at = x.place(decade);
            put(
                &mut svg,
                format_args!(
                    "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom:.0}\" stroke=\"#e4e4e4\"/>\
                     <text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{decade}</text>",
                    bottom + 14.0
                ),
            );
        }
        svg.push_str(&lines);
        svg.push_str("</svg>\n");
        Some(svg)
    }
}

fn draw(svg: &mut String, series: &Quantiles, x: &Axis, top: f64) {
    let [min, p0_05, p50, p99, p99_95, max] = series.us.map(|us| x.place(us));
    let (middle, bottom) = (top + LINE / 2.0, top + LINE);
    let colour = COLOURS[usize::from(series.load)];
    let note = series.note.as_ref().map(|note| format!(" ({})", escaped(note)));
    put(
        svg,
        format_args!(
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\
             <line x1=\"{min:.1}\" y1=\"{middle:.1}\" x2=\"{max:.1}\" y2=\"{middle:.1}\" stroke=\"#555\"/>\
             <rect x=\"{p0_05:.1}\" y=\"{top:.0}\" width=\"{:.1}\" height=\"{LINE}\" fill=\"{colour}\"/>\
             <line x1=\"{p50:.1}\" y1=\"{top:.0}\" x2=\"{p50:.1}\" y2=\"{bottom:.0}\" stroke=\"black\" \
             stroke-width=\"2\"/>\
             <line x1=\"{p99:.1}\" y1=\"{top:.0}\" x2=\"{p99:.1}\" y2=\"{bottom:.0}\" stroke=\"black\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{}{}</text>",
            LEFT - 6.0,
            bottom - 3.0,
            escaped(&series.name),
            (p99_95 - p0_05).max(0.5),
            max + 4.0,
            bottom - 3.0,
            three_digits(series.us[5]),
            note.unwrap_or_default()
        ),
    );
}

fn put(svg: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(svg, "{what}").expect("text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_has_a_box_between_its_bounds_and_a_whisker_to_its_ends() {
        let series = |group: &str, load: bool, max: f64| Quantiles {
            group: group.into(),
            name: if load { "load-cell" } else { "cell" }.into(),
            load,
            us: [0.1, 1.0, 1.0, 1.0, 10.0, max],
            note: load.then(|| "a < b".into()),
        };
        let series = vec![series("q6", false, 100.0), series("q6", true, 10_000.0)];
        let svg = Boxes { title: "percentiles".into(), series }.svg().expect("series");
        assert_eq!(svg.matches(&format!("height=\"{LINE}\"")).count(), 2);
        assert_eq!((svg.matches(COLOURS[0]).count(), svg.matches(COLOURS[1]).count()), (1, 1));
        assert_eq!(svg.matches(">q6<").count(), 1, "a group has one name");
        assert!(svg.contains(">10000 (a &lt; b)<") && svg.contains(">100<"), "{svg}");
        let wide = |from: f64, to: f64| {
            let x = Axis { low: 0.1 / 1.5, high: 15_000.0, from: LEFT, to: LEFT + WIDTH };
            format!("x1=\"{:.1}\" y1=\"72.5\" x2=\"{:.1}\"", x.place(from), x.place(to))
        };
        assert!(svg.contains(&wide(0.1, 100.0)), "{svg}");
        assert!(Boxes { title: "none".into(), series: vec![] }.svg().is_none());
    }
}
