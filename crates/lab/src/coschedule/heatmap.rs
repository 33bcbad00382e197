//! The two matrices of slowdowns, drawn as P3 Figure 6 does.

use std::fmt::Write as _;

/// What stands at rows and columns: PageRank, hop distance, shortest paths.
const LABELS: [&str; 3] = ["PR", "HD", "SSSP"];
const TITLES: [&str; 2] = ["(a) threads placed by the OS", "(b) groups on islands"];
const CELL: usize = 84;
const LEFT: usize = 64;
const TOP: usize = 56;
const WIDTH: usize = LEFT + 3 * CELL + 24;
/// The slowdown that has the darkest colour.
const DARKEST: f64 = 2.5;

/// An SVG of slowdowns by placement, program (row) and partner (column).
pub fn svg(matrices: &[[[f64; 3]; 3]; 2]) -> String {
    let (width, height) = (2 * WIDTH, TOP + 3 * CELL + 48);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (number, matrix) in matrices.iter().enumerate() {
        panel(&mut text, number * WIDTH, TITLES[number], matrix);
    }
    text.push_str("</svg>\n");
    text
}

fn panel(text: &mut String, left: usize, title: &str, matrix: &[[f64; 3]; 3]) {
    let mut label = |x: usize, y: usize, anchor: &str, colour: &str, words: &str| {
        writeln!(
            text,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{words}</text>"
        )
        .expect("strings take everything");
    };
    let middle = left + LEFT + 3 * CELL / 2;
    label(middle, 24, "middle", "black", title);
    label(middle, TOP + 3 * CELL + 40, "middle", "black", "partner");
    for (at, name) in LABELS.iter().enumerate() {
        let centre = at * CELL + CELL / 2;
        label(left + LEFT - 8, TOP + centre + 5, "end", "black", name);
        label(left + LEFT + centre, TOP + 3 * CELL + 20, "middle", "black", name);
    }
    for (row, slowdowns) in matrix.iter().enumerate() {
        for (column, &slowdown) in slowdowns.iter().enumerate() {
            let (x, y) = (left + LEFT + column * CELL, TOP + row * CELL);
            let heat = ((slowdown - 1.0) / (DARKEST - 1.0)).clamp(0.0, 1.0);
            let cool = (255.0 * (1.0 - heat)) as u8;
            let warm = (255.0 - 75.0 * heat) as u8;
            writeln!(
                text,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" \
                 fill=\"rgb({warm},{cool},{cool})\" stroke=\"grey\"/>"
            )
            .expect("strings take everything");
            let colour = if heat > 0.6 { "white" } else { "black" };
            writeln!(
                text,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{colour}\">{slowdown:.2}</text>",
                x + CELL / 2,
                y + CELL / 2 + 5
            )
            .expect("strings take everything");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slowdown_has_a_cell_of_its_heat() {
        let text = svg(&[[[1.0, 1.5, 9.0]; 3], [[0.97, 1.03, 1.05]; 3]]);
        assert_eq!(text.matches("stroke=\"grey\"").count(), 18);
        assert_eq!(text.matches(">9.00<").count(), 3);
        assert_eq!(text.matches("rgb(255,255,255)").count(), 6, "no slowdown, no colour");
        assert_eq!(text.matches("rgb(180,0,0)").count(), 3, "what is worst is darkest");
    }
}
