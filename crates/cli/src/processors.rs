//! Lists of processors on the command line.

/// Numbers of processors.
#[derive(Debug, Clone, Default)]
pub struct Processors(pub Vec<u32>);

/// A list of processors as the kernel writes it.
pub fn any_processors(text: &str) -> Result<Processors, String> {
    let listed = halcyon_machine::topology::list(text).map_err(|error| error.to_string())?;
    Ok(Processors(listed))
}

/// A list of processors as the kernel writes it, each of which this process may use.
pub fn processors(text: &str) -> Result<Processors, String> {
    if text.is_empty() {
        return Ok(Processors::default());
    }
    let listed = halcyon_machine::topology::list(text).map_err(|error| error.to_string())?;
    let allowed = halcyon_machine::affinity::get().map_err(|error| error.to_string())?;
    match listed.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => Err(format!("this process may not use processor {cpu}, but {allowed:?}")),
        None => Ok(Processors(listed)),
    }
}
