//! The gate and the controllers on a simulated machine in virtual time.

mod machine;
mod overload;
mod targets;
