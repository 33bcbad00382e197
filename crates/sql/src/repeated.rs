//! Names that several columns of one result have: DataFusion wants names to be unique, so later ones carry an
//! invisible tail.

/// Begins the tail that makes a repeated name unique. No identifier can be typed with it.
pub const TAIL: char = '\u{1}';

/// A column's name as the client sees it.
pub fn shown_name(name: &str) -> &str {
    name.split(TAIL).next().unwrap_or(name)
}

/// The name under which DataFusion knows the column that repeats a name as the `number`th in its list.
pub fn repeated_name(name: &str, number: usize) -> String {
    format!("{name}{TAIL}{number}")
}
