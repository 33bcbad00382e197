//! A bound statement, as the cache keeps it.

use std::sync::Arc;

use halcyon_txn::Mode;

use crate::change_over::ChangeOver;
use crate::companions::Companions;
use crate::early::EarlyLocks;
use crate::explain::Explaining;
use crate::stretch::Stretch;
use halcyon_catalog::Table;
use halcyon_copy::CopyPlan;
use halcyon_ddl::Ddl;
use halcyon_dialect::locking::Patience;
use halcyon_exec::analytic::AnalyticalPlan;
use halcyon_exec::deferrable::DeferrableCheck;
use halcyon_exec::dml::WritePlan;
use halcyon_exec::point::PointPlan;
use halcyon_plan::env::{Env, Need};
use halcyon_plan::phases::PlanningTimes;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::hints::Hints;
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::stack::drop_deep;
use halcyon_sql::types::SqlType;
use halcyon_sql::utility::Utility;

/// A point plan or a command of a text so short is dropped on any stack: neither stands on views.
const SHORT_BYTES: usize = 256;

/// A statement that is ready to run any number of times at one catalog version.
pub struct Prepared {
    /// The text it was made from.
    pub text: Arc<str>,
    /// The catalog that it holds for, by [`Catalog::plan_version`](halcyon_catalog::Catalog::plan_version).
    pub catalog_version: u64,
    /// The role whose rights were looked at when it was bound.
    pub role: Box<str>,
    /// What runs.
    pub plan: Plan,
    /// Types of `$1`, `$2`, ….
    pub params: Vec<SqlType>,
    /// Columns of the result; empty if there is none.
    pub columns: Arc<[ResultColumn]>,
    /// First word(s) of the command tag: `SELECT`, `INSERT`, `CREATE TABLE`, ….
    pub tag: &'static str,
    /// Whether other sessions may run it: it shows nothing of the session that bound it.
    pub shareable: bool,
    /// SELECT … FOR UPDATE: what it reads is locked exclusively.
    pub locks_rows: bool,
    /// Whether it consists of one call of a function that waits, before which it does nothing that others can see.
    pub waits_once: bool,
    /// How long it waits for locks: NOWAIT and SKIP LOCKED.
    pub patience: Patience,
    /// How long planning took.
    pub planning: PlanningTimes,
    /// How long it has run of late.
    pub stretch: Stretch,
    /// Whether it may begin anew as a scan, and did so of late.
    pub change_over: ChangeOver,
    /// Tables that it locks exclusively at once in transaction blocks.
    pub early: EarlyLocks,
    /// Tables that transaction blocks which begin with the statement lock with it.
    pub companions: Companions,
    /// Object ids of the tables and views that its text names.
    pub objects: Box<[u32]>,
    /// The workload class that its hint names.
    pub workload_class: Option<Arc<str>>,
    /// Names of its hints that mean nothing here.
    pub unknown_hints: Box<[String]>,
}

impl Drop for Prepared {
    /// The last owner may have a small stack, or be another session that makes room in the cache.
    fn drop(&mut self) {
        let plan = std::mem::replace(&mut self.plan, Plan::Empty);
        match plan {
            Plan::Empty | Plan::Lines(_) => {}
            Plan::Point(_) | Plan::Utility(_) if self.text.len() < SHORT_BYTES => {}
            plan => drop_deep(plan),
        }
    }
}

/// What a statement has to acquire before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nothing: the statement concerns the session alone.
    Session,
    /// The right to change the catalog, which one transaction at a time has.
    Catalog,
    /// Locks on the partitions that [`Prepared::needs`] names.
    Locks,
    /// A cut through its tables, or locks if it stands in a transaction that writes.
    Snapshot,
}

impl Prepared {
    /// Notes what hints ask for, also at the statement that EXPLAIN explains.
    pub(crate) fn take(&mut self, hints: Hints) {
        self.workload_class = hints.workload_class.map(Arc::from);
        self.unknown_hints = hints.unknown.into();
        if let Plan::Explain { of, .. } = &mut self.plan {
            of.workload_class = self.workload_class.clone();
        }
    }

    /// 01000: what is told beside the statement's result, of hints that mean nothing here.
    pub fn warnings(&self) -> impl Iterator<Item = SqlError> {
        self.unknown_hints.iter().map(|name| {
            let message = format!("hint \"{name}\" is not known and is passed over");
            SqlError::new(SqlState::WARNING, message)
        })
    }

    /// The statement whose tables are to be acquired: the explained one of EXPLAIN, else this one.
    #[inline]
    pub fn subject(&self) -> &Prepared {
        match &self.plan {
            Plan::Explain { of, .. } => of,
            _ => self,
        }
    }

    /// Whether the plan holds for a catalog and a role. Rights change with the catalog's version, so
    /// the role may do now what the plan does; for any other the statement is bound again.
    #[inline]
    pub fn holds_for(&self, catalog_version: u64, role: &str) -> bool {
        self.catalog_version == catalog_version && *self.role == *role
    }

    /// Whether another plan of the statement gives rows of the same form for the same parameters.
    pub fn is_answered_by(&self, other: &Prepared) -> bool {
        let form = |prepared: &Prepared| {
            let columns = prepared.columns.iter();
            let form = |of: &ResultColumn| (of.name.clone(), of.ty, of.field.data_type().clone());
            columns.map(form).collect::<Vec<_>>()
        };
        self.params == other.params && form(self) == form(other)
    }

    /// What the statement has to acquire before it runs.
    #[inline]
    pub fn reach(&self) -> Reach {
        match &self.plan {
            Plan::Analytical(_) if !self.locks_rows => Reach::Snapshot,
            Plan::Point(_) | Plan::Analytical(_) | Plan::Write(_) | Plan::Copy(_) => Reach::Locks,
            // It looks up the statement that is explained.
            Plan::Explain { of, .. }
                if matches!(of.plan, Plan::Utility(Utility::Execute { .. })) =>
            {
                Reach::Session
            }
            // Its lines name the locks.
            Plan::Explain { .. } => Reach::Locks,
            Plan::Ddl(_) => Reach::Catalog,
            Plan::Utility(_) | Plan::Lines(_) | Plan::Subscribe { .. } | Plan::Empty => {
                Reach::Session
            }
        }
    }

    /// Whether the statement reads rows by their keys and locks them only for as long as it reads them.
    #[inline]
    pub fn looks_up(&self) -> bool {
        matches!(&self.plan, Plan::Point(plan) if !plan.tables().is_empty()) && !self.locks_rows
    }

    /// Appends the locks that the statement takes unless it reads a cut.
    ///
    /// Errors: those of the expressions that say which partition of a table is meant.
    #[inline]
    pub fn needs(&self, env: &Env<'_>, needs: &mut Vec<Need>) -> Result<()> {
        let subject = self.subject();
        match &subject.plan {
            Plan::Point(plan) => plan.needs(env, needs)?,
            Plan::Analytical(plan) => plan.needs(env, needs)?,
            Plan::Write(plan) => plan.needs(env, needs)?,
            Plan::Copy(plan) => plan.needs(env, needs)?,
            _ => {}
        }
        if subject.locks_rows {
            needs.iter_mut().for_each(|need| need.mode = Mode::Exclusive);
        }
        Ok(())
    }
}

/// What runs.
pub enum Plan {
    /// Row at a time over bounded index lookups.
    Point(PointPlan),
    /// Vectorised over a snapshot.
    Analytical(AnalyticalPlan),
    /// INSERT, UPDATE, DELETE.
    Write(WritePlan),
    /// CREATE, ALTER, DROP, TRUNCATE, COMMENT, GRANT, REVOKE.
    Ddl(Ddl),
    /// COPY.
    Copy(CopyPlan),
    /// EXPLAIN of another plan.
    Explain {
        /// What is done and shown beside the plan.
        asked: Explaining,
        /// The plan explained.
        of: Box<Prepared>,
    },
    /// Transaction control, SET, SHOW, PREPARE: the session's own business.
    Utility(Utility),
    /// Text that was made when it was bound.
    Lines(Vec<String>),
    /// SUBSCRIBE.
    Subscribe {
        /// The materialized view.
        view: Arc<Table>,
        /// Behind which change it goes on; without, it begins with the view's rows.
        from: Option<u64>,
    },
    /// An empty text.
    Empty,
}

impl Plan {
    /// Whether it changes nothing, so that a snapshot serves it unless rows are to be locked.
    pub fn reads_only(&self) -> bool {
        matches!(self, Plan::Point(_) | Plan::Analytical(_))
    }

    /// Which executor runs it, for the system views.
    pub fn executor(&self) -> &'static str {
        match self {
            Plan::Point(_) => "point",
            Plan::Analytical(_) => "analytical",
            Plan::Write(_) => "write",
            Plan::Ddl(_) => "ddl",
            Plan::Copy(_) => "copy",
            Plan::Explain { of, .. } => of.plan.executor(),
            Plan::Subscribe { .. } => "subscription",
            Plan::Utility(_) | Plan::Lines(_) | Plan::Empty => "session",
        }
    }

    /// DEFERRABLE constraints that it may break and does not judge.
    pub fn deferrable(&self) -> &[DeferrableCheck] {
        match self {
            Plan::Write(plan) => plan.deferrable(),
            Plan::Copy(plan) => plan.deferrable(),
            _ => &[],
        }
    }

    /// The tables whose partitions it locks or reads, in the order its needs refer to.
    pub fn tables(&self) -> &[Arc<Table>] {
        match self {
            Plan::Point(plan) => plan.tables(),
            Plan::Analytical(plan) => plan.tables(),
            Plan::Write(plan) => plan.tables(),
            Plan::Copy(plan) => plan.tables(),
            _ => &[],
        }
    }
}
