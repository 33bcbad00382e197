//! The binary `halcyon-lab`: experiments, with rivals and all that measuring alone needs. `halcyon lab`
//! starts it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use halcyon::{Counted, Mapped};
use halcyon_lab::Arguments;
use mimalloc::MiMalloc;

// The allocator of the binary `halcyon`: what is measured here is what runs there.
#[global_allocator]
static ALLOCATOR: Counted<Mapped<MiMalloc>> = Counted(Mapped(MiMalloc));

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("HALCYON_LOG")
                .unwrap_or_else(|_| "warn".into()),
        )
        .init();
    halcyon_lab::run(&arguments.experiment, arguments.common)
}
