//! The span of each series around its median (P2, Figure 5): bars from the shortest tuple to the longest one.

use std::fmt::Write as _;

use super::{Axis, escaped, three_digits};

const LEFT: f64 = 200.0;
const WIDTH: f64 = 460.0;
const TOP: f64 = 56.0;
const BAR: f64 = 13.0;
const GAP: f64 = 10.0;
/// Colours that people who cannot tell red from green distinguish as well (Okabe and Ito).
const COLOURS: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999933"];

/// One bar.
#[derive(Clone, Debug)]
pub struct Span {
    /// What is measured: bars of one group stand together.
    pub group: String,
    /// The scenario.
    pub name: String,
    /// Longest tuple by the median.
    pub above: f64,
    /// Median by the shortest tuple.
    pub below: f64,
    /// A remark behind the bar.
    pub note: Option<String>,
}

/// A figure of bars.
#[derive(Clone, Debug)]
pub struct Spans {
    /// Title above the figure.
    pub title: String,
    /// The bars; those of a group in one run.
    pub bars: Vec<Span>,
}

impl Spans {
    /// The figure as a file's text. `None` without bars.
    pub fn svg(&self) -> Option<String> {
        let low = 1.0 / self.bars.iter().map(|bar| bar.below).fold(None, larger)?.max(1.5);
        let high = self.bars.iter().map(|bar| bar.above).fold(None, larger)?.max(1.5);
        let x = Axis { low: low / 1.5, high: high * 1.5, from: LEFT, to: LEFT + WIDTH };
        let mut names: Vec<&str> = Vec::new();
        let (mut bars, mut top, mut group) = (String::new(), TOP, "");
        for bar in &self.bars {
            if bar.group != group {
                top += GAP;
                group = &bar.group;
                put(
                    &mut bars,
                    format_args!(
                        "<text x=\"8\" y=\"{:.0}\" font-weight=\"bold\">{}</text>",
                        top + 10.0,
                        escaped(group)
                    ),
                );
            }
            let colour = names.iter().position(|name| *name == bar.name).unwrap_or_else(|| {
                names.push(&bar.name);
                names.len() - 1
            });
            draw(&mut bars, bar, &x, top, COLOURS[colour % COLOURS.len()]);
            top += BAR + 2.0;
        }
        let bottom = top + 6.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" \
             font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"8\" y=\"22\" font-size=\"15\">{}</text>\n\
             <text x=\"{:.0}\" y=\"40\" text-anchor=\"middle\">times the median: shortest tuple, longest tuple</text>\n",
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
                    "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom:.0}\" stroke=\"{}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{decade}</text>",
                    if decade == 1.0 { "#888" } else { "#e4e4e4" },
                    bottom + 14.0
                ),
            );
        }
        svg.push_str(&bars);
        svg.push_str("</svg>\n");
        Some(svg)
    }
}

fn draw(svg: &mut String, bar: &Span, x: &Axis, top: f64, colour: &str) {
    let (from, to) = (x.place(1.0 / bar.below.max(1.0)), x.place(bar.above.max(1.0)));
    let middle = top + BAR - 3.0;
    let note = bar.note.as_ref().map(|note| format!(" ({})", escaped(note))).unwrap_or_default();
    put(
        svg,
        format_args!(
            "<text x=\"{:.0}\" y=\"{middle:.0}\" text-anchor=\"end\">{}</text>\
         <rect x=\"{from:.1}\" y=\"{top:.0}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{middle:.0}\">{}{note}</text>",
            LEFT - 6.0,
            escaped(&bar.name),
            (to - from).max(0.5),
            to + 4.0,
            three_digits(bar.above)
        ),
    );
}

fn larger(most: Option<f64>, value: f64) -> Option<f64> {
    Some(most.map_or(value, |most: f64| most.max(value)))
}

fn put(svg: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(svg, "{what}").expect("text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_has_a_bar_and_scenarios_keep_their_colours() {
        let bar = |group: &str, name: &str, above: f64| Span {
            group: group.into(),
            name: name.into(),
            above,
            below: 2.0,
            note: (above > 1e5).then(|| "inconclusive".into()),
        };
        let bars = vec![
            bar("q1", "no-load", 40.0),
            bar("q1", "load", 1_234_567.0),
            bar("q6", "no-load", 10.0),
        ];
        let svg = Spans { title: "span".into(), bars }.svg().expect("bars");
        assert_eq!(svg.matches(&format!("height=\"{BAR}\"")).count(), 3);
        assert_eq!((svg.matches(COLOURS[0]).count(), svg.matches(COLOURS[1]).count()), (2, 1));
        assert!(svg.contains(">1230000 (inconclusive)<") && svg.contains(">q6<"), "{svg}");
        assert!(Spans { title: "span".into(), bars: vec![] }.svg().is_none());
    }
}
