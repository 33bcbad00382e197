//! Statements by their text, so that the second execution of a text plans nothing.
