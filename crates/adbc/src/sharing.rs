//! Databases of folders that are open in this process: whoever opens one again shares it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use halcyon::DatabaseOptions;

use crate::errors::{Result, out_of_turn, told};

/// A database that is open. Whatever works with it holds one.
pub struct Opened {
    /// The engine's handle.
    pub database: halcyon::Database,
}

/// What is open, by the folder's path without links.
static OPEN: Mutex<Option<HashMap<PathBuf, Weak<Opened>>>> = Mutex::new(None);

/// Opens a database: in memory without a folder. `settings` are the database's, as `ALTER SYSTEM` knows them, and
/// `threads` and `spill_folder`.
///
/// Errors: invalid state for settings of a folder's database that is open already; those of the engine.
pub fn open(folder: Option<&str>, settings: &[(String, String)]) -> Result<Arc<Opened>> {
    let options = options(settings)?;
    let Some(folder) = folder else {
        let database = halcyon::Database::with_options(options);
        return Ok(Arc::new(Opened { database }));
    };
    // Held while the folder is opened: whoever asks for the same folder waits for the outcome.
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open.get_or_insert_default();
    open.retain(|_, opened| opened.strong_count() > 0);
    let known = fs::canonicalize(folder).ok();
    if let Some(opened) = known.and_then(|path| open.get(&path).and_then(Weak::upgrade)) {
        return match settings.first() {
            None => Ok(opened),
            Some((name, _)) => Err(out_of_turn(format!(
                "the database is open in this process already, so that \"{name}\" would have no effect"
            ))),
        };
    }
    let database = halcyon::Database::open_with(Path::new(folder), options, &|_| ());
    let opened = Arc::new(Opened { database: database.map_err(told)? });
    if let Ok(path) = fs::canonicalize(folder) {
        open.insert(path, Arc::downgrade(&opened));
    }
    Ok(opened)
}

fn options(settings: &[(String, String)]) -> Result<DatabaseOptions> {
    let mut options = DatabaseOptions::default();
    for (name, value) in settings {
        match name.as_str() {
            "threads" => {
                options.threads = value.parse().map_err(|_| {
                    crate::errors::invalid(format!("invalid value for \"threads\": \"{value}\""))
                })?;
            }
            "spill_folder" => options.spill_into(value).map_err(told)?,
            _ => options.set(name, value).map_err(told)?,
        }
    }
    Ok(options)
}
