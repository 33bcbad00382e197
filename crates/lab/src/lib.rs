//! Experiments: measured arms beside rivals, every answer checked.
#![forbid(unsafe_code)]
