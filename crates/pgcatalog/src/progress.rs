//! The progress of work that lasts: `halcyon.progress`, and the works that PostgreSQL's views of it are made of.
//!
//! The works are the process's ([`halcyon_base::progress`]), which may have several databases: those of this one's
//! sessions are found by their accounts, and its own by its number.

use halcyon_base::progress::{self, Kind, Object, Shown};

use super::Context;
use super::view::{Moment, Name, system_views};

system_views! {
    /// One row per statement or other work that lasts and counts what it has done, for superusers and for the session's role;
    /// works of the database itself are for all. A work may be a part of another one, such as a COPY of IMPORT DATABASE.
    progress: Progress from works {
        /// Number of the work; later works have greater ones.
        work: u64,
        /// Number of the work that it is a part of.
        part_of: Option<u64>,
        /// Session that it is done for; NULL for the database's own, such as a checkpoint when its time has come.
        session: Option<u32>,
        /// The command: `COPY FROM`, `COPY TO`, `CREATE INDEX`, `CREATE TABLE AS`, `CREATE MATERIALIZED VIEW`, `CREATE ASSERTION`,
        /// `ALTER TABLE`, `INSERT`, `UPDATE`, `DELETE`, `EXPORT DATABASE`, `IMPORT DATABASE`, `CHECKPOINT`, or `BACKUP`.
        command: &'static str,
        /// Schema of the table or view.
        schema: Option<Name>,
        /// The table or view that it is about; NULL if it is about several, or about a query.
        relation: Option<Name>,
        /// The index that is built at the moment.
        index: Option<Name>,
        /// What it does at the moment. Each phase counts anew.
        phase: &'static str,
        /// What the phase counts: `rows`, `bytes`, or `partitions`.
        unit: &'static str,
        /// How many of them are done; never falls within a phase.
        done: u64,
        /// How many there are; NULL if that is not known.
        total: Option<u64>,
        /// `done` of `total` in percent.
        percent: Option<f64>,
        /// Rows since the work began, all phases together.
        rows: u64,
        /// Bytes read or written since the work began.
        bytes: u64,
        /// Rows that WHERE of COPY FROM has left out; NULL for all else.
        rows_excluded: Option<u64>,
        /// When the work began.
        started: Moment,
        /// When the phase began.
        phase_started: Moment,
    }
}

/// A work of this database.
pub(crate) struct Found {
    pub(crate) shown: Shown,
    /// The session that it is done for.
    pub(crate) session: Option<u32>,
    /// Whether the asking role may see what it is about.
    pub(crate) is_visible: bool,
}

/// The works of this database and its sessions, in the order in which they began.
pub(crate) fn found(context: &Context) -> Vec<Found> {
    let works = progress::all();
    if works.is_empty() {
        return Vec::new();
    }
    let sessions = context.live.accounts().sessions;
    let own = context.live.log().map(|log| log.database);
    let of = |shown: Shown| {
        let session =
            sessions.iter().find(|share| share.account != 0 && share.account == shown.account);
        let is_own = shown.database.is_some() && shown.database == own;
        // A session of another database may copy this one's folder, which is no affair of this one.
        let is_here = session.is_some() || (is_own && shown.account == 0);
        is_here.then(|| Found {
            session: session.map(|share| share.session),
            is_visible: session
                .is_none_or(|share| context.is_superuser() || share.user == context.session.user),
            shown,
        })
    };
    works.into_iter().filter_map(of).collect()
}

fn works(context: &Context) -> Vec<Progress> {
    let row = |found: Found| {
        let Found { shown, session, .. } = found;
        let percent = shown.percent();
        let is_copy_from = shown.kind.is_copy_from();
        let (schema, relation) = shown.object.map(|object| (object.schema, object.name)).unzip();
        Progress {
            work: shown.number,
            part_of: shown.part_of,
            session,
            command: shown.kind.command(),
            schema: schema.map(Name),
            relation: relation.map(Name),
            index: shown.index.map(|index| Name(index.name)),
            phase: shown.phase.name(),
            unit: shown.unit.name(),
            done: shown.done,
            total: shown.total,
            percent,
            rows: shown.rows,
            bytes: shown.bytes,
            rows_excluded: is_copy_from.then_some(shown.excluded),
            started: Moment(shown.began_us),
            phase_started: Moment(shown.stage_began_us),
        }
    };
    found(context).into_iter().filter(|found| found.is_visible).map(row).collect()
}

/// `pg_stat_progress_copy.type` of a COPY.
pub(crate) fn copy_type(kind: Kind) -> &'static str {
    match kind {
        Kind::CopyFromFile | Kind::CopyToFile => "FILE",
        _ => "PIPE",
    }
}

/// The oid of what a work is about; 0 for nothing that has one.
pub(crate) fn oid(object: Option<&Object>) -> u32 {
    object.map_or(0, |object| object.oid)
}
