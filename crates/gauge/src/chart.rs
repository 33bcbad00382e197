//! Line charts as SVG: throughput against clients, both axes logarithmic, so that perfect scaling
//! is a straight line for every engine.

use std::fmt::Write;

/// A line of a chart.
pub struct Series {
    /// Text of the legend.
    pub name: String,
    /// Drawn with gaps: a limit rather than an engine.
    pub dashed: bool,
    /// (clients, transactions per second, spread as a fraction), in order of clients.
    pub points: Vec<(u32, f64, f64)>,
}

/// A chart.
pub struct Chart {
    /// Title above the chart.
    pub title: String,
    /// Lines of the chart.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 360.0;

/// Colours that people who cannot tell red from green distinguish as well (Okabe and Ito).
pub const COLOURS: [&str; 8] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933"];

/// A logarithmic axis between two values.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }
}

impl Chart {
    /// The chart as a file's text. `None` if it has no point.
    pub fn svg(&self) -> Option<String> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let clients_max = points().map(|point| point.0).max()?;
        let highest = points().map(|point| point.1).fold(0.0, f64::max);
        let lowest = points().map(|point| point.1).fold(f64::INFINITY, f64::min);
        if lowest <= 0.0 {
            return None;
        }
        let x = Axis { low: 0.9, high: f64::from(clients_max.max(2)) * 1.1, from: LEFT, to: RIGHT };
        let y = Axis { low: lowest / 1.3, high: highest * 1.3, from: BOTTOM, to: TOP };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"28\" font-size=\"16\">{}</text>\n",
            escaped(&self.title)
        );
        self.axes(&mut svg, &x, &y);
        for (at, series) in self.series.iter().enumerate() {
            line(&mut svg, at, series, &x, &y);
        }
        svg.push_str("</svg>\n");
        Some(svg)
    }

    fn axes(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let mut clients: Vec<u32> =
            self.series.iter().flat_map(|series| &series.points).map(|point| point.0).collect();
        clients.sort_unstable();
        clients.dedup();
        for count in clients {
            let at = x.place(f64::from(count));
            put(
                svg,
                format_args!(
                    "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{BOTTOM}\" stroke=\"#eee\"/>\
                 <text x=\"{at:.1}\" y=\"378\" text-anchor=\"middle\">{count}</text>"
                ),
            );
        }
        for value in ticks(y.low, y.high) {
            let at = y.place(value);
            put(
                svg,
                format_args!(
                    "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"74\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    at + 4.0,
                    grouped(value)
                ),
            );
        }
        let middle = (LEFT + RIGHT) / 2.0;
        put(
            svg,
            format_args!("<text x=\"{middle}\" y=\"402\" text-anchor=\"middle\">clients</text>"),
        );
        put(
            svg,
            format_args!(
                "<text x=\"20\" y=\"205\" text-anchor=\"middle\" transform=\"rotate(-90 20 205)\">\
             transactions per second</text>"
            ),
        );
    }
}

fn line(svg: &mut String, at: usize, series: &Series, x: &Axis, y: &Axis) {
    let colour = COLOURS[at % COLOURS.len()];
    let gaps = if series.dashed || at >= COLOURS.len() { " stroke-dasharray=\"6 4\"" } else { "" };
    let mut path = String::new();
    for (clients, rate, spread) in &series.points {
        let (px, py) = (x.place(f64::from(*clients)), y.place(*rate));
        write!(path, "{px:.1},{py:.1} ").expect("text");
        let half = (spread / 2.0).min(0.9);
        let (top, bottom) = (y.place(rate * (1.0 + half)), y.place(rate * (1.0 - half)));
        put(
            svg,
            format_args!(
                "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3\" fill=\"{colour}\"/>\
             <line x1=\"{px:.1}\" y1=\"{top:.1}\" x2=\"{px:.1}\" y2=\"{bottom:.1}\" \
             stroke=\"{colour}\" stroke-opacity=\"0.5\"/>"
            ),
        );
    }
    put(
        svg,
        format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{gaps}/>",
            path.trim_end()
        ),
    );
    let legend = TOP + 8.0 + 18.0 * at as f64;
    put(
        svg,
        format_args!(
            "<line x1=\"575\" y1=\"{legend}\" x2=\"600\" y2=\"{legend}\" stroke=\"{colour}\" \
         stroke-width=\"2\"{gaps}/><text x=\"606\" y=\"{}\">{}</text>",
            legend + 4.0,
            escaped(&series.name)
        ),
    );
}

fn put(svg: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(svg, "{what}").expect("text");
}

/// 1, 2 and 5 times powers of ten.
pub fn ticks(low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    let powers = (first..=last).map(|power| 10_f64.powi(power));
    let all = powers.flat_map(|power| [power, 2.0 * power, 5.0 * power]);
    all.filter(|value| (low..=high).contains(value)).collect()
}

/// A whole number with a comma before every three digits.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Text that may stand in a document.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfect_scaling_is_a_straight_line() {
        let axis = Axis { low: 1.0, high: 8.0, from: 0.0, to: 3.0 };
        for (value, place) in [(1.0, 0.0), (2.0, 1.0), (4.0, 2.0), (8.0, 3.0)] {
            assert!((axis.place(value) - place).abs() < 1e-9);
        }
    }

    #[test]
    fn a_chart_holds_its_lines_and_an_empty_one_is_none() {
        let points = vec![(1, 1_000.0, 0.1), (2, 1_900.0, 0.2)];
        let series = vec![Series { name: "a < b".into(), dashed: true, points }];
        let svg = Chart { title: "t".into(), series }.svg().unwrap();
        assert!(svg.contains("a &lt; b") && svg.contains("stroke-dasharray"));
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(Chart { title: "t".into(), series: vec![] }.svg().is_none());
    }

    #[test]
    fn ticks_and_numbers_for_people() {
        assert_eq!(ticks(900.0, 6_000.0), [1_000.0, 2_000.0, 5_000.0]);
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!(grouped(12.0), "12");
    }
}
