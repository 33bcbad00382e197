//! Session state that binding and expressions read.

use std::sync::Arc;

/// Session state that statements read; changed by SET and by the door.
#[derive(Clone, Debug)]
pub struct SessionVars {
    /// Who the session acts for.
    pub user: String,
    /// The role that logged in.
    pub session_user: String,
    /// Database name shown to clients.
    pub database: String,
    /// Schemas searched for unqualified names, first match wins; the first receives new objects.
    pub search_path: Vec<String>,
    /// Offset or name, as given by SET TIME ZONE.
    pub time_zone: String,
    /// Cores an analytical statement may use.
    pub threads: usize,
    /// Bytes an analytical statement may hold.
    pub memory_bytes: usize,
    /// Identity shown by `pg_backend_pid()` and `halcyon.sessions`.
    pub session_id: u32,
    /// Values last given out by sequences in this session: (sequence oid, value).
    pub sequence_values: Arc<parking_lot::Mutex<Vec<(u32, i64)>>>,
    /// Folder that names of files in COPY FROM begin at; the process's own unless a script of an
    /// exported database runs.
    pub copy_folder: Option<std::path::PathBuf>,
}
