//! Session state that binding and expressions read.

use halcyon_workload::CacheClass;
use std::sync::Arc;

use crate::SUPERUSER;

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
    /// Whether the temporary schema stands in the search path because the session's setting says so, and
    /// new objects go there if it stands first; else it is only searched.
    pub names_temporary: bool,
    /// Offset or name, as given by SET TIME ZONE.
    pub time_zone: String,
    /// Cores an analytical statement may use.
    pub threads: usize,
    /// The place that the workload class of the running statement gives the statement among others.
    pub placement: Placement,
    /// The place of the statement if it turns out to be long; `None`: the same.
    pub long_placement: Option<Placement>,
    /// Bytes an analytical statement may hold.
    pub memory_bytes: usize,
    /// Bytes that files of an analytical statement may take; `None` for no limit.
    pub temp_file_bytes: Option<u64>,
    /// Identity shown by `pg_backend_pid()` and `halcyon.sessions`.
    pub session_id: u32,
    /// Whether the transaction of the statement is READ ONLY.
    pub read_only: bool,
    /// Values last given out by sequences in this session: (sequence oid, value).
    pub sequence_values: Arc<parking_lot::Mutex<Vec<(u32, i64)>>>,
    /// Folder that names of files in COPY FROM begin at; the process's own unless a script of an
    /// exported database runs.
    pub copy_folder: Option<std::path::PathBuf>,
}

/// The place of a statement among others that want the workers (P4 §2): its workload class, as far as executors
/// need to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Number of the class.
    pub class: u8,
    /// Number of the band of priority that its tasks wait in: 0 goes first, 3 last.
    pub band: u8,
    /// Workers that the statement may use at once; `None`: as many as its plan was made for.
    pub workers_max: Option<usize>,
    /// Whether rules may slow the statement down or move it to another class while it runs.
    pub is_watched: bool,
    /// Classes whose quotas of workers hold for the statement: its own, and those above that one.
    pub quotas: Arc<[u8]>,
    /// What the class says of its statements' use of the cache, which goes before what their operators say.
    pub cache: CacheClass,
}

impl Placement {
    /// Ordinary work of a class.
    pub fn of_class(class: u8) -> Self {
        Placement {
            class,
            band: 2,
            workers_max: None,
            is_watched: false,
            quotas: Arc::from([]),
            cache: CacheClass::Auto,
        }
    }
}

impl SessionVars {
    /// The session of work that the engine does for itself, outside of any client's: a superuser with the
    /// defaults of all settings. Rights were asked when the work was ordered.
    pub fn of_engine() -> Self {
        SessionVars {
            user: SUPERUSER.to_owned(),
            session_user: SUPERUSER.to_owned(),
            database: String::new(),
            search_path: vec!["public".to_owned()],
            names_temporary: false,
            time_zone: "UTC".to_owned(),
            threads: 1,
            placement: Placement::of_class(1),
            long_placement: None,
            memory_bytes: usize::MAX,
            temp_file_bytes: None,
            session_id: 0,
            read_only: false,
            copy_folder: None,
            sequence_values: Arc::default(),
        }
    }
}
