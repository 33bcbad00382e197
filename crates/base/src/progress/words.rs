//! What works do, what their stages do and count, and how system views spell that.

/// What a work does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// COPY FROM data of the client.
    CopyFromClient,
    /// COPY FROM a file of the server.
    CopyFromFile,
    /// COPY TO the client.
    CopyToClient,
    /// COPY TO a file of the server.
    CopyToFile,
    /// CREATE INDEX.
    CreateIndex,
    /// CREATE TABLE AS.
    CreateTableAs,
    /// CREATE MATERIALIZED VIEW.
    CreateMaterializedView,
    /// CREATE ASSERTION.
    CreateAssertion,
    /// ALTER TABLE.
    AlterTable,
    /// INSERT of many rows.
    Insert,
    /// UPDATE of many rows.
    Update,
    /// DELETE of many rows.
    Delete,
    /// EXPORT DATABASE.
    Export,
    /// IMPORT DATABASE.
    Import,
    /// A checkpoint.
    Checkpoint,
    /// A copy of the whole database in another folder.
    Backup,
    /// The opening of a database.
    Recovery,
}

impl Kind {
    /// The command as SQL spells it; `RECOVERY` for the opening of a database.
    pub fn command(self) -> &'static str {
        match self {
            Kind::CopyFromClient | Kind::CopyFromFile => "COPY FROM",
            Kind::CopyToClient | Kind::CopyToFile => "COPY TO",
            Kind::CreateIndex => "CREATE INDEX",
            Kind::CreateTableAs => "CREATE TABLE AS",
            Kind::CreateMaterializedView => "CREATE MATERIALIZED VIEW",
            Kind::CreateAssertion => "CREATE ASSERTION",
            Kind::AlterTable => "ALTER TABLE",
            Kind::Insert => "INSERT",
            Kind::Update => "UPDATE",
            Kind::Delete => "DELETE",
            Kind::Export => "EXPORT DATABASE",
            Kind::Import => "IMPORT DATABASE",
            Kind::Checkpoint => "CHECKPOINT",
            Kind::Backup => "BACKUP",
            Kind::Recovery => "RECOVERY",
        }
    }

    /// Whether it is a COPY.
    pub fn is_copy(self) -> bool {
        self.is_copy_from() || matches!(self, Kind::CopyToClient | Kind::CopyToFile)
    }

    /// Whether it is a COPY FROM.
    pub fn is_copy_from(self) -> bool {
        matches!(self, Kind::CopyFromClient | Kind::CopyFromFile)
    }
}

macro_rules! numbered {
    ($(#[doc = $about:literal] $ty:ident { $(#[doc = $doc:literal] $name:ident = $text:literal,)+ })+) => {
        $(
            #[doc = $about]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(u8)]
            pub enum $ty {
                $(#[doc = $doc] $name,)+
            }

            impl $ty {
                const ALL: &[$ty] = &[$($ty::$name,)+];

                /// As system views spell it.
                pub fn name(self) -> &'static str {
                    match self {
                        $($ty::$name => $text,)+
                    }
                }

                /// The inverse of `as u8`. Panics: if the number is of none.
                pub(super) fn of(number: u8) -> $ty {
                    Self::ALL[usize::from(number)]
                }
            }
        )+
    };
}

numbered! {
    /// What a stage does. The names of COPY and of indexes are PostgreSQL's.
    Phase {
        /// Nothing that is counted.
        Initializing = "initializing",
        /// Rows go from or to a file or client.
        Copying = "copying",
        /// Rows are written into a table.
        WritingRows = "writing rows",
        /// An index's keys are made of a table's rows.
        ScanningTable = "building index: scanning table",
        /// The keys are sorted and put into the index.
        LoadingTree = "building index: loading tuples in tree",
        /// Rows are compared with a condition.
        CheckingRows = "checking rows",
        /// Rows get another shape.
        RewritingRows = "rewriting rows",
        /// A view meets the rows that it is over.
        FillingView = "filling the view",
        /// Rows of tables are written to files.
        WritingTables = "writing tables",
        /// Scripts run.
        RunningScripts = "running scripts",
        /// Files are compared with their checksums.
        CheckingFiles = "checking files",
        /// Partitions are read from a checkpoint.
        ReadingCheckpoint = "reading the checkpoint",
        /// Commits of the log are done again.
        ReplayingLog = "doing the log again",
        /// Indexes are built of what was read.
        BuildingIndexes = "building indexes",
    }

    /// What a stage counts.
    Unit {
        /// Rows.
        Rows = "rows",
        /// Bytes of files, of the log, or of a client's data.
        Bytes = "bytes",
        /// Partitions of tables.
        Partitions = "partitions",
    }
}
