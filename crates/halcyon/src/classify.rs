//! The workload class of a session's statements: found by the mappings, kept until something changes that they look
//! at, and restricted by a hint for one statement (P4 §2; HANA's mappings are looked at when a client connects, these
//! before every statement).

use std::sync::Arc;

use halcyon_base::clock::{self, Moment};
use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_workload::{ClassId, Context, Object, Resolution, Snapshot};

use crate::activity::{ClassShown, Watch};
use crate::inheritance;
use crate::session::Session;
use crate::session_class::SessionClass;
use crate::workload::InClass;
use crate::workload_watch;

impl Session {
    /// Asks whether the session's workload class has room for a connection more.
    ///
    /// Errors: 53300 if it has as many as its CONNECTION LIMIT says.
    pub fn require_connection(&mut self) -> Result<()> {
        self.classify(&[]);
        self.connection = Some(self.shared.workload.connect(self.class.class)?);
        Ok(())
    }

    /// Finds the class of the statement that is about to run.
    #[inline]
    pub(crate) fn choose_class(&mut self, prepared: &Prepared) {
        // Roles may have changed with the catalog, and rights to classes.
        let is_old = self.class.is_measured && self.class.catalog != self.shared.version();
        if is_old || self.class.epoch != self.shared.workload.epoch() || self.names_others(prepared)
        {
            self.classify(&prepared.objects);
        }
        if prepared.workload_class.is_some() {
            self.restrict_class(prepared);
        }
    }

    /// Makes the statement that begins one of its class, if anybody asks for such figures.
    #[inline]
    pub(crate) fn begin_in_class(&self, prepared: &Prepared, watch: &Watch) -> Option<InClass> {
        // A look-up is over in a microsecond, of which measuring takes a tenth: of these a sample will do, unless
        // something depends on every one.
        let is_measured = watch.is_timed
            || self.class.is_gated
            || match prepared.plan {
                Plan::Analytical(_) => true,
                Plan::Point(_) => false,
                _ => self.class.is_measured,
            };
        let (workload, account) = (&self.shared.workload, self.account.id());
        let class = self.class.class;
        let arrived = self.arrival.take().unwrap_or(watch.began).min(watch.began);
        let answers = || self.answers.clone();
        is_measured.then(|| InClass::begin(workload, class, arrived, account, answers()))
    }

    /// Has the latency of statements counted until [`Session::answered`] is called behind their answers.
    pub fn tells_answers(&mut self) {
        self.answers = Some(Arc::default());
    }

    /// Notes when the message arrived that the next statement comes from.
    #[inline]
    pub fn arrived(&mut self, moment: Moment) {
        self.arrival.set(Some(moment));
    }

    /// Notes that all answers so far have been handed to the network.
    #[inline]
    pub fn answered(&self) {
        let Some(answers) = self.answers.as_ref().filter(|answers| answers.is_any_unsent()) else {
            return;
        };
        let (workload, now) = (&self.shared.workload, clock::now());
        for (class, arrived) in answers.take() {
            workload.latencies.note(class, workload.now_ns(), now.since(arrived));
        }
    }

    /// Whether the statement names other tables and views that mappings ask for than the one before.
    fn names_others(&self, prepared: &Prepared) -> bool {
        let SessionClass { mapped, objects, .. } = &self.class;
        !mapped.is_empty() && named_of(mapped, &prepared.objects).ne(objects.iter().copied())
    }

    /// Finds the class of a statement that names tables and views by their object ids.
    #[cold]
    fn classify(&mut self, named: &[u32]) {
        // A snapshot that comes meanwhile is of a later epoch, and is looked at before the next statement.
        let epoch = self.shared.workload.epoch();
        let snapshot = self.shared.workload.snapshot();
        let catalog = self.shared.version();
        let mapped = self.mapped_objects(&snapshot);
        let objects: Vec<u32> = named_of(&mapped, named).collect();
        let resolution = self.resolution(&snapshot, &mapped, &objects);
        let class = resolution.class;
        let limits = Arc::new(snapshot.class(class).limits.clone());
        let found = SessionClass::of(&snapshot, class, limits, resolution);
        self.class = SessionClass { epoch, catalog, mapped, objects, ..found };
        if self.class.is_measured {
            self.shared.workload.steward.start(|| {
                inheritance::begin(&self.shared);
                workload_watch::Watch::over(&self.shared)
            });
        }
        self.take_place();
    }

    /// The tables and views that mappings ask for and the catalog has.
    fn mapped_objects(&self, snapshot: &Snapshot) -> Arc<[(u32, Object)]> {
        let catalog = self.shared.catalog();
        let found = snapshot.objects().filter_map(|object| {
            let relations = &catalog.schemas.get(&*object.schema)?.relations;
            Some((relations.get(&*object.name)?.oid()?, object))
        });
        found.collect()
    }

    /// What the mappings say of a statement of the session that names some of the objects they ask for.
    fn resolution(
        &self,
        snapshot: &Snapshot,
        mapped: &[(u32, Object)],
        named: &[u32],
    ) -> Resolution {
        if snapshot.is_plain() {
            return snapshot.resolve(&Context::default());
        }
        let variable = |name: &str| self.settings.changed(&format!("session_context.{name}"));
        let (user, catalog) = (self.vars.user.as_str(), self.shared.catalog());
        let roles = catalog.roles.keys();
        let groups: Vec<String> =
            roles.filter(|role| catalog.is_member(user, role)).cloned().collect();
        let application = Some(self.in_force.application.as_str()).filter(|name| !name.is_empty());
        let named = mapped.iter().filter(|(oid, _)| named.contains(oid));
        let objects: Vec<Object> = named.map(|(_, object)| object.clone()).collect();
        let context = Context {
            user: Some(user),
            groups: &groups,
            application_name: variable("application").or(application),
            application_user: variable("applicationuser"),
            application_component: variable("applicationcomponent"),
            application_component_type: variable("applicationcomponenttype"),
            application_source: variable("applicationsource"),
            client: variable("client"),
            tenant: variable("tenant"),
            xs_user: variable("xs_applicationuser"),
            objects: &objects,
            database: Some(&self.vars.database),
        };
        let may_use =
            |class: ClassId| catalog.may_use_workload_class(user, &snapshot.class(class).name);
        snapshot.resolve_for(&context, may_use)
    }

    /// Restricts the class as the statement's hint asks for, for this statement alone.
    #[cold]
    fn restrict_class(&mut self, prepared: &Prepared) {
        let Some(name) = &prepared.workload_class else { return };
        let snapshot = self.shared.workload.snapshot();
        let hinted = snapshot.by_name(name).filter(|class| class.enabled);
        let Some(hinted) = hinted else {
            let message = format!("workload class \"{name}\" does not exist, its hint is ignored");
            return self.notice(SqlError::new(SqlState::WARNING, message));
        };
        let base = self.class.class;
        let limits = Arc::new(snapshot.restrict(base, hinted.id));
        // Lowering a statement needs no right: it is counted to the class that it names.
        let counted = match hinted.limits.priority <= self.class.limits.priority
            || self.catalog.may_use_workload_class(&self.vars.user, &hinted.name)
        {
            true => hinted.id,
            false => base,
        };
        let resolution = Resolution::clone(&self.class.resolution);
        self.class = SessionClass::of(&snapshot, counted, limits, resolution);
        self.take_place();
    }

    /// Tells executors and other sessions of the class.
    fn take_place(&mut self) {
        self.vars.placement = self.class.placement.clone();
        self.vars.long_placement = self.class.long.clone();
        let SessionClass { class, limits, resolution, .. } = &self.class;
        let (limits, resolution) = (Arc::clone(limits), Arc::clone(resolution));
        self.entry.set_class(ClassShown { class: *class, limits, resolution });
    }
}

/// The named tables and views that mappings ask for.
fn named_of(mapped: &[(u32, Object)], named: &[u32]) -> impl Iterator<Item = u32> {
    named.iter().copied().filter(|oid| mapped.iter().any(|(asked, _)| asked == oid))
}
