//! x
use std::path::PathBuf; use std::process::ExitCode;
#[derive(clap::Args, Debug, Clone)] pub struct Options { #[arg(long)] pub data: Option<PathBuf> }
pub fn run(_: &Options) -> ExitCode { todo!() }
