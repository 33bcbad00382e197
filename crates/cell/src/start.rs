//! Starting a cell at one of the places.

use crate::place::{Place, Running, Settings};

/// Whether cells can be had at a place; the error says, for people, why not.
pub fn available(place: Place) -> Result<(), String> {
    match place {
        Place::Thread => Ok(()),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Place::Machine if crate::image::IMAGE.is_empty() => {
            Err("this build has no image of a cell".to_owned())
        }
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Place::Machine => crate::vm::available(),
        #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
        Place::Machine => Err("cells need Linux on x86-64".to_owned()),
    }
}

/// Starts a cell. Errors: says, for people, what could not be had.
pub fn start(settings: &Settings) -> Result<Box<dyn Running>, String> {
    available(settings.place)?;
    match settings.place {
        Place::Thread => Ok(Box::new(crate::thread::ThreadCell::start(settings)?)),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Place::Machine => Ok(Box::new(crate::vm::MachineCell::start(settings)?)),
        #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
        Place::Machine => Err("cells need Linux on x86-64".to_owned()),
    }
}
