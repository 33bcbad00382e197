//! Figures of the paper as SVG, written by hand: series of points (P2, Figures 3, 4 and 6), spans (Figure 5), and the
//! percentiles of the same series, which the paper tells in words.

mod boxes;
mod points;
mod span;

pub use boxes::{Boxes, Quantiles};
pub use points::{Facet, Points};
pub use span::{Span, Spans};

/// Text that may stand in a document.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// A number with three digits that count.
fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    let unit = 10_f64.powi(digits);
    let rounded = (value * unit).round() / unit;
    format!("{rounded:.*}", usize::try_from(digits).unwrap_or(0))
}

/// A logarithmic axis from `low` to `high`, drawn from `from` to `to`.
#[derive(Clone, Copy, Debug)]
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Where a value is drawn; values outside are drawn at the ends.
    fn place(&self, value: f64) -> f64 {
        let share = (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln();
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Powers of ten on the axis.
    fn decades(&self) -> Vec<f64> {
        let (first, last) = (self.low.log10().ceil() as i32, self.high.log10().floor() as i32);
        (first..=last).map(|power| 10_f64.powi(power)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_three_digits() {
        let texts = [0.052_4, 1.0, 9.996, 12.34, 123.4, 52_567.0, 0.0].map(three_digits);
        assert_eq!(texts, ["0.0524", "1.00", "10.00", "12.3", "123", "52600", "0"]);
    }

    #[test]
    fn axes_are_logarithmic_and_keep_within_their_ends() {
        let axis = Axis { low: 0.1, high: 1_000.0, from: 0.0, to: 4.0 };
        assert!((axis.place(1.0) - 1.0).abs() < 1e-9 && (axis.place(100.0) - 3.0).abs() < 1e-9);
        assert_eq!((axis.place(0.0), axis.place(1e9)), (0.0, 4.0));
        assert_eq!(axis.decades().len(), 5);
    }
}
