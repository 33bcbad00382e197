//! Matrices of slowdowns by operator (row) and partner (column), drawn as P3's Figures 2 and 6 are.

use std::fmt::Write as _;

/// A matrix.
pub struct Matrix<'a> {
    /// Title.
    pub title: &'a str,
    /// What stands at the rows.
    pub rows: &'a [&'a str],
    /// What stands at the columns.
    pub columns: &'a [&'a str],
    /// Slowdowns, row by row.
    pub slowdowns: Vec<Vec<f64>>,
}

const CELL: usize = 84;
const TOP: usize = 56;
/// The slowdown that has the darkest colour.
const DARKEST: f64 = 2.5;
/// Width of a letter.
const LETTER: usize = 9;

impl Matrix<'_> {
    fn left(&self) -> usize {
        let longest = self.rows.iter().map(|label| label.len()).max().unwrap_or(0);
        24 + longest * LETTER
    }

    fn width(&self) -> usize {
        self.left() + self.columns.len() * CELL + 24
    }
}

/// An SVG of matrices side by side.
pub fn svg(matrices: &[Matrix<'_>]) -> String {
    let width: usize = matrices.iter().map(Matrix::width).sum();
    let rows = matrices.iter().map(|matrix| matrix.rows.len()).max().unwrap_or(0);
    let height = TOP + rows * CELL + 48;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let mut left = 0;
    for matrix in matrices {
        panel(&mut text, left, matrix);
        left += matrix.width();
    }
    text.push_str("</svg>\n");
    text
}

fn panel(text: &mut String, left: usize, matrix: &Matrix<'_>) {
    let (inner, bottom) = (left + matrix.left(), TOP + matrix.rows.len() * CELL);
    let mut label = |x: usize, y: usize, anchor: &str, colour: &str, words: &str| {
        writeln!(
            text,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{words}</text>"
        )
        .expect("strings take everything");
    };
    let middle = inner + matrix.columns.len() * CELL / 2;
    label(middle, 24, "middle", "black", matrix.title);
    label(middle, bottom + 40, "middle", "black", "partner");
    for (at, name) in matrix.rows.iter().enumerate() {
        label(inner - 8, TOP + at * CELL + CELL / 2 + 5, "end", "black", name);
    }
    for (at, name) in matrix.columns.iter().enumerate() {
        label(inner + at * CELL + CELL / 2, bottom + 20, "middle", "black", name);
    }
    for (row, slowdowns) in matrix.slowdowns.iter().enumerate() {
        for (column, &slowdown) in slowdowns.iter().enumerate() {
            let (x, y) = (inner + column * CELL, TOP + row * CELL);
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
        let names = ["a", "bc", "d"];
        let matrix = |row: [f64; 3]| Matrix {
            title: "t",
            rows: &names,
            columns: &names,
            slowdowns: vec![row.to_vec(); 3],
        };
        let text = svg(&[matrix([1.0, 1.5, 9.0]), matrix([0.97, 1.03, 1.05])]);
        assert_eq!(text.matches("stroke=\"grey\"").count(), 18);
        assert_eq!(text.matches(">9.00<").count(), 3);
        assert_eq!(text.matches("rgb(255,255,255)").count(), 6, "no slowdown, no colour");
        assert_eq!(text.matches("rgb(180,0,0)").count(), 3, "what is worst is darkest");
    }
}
