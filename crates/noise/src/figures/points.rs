//! Every tuple's time over its number, a facet for each scenario and query.
//!
//! Ordinary tuples are sampled; all those below the 0.05th or above the 99.95th percentile are drawn, in grey. A red
//! line is the running mean over 1,000 tuples; red triangles are the shortest and the longest tuple, with their times.
//! Percentiles and means belong to the facet's own series; the axis of times is logarithmic, and all facets share it.

use std::fmt::Write as _;

use super::{Axis, escaped, three_digits};
use crate::series::Series;

const FACET_WIDTH: f64 = 190.0;
const FACET_HEIGHT: f64 = 130.0;
const LEFT: f64 = 66.0;
const TOP: f64 = 58.0;
const PADDING: f64 = 10.0;
/// Room for the title.
const WIDTH_MIN: f64 = 480.0;
/// Ordinary tuples that a facet shows at most.
const SAMPLED: usize = 200;
/// Extreme tuples that a facet shows at most before they are thinned out evenly; the longest ones always show.
const EXTREME: usize = 1_200;
/// Width of the running mean, tuples.
const WINDOW: usize = 1_000;
/// Points of the line of the running mean.
const LINE_POINTS: usize = 95;
/// Colours of the paper: ordinary tuples and extreme ones.
const ORDINARY: &str = "#E69F00";
const GREY: &str = "#999999";

/// One facet.
#[derive(Clone, Debug)]
pub struct Facet {
    /// Number of the row: a scenario.
    pub row: usize,
    /// Number of the column: a query.
    pub column: usize,
    /// The series, if there is one.
    pub series: Option<Series>,
    /// A line in the facet: a reason why there is no series, or why it says little.
    pub note: Option<String>,
}

/// A figure of facets.
#[derive(Clone, Debug)]
pub struct Points {
    /// Title above the figure.
    pub title: String,
    /// Names of rows.
    pub rows: Vec<String>,
    /// Names of columns.
    pub columns: Vec<String>,
    /// Facets, in any order.
    pub facets: Vec<Facet>,
    /// Ticks in a microsecond.
    pub ticks_per_us: f64,
}

impl Points {
    /// The figure as a file's text. `None` if no facet has a tuple.
    pub fn svg(&self) -> Option<String> {
        let all =
            || self.facets.iter().filter_map(|facet| facet.series.as_ref()).flat_map(Series::ticks);
        let low = self.us(*all().min()?).max(1e-3);
        let high = self.us(*all().max()?).max(low * 2.0);
        let width = (LEFT + self.columns.len() as f64 * (FACET_WIDTH + PADDING)).max(WIDTH_MIN);
        let height = TOP + self.rows.len() as f64 * (FACET_HEIGHT + PADDING) + 34.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"10\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n\
             <text x=\"12\" y=\"{:.0}\" text-anchor=\"middle\" transform=\"rotate(-90 12 {:.0})\">µs of a tuple</text>\n\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">tuples</text>\n",
            escaped(&self.title),
            height / 2.0,
            height / 2.0,
            (LEFT + width) / 2.0,
            height - 6.0
        );
        for (column, name) in self.columns.iter().enumerate() {
            let x = self.left(column) + FACET_WIDTH / 2.0;
            put(
                &mut svg,
                format_args!(
                    "<text x=\"{x}\" y=\"48\" text-anchor=\"middle\">{}</text>",
                    escaped(name)
                ),
            );
        }
        for facet in &self.facets {
            self.facet(&mut svg, facet, low / 1.6, high * 2.2);
        }
        svg.push_str("</svg>\n");
        Some(svg)
    }

    fn us(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_us
    }

    fn left(&self, column: usize) -> f64 {
        LEFT + column as f64 * (FACET_WIDTH + PADDING)
    }

    fn facet(&self, svg: &mut String, facet: &Facet, low: f64, high: f64) {
        let (left, top) =
            (self.left(facet.column), TOP + facet.row as f64 * (FACET_HEIGHT + PADDING));
        let y = Axis { low, high, from: top + FACET_HEIGHT, to: top };
        put(
            svg,
            format_args!(
                "<rect x=\"{left}\" y=\"{top}\" width=\"{FACET_WIDTH}\" height=\"{FACET_HEIGHT}\" fill=\"none\" stroke=\"#ccc\"/>"
            ),
        );
        for decade in y.decades() {
            let at = y.place(decade);
            put(
                svg,
                format_args!(
                    "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#eee\"/>",
                    left + FACET_WIDTH
                ),
            );
            if facet.column == 0 {
                put(
                    svg,
                    format_args!(
                        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{decade}</text>",
                        left - 4.0,
                        at + 3.0
                    ),
                );
            }
        }
        if facet.column == 0 {
            let middle = top + FACET_HEIGHT / 2.0;
            let name = self.rows.get(facet.row).map_or("", String::as_str);
            put(
                svg,
                format_args!(
                    "<text x=\"28\" y=\"{middle}\" text-anchor=\"middle\" transform=\"rotate(-90 28 {middle})\">{}</text>",
                    escaped(name)
                ),
            );
        }
        if let Some(series) = facet.series.as_ref().filter(|series| !series.ticks().is_empty()) {
            self.series(svg, series, left, &y);
        }
        if let Some(note) = &facet.note {
            put(
                svg,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#555\">{}</text>",
                    left + 4.0,
                    top + 11.0,
                    escaped(note)
                ),
            );
        }
    }

    fn series(&self, svg: &mut String, series: &Series, left: f64, y: &Axis) {
        let ticks = series.ticks();
        let x = |tuple: usize| left + FACET_WIDTH * (tuple as f64 + 0.5) / ticks.len() as f64;
        let bounds = series.summary(u64::MAX).expect("a series with tuples");
        let is_extreme = |gap: u64| gap < bounds.p0_05 || gap > bounds.p99_95;
        let ordinary: Vec<usize> =
            (0..ticks.len()).filter(|&tuple| !is_extreme(ticks[tuple])).collect();
        let mut extreme: Vec<usize> =
            (0..ticks.len()).filter(|&tuple| is_extreme(ticks[tuple])).collect();
        // Longest first, so that thinning out takes the others.
        extreme.sort_by_key(|&tuple| std::cmp::Reverse(ticks[tuple]));
        let kept = extreme.len().min(EXTREME / 2);
        let rest = thinned(&extreme[kept..], EXTREME / 2);
        let place = |tuple: usize| (x(tuple), y.place(self.us(ticks[tuple])));
        dots(svg, ORDINARY, thinned(&ordinary, SAMPLED).map(place));
        dots(svg, GREY, extreme[..kept].iter().copied().chain(rest).map(place));
        let means = series.running_mean(WINDOW.min(ticks.len()));
        let mut line = String::new();
        for tuple in thinned(&(0..ticks.len()).collect::<Vec<_>>(), LINE_POINTS) {
            let at = y.place(means[tuple] / self.ticks_per_us);
            write!(line, "{:.1},{at:.1} ", x(tuple)).expect("text");
        }
        put(
            svg,
            format_args!("<polyline points=\"{}\" fill=\"none\" stroke=\"red\"/>", line.trim_end()),
        );
        let position = |gap: u64| ticks.iter().position(|&ticks| ticks == gap).unwrap_or(0);
        for (tuple, is_top) in [(position(bounds.max), true), (position(bounds.min), false)] {
            self.triangle(svg, place(tuple), left, ticks[tuple], is_top);
        }
    }

    /// An open triangle with the tuple's time beside it.
    fn triangle(&self, svg: &mut String, (x, y): (f64, f64), left: f64, ticks: u64, is_top: bool) {
        let beside =
            if x > left + FACET_WIDTH * 0.7 { (x - 6.0, "end") } else { (x + 6.0, "start") };
        let label = if is_top { y - 2.0 } else { y + 9.0 };
        put(
            svg,
            format_args!(
                "<path d=\"M{x:.1} {:.1}l4 7h-8z\" fill=\"none\" stroke=\"red\"/>\
             <text x=\"{:.1}\" y=\"{label:.1}\" text-anchor=\"{}\" fill=\"red\">{}</text>",
                y - 4.0,
                beside.0,
                beside.1,
                three_digits(self.us(ticks))
            ),
        );
    }
}

/// At most `count` of the tuples, at even distances.
fn thinned(tuples: &[usize], count: usize) -> impl Iterator<Item = usize> {
    let step = tuples.len().div_ceil(count.max(1)).max(1);
    tuples.iter().copied().step_by(step)
}

/// Points as one path of lines without length, which is a third of as many circles.
fn dots(svg: &mut String, colour: &str, points: impl Iterator<Item = (f64, f64)>) {
    let mut path = String::new();
    for (x, y) in points {
        write!(path, "M{x:.1} {y:.1}h0").expect("text");
    }
    if !path.is_empty() {
        put(
            svg,
            format_args!(
                "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linecap=\"round\"/>"
            ),
        );
    }
}

fn put(svg: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(svg, "{what}").expect("text");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(facets: Vec<Facet>) -> Points {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Points {
            title: "a < b".into(),
            rows: names(&["no-load", "load"]),
            columns: names(&["axfinder", "vwap"]),
            facets,
            ticks_per_us: 1_000.0,
        }
    }

    fn series() -> Series {
        let mut ticks = vec![500; 40_000];
        ticks[7] = 20;
        ticks[30_000] = 52_567_000;
        Series::from_ticks(ticks)
    }

    #[test]
    fn the_shortest_and_the_longest_tuple_are_labelled_and_all_extremes_drawn() {
        let facet =
            Facet { row: 0, column: 1, series: Some(series()), note: Some("others & co".into()) };
        let svg = figure(vec![facet]).svg().expect("a tuple");
        assert!(svg.contains("a &lt; b") && svg.contains("others &amp; co"));
        assert!(svg.contains(">52600<") && svg.contains(">0.0200<"), "three digits");
        assert_eq!(svg.matches("l4 7h-8z").count(), 2);
        let drawn = |colour: &str| {
            let line = svg.lines().find(|line| line.contains(colour)).expect("a path");
            line.matches("h0").count()
        };
        assert_eq!(drawn(GREY), 2, "both extremes");
        assert!((150..=SAMPLED).contains(&drawn(ORDINARY)), "{}", drawn(ORDINARY));
        assert_eq!(svg.matches("polyline").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn a_figure_without_tuples_is_none_and_a_facet_without_says_why() {
        let empty = Facet { row: 1, column: 0, series: None, note: Some("needs a shield".into()) };
        assert!(figure(vec![empty.clone()]).svg().is_none());
        let full = Facet { row: 0, column: 0, series: Some(series()), note: None };
        let svg = figure(vec![empty, full]).svg().expect("a tuple");
        assert!(svg.contains("needs a shield") && svg.contains(">load<"));
    }

    #[test]
    fn the_longest_tuples_stay_when_there_are_too_many() {
        let ticks: Vec<u64> =
            (1..=4_000_000_u64).map(|at| if at % 1_000 == 0 { 90_000 + at } else { 500 }).collect();
        let facet =
            Facet { row: 0, column: 0, series: Some(Series::from_ticks(ticks)), note: None };
        let svg = figure(vec![facet]).svg().expect("a tuple");
        let grey =
            svg.lines().find(|line| line.contains(GREY)).expect("a path").matches("h0").count();
        assert!((600..=EXTREME).contains(&grey), "{grey}");
        assert!(svg.len() < 60_000, "{}", svg.len());
    }
}
