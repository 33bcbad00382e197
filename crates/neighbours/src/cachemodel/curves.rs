//! Panels of curves with linear axes from zero.

use std::fmt::Write as _;

use halcyon_gauge::chart::{COLOURS, escaped};

/// A curve.
pub struct Curve {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// A curve through points in order of x.
    pub fn new(name: &'static str, points: Vec<(f64, f64)>) -> Curve {
        Curve { name, points }
    }
}

/// A chart.
pub struct Panel {
    /// Title.
    pub title: String,
    /// Name of the x axis.
    pub x: &'static str,
    /// Name of the y axis.
    pub y: &'static str,
    /// Curves.
    pub curves: Vec<Curve>,
    /// Levels of y that are known from elsewhere.
    pub marks: Vec<(&'static str, f64)>,
}

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 240.0;
const RIGHT: f64 = 400.0;
const COLUMNS: usize = 3;

/// An SVG of panels, three in a row; every one says that it is simulated.
pub fn svg(panels: &[Panel]) -> String {
    let rows = panels.len().div_ceil(COLUMNS);
    let (width, height) = (WIDTH * COLUMNS as f64, HEIGHT * rows as f64);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (at, panel) in panels.iter().enumerate() {
        let (x, y) = ((at % COLUMNS) as f64 * WIDTH, (at / COLUMNS) as f64 * HEIGHT);
        let _ = writeln!(text, "<g transform=\"translate({x},{y})\">");
        draw(&mut text, panel);
        text.push_str("</g>\n");
    }
    text.push_str("</svg>\n");
    text
}

fn draw(text: &mut String, panel: &Panel) {
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let x_most = points().map(|point| point.0).fold(1.0, f64::max);
    let y_marks = panel.marks.iter().map(|mark| mark.1);
    let y_most = points().map(|point| point.1).chain(y_marks).fold(0.1, f64::max) * 1.1;
    let place = |(x, y): (f64, f64)| {
        let down = (y / y_most).clamp(0.0, 1.0) * (BOTTOM - TOP);
        (LEFT + x / x_most * (RIGHT - LEFT), BOTTOM - down)
    };
    let mut label = |x: f64, y: f64, anchor: &str, colour: &str, words: &str| {
        let words = escaped(words);
        let _ = writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{words}</text>"
        );
    };
    label(LEFT, 22.0, "start", "black", &format!("{} (simulated)", panel.title));
    label(LEFT, 42.0, "start", "black", panel.y);
    label(RIGHT, BOTTOM + 32.0, "end", "black", panel.x);
    for fifth in 0..=5 {
        let (x, y) = (x_most * f64::from(fifth) / 5.0, y_most * f64::from(fifth) / 5.0);
        label(place((x, 0.0)).0, BOTTOM + 16.0, "middle", "black", &format!("{x:.0}"));
        label(LEFT - 6.0, place((0.0, y)).1 + 4.0, "end", "black", &format!("{y:.2}"));
    }
    for (at, curve) in panel.curves.iter().enumerate() {
        let x = LEFT + at as f64 * 105.0;
        label(x, BOTTOM + 52.0, "start", COLOURS[at], curve.name);
    }
    for (name, level) in &panel.marks {
        let y = place((0.0, *level)).1;
        label(RIGHT, y - 3.0, "end", "grey", name);
    }
    let _ = writeln!(
        text,
        "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"black\"/>"
    );
    for (_, level) in &panel.marks {
        let y = place((0.0, *level)).1;
        let _ = writeln!(
            text,
            "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"grey\" stroke-dasharray=\"4 3\"/>"
        );
    }
    for (at, curve) in panel.curves.iter().enumerate() {
        let places: Vec<String> = curve
            .points
            .iter()
            .map(|&point| place(point))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let colour = COLOURS[at];
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            places.join(" ")
        );
        for place in places {
            let (x, y) = place.split_once(',').expect("made above");
            let _ = writeln!(text, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_marks_and_names_are_drawn() {
        let panel = Panel {
            title: "a < b".to_owned(),
            x: "x",
            y: "y",
            curves: vec![Curve::new("one", vec![(0.0, 0.0), (10.0, 1.0)])],
            marks: vec![("paper", 0.5)],
        };
        let text = svg(&[panel]);
        assert!(text.contains("a &lt; b (simulated)"));
        assert_eq!(text.matches("<circle").count(), 2);
        assert!(text.contains("points=\"56.0,240.0 400.0,72.7\""), "{text}");
        assert!(text.contains(">paper</text>"));
    }
}
