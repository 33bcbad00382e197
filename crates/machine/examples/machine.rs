//! Prints what the machine has and withholds: `halcyon machine`, without the rest of Halcyon.

fn main() {
    print!("{}", halcyon_machine::report().render());
}
