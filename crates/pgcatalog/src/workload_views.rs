//! Views of schema `halcyon` about workload: what is defined. Columns that SAP HANA has carry HANA's names.

use std::time::Duration;

use halcyon_catalog::Catalog;
use halcyon_workload::{
    Class, ClassDefinition, Key, Machine, MappingDefinition, MappingKey, RuleDefinition, Snapshot,
};

use super::Context;
use super::view::{Name, system_views};

system_views! {
    /// One row per workload class, the built-in ones among them. Limits of memory and threads are the class's own as
    /// they were written, everything else is what is in force; NULL is no limit.
    workload_classes: WorkloadClass from workload_classes {
        /// Name of the class.
        workload_class_name: Name,
        /// The class above; NULL at the top of a tree.
        parent_workload_class_name: Option<Name>,
        /// 0 to 9, the higher the sooner; a parent's holds for its children.
        priority: u32,
        /// Memory that a statement may hold.
        statement_memory_limit: Option<f64>,
        /// GB, another unit of memory, or PERCENT of the database's.
        statement_memory_limit_unit: Option<String>,
        /// Worker threads that a statement has.
        statement_thread_limit: Option<f64>,
        /// THREADS, or PERCENT of the machine's.
        statement_thread_limit_unit: Option<String>,
        /// Memory that the statements of the class and of its children hold together.
        total_statement_memory_limit: Option<f64>,
        /// GB, another unit of memory, or PERCENT of the database's.
        total_statement_memory_limit_unit: Option<String>,
        /// Worker threads that the statements of the class and of its children have together.
        total_statement_thread_limit: Option<f64>,
        /// THREADS, or PERCENT of the machine's.
        total_statement_thread_limit_unit: Option<String>,
        /// The longest time that a statement takes, in seconds.
        statement_timeout: Option<f64>,
        /// The longest time that a transaction which has written stays open, in minutes.
        write_transaction_lifetime: Option<f64>,
        /// The longest time that an open cursor is not read, in minutes.
        idle_cursor_lifetime: Option<f64>,
        /// Percent of processor time in use from which new statements are rejected.
        admission_control_reject_cpu_threshold: Option<u32>,
        /// Percent of processor time in use from which new statements queue.
        admission_control_queue_cpu_threshold: Option<u32>,
        /// Percent of memory in use from which new statements are rejected.
        admission_control_reject_memory_threshold: Option<u32>,
        /// Percent of memory in use from which new statements queue.
        admission_control_queue_memory_threshold: Option<u32>,
        /// Milliseconds within which half of the statements shall end.
        latency_target_p50: Option<f64>,
        /// Milliseconds within which 95 of 100 statements shall end.
        latency_target_p95: Option<f64>,
        /// Milliseconds within which 99 of 100 statements shall end.
        latency_target_p99: Option<f64>,
        /// Milliseconds within which 999 of 1,000 statements shall end.
        latency_target_p999: Option<f64>,
        /// Statements of the class that run at a time.
        concurrency_limit: Option<u32>,
        /// Statements of the class that wait for admission at a time.
        queue_limit: u32,
        /// The longest wait for admission, in seconds.
        queue_timeout: f64,
        /// Connections whose statements are in the class at a time.
        connection_limit: Option<u32>,
        /// Use of the processor's caches: POLLUTING, SENSITIVE or AUTO.
        cache_class: &'static str,
        /// Share of the workers' time that is kept for the class, in percent.
        floor: f64,
        /// The class to which statements go that are estimated to be long.
        auto_class: Option<Name>,
        /// Rules, as ADD RULE takes them, a line each.
        rules: Option<String>,
        /// Roles that may use the class by a hint or a rule, with commas between them.
        granted_to: Option<String>,
        /// Whether mappings and hints lead to the class.
        is_enabled: bool,
    }

    /// One row per workload mapping. It holds for sessions that have all the values which are not NULL.
    workload_mappings: WorkloadMapping from workload_mappings {
        /// Name of the mapping.
        workload_mapping_name: Name,
        /// The class that it leads to.
        workload_class_name: Name,
        /// The role that the session acts as.
        user_name: Option<String>,
        /// A role that this role is a member of.
        usergroup_name: Option<String>,
        /// `session_context.xs_applicationuser`.
        xs_application_user_name: Option<String>,
        /// `session_context.applicationuser`.
        application_user_name: Option<String>,
        /// Schema of the procedure or view that the statement names.
        schema_name: Option<String>,
        /// The procedure or view.
        object_name: Option<String>,
        /// `session_context.application`, else `application_name`.
        application_name: Option<String>,
        /// `session_context.applicationcomponent`.
        application_component_name: Option<String>,
        /// `session_context.applicationcomponenttype`.
        application_component_type: Option<String>,
        /// `session_context.applicationsource`.
        application_source: Option<String>,
        /// The database of the connection.
        database_name: Option<String>,
        /// `session_context.client`.
        client: Option<String>,
        /// `session_context.tenant`.
        application_tenant_name: Option<String>,
        /// The character that stands for any rest of a value; NULL if none does.
        wildcard: Option<String>,
        /// Whether the mapping is looked at.
        is_enabled: bool,
    }
}

fn workload_classes(context: &Context) -> Vec<WorkloadClass> {
    // Amounts are told as they are written, so the machine does not matter.
    let machine = Machine { threads: 1, memory_bytes: 1 << 30 };
    let catalog = context.live.newest(&context.catalog);
    let snapshot = Snapshot::new(&catalog.workload, &machine, None);
    let snapshot = snapshot.unwrap_or_else(|_| Snapshot::builtin(&machine));
    let row = |class: &Class| class_row(&catalog, &snapshot, class);
    snapshot.classes().map(row).collect()
}

fn class_row(catalog: &Catalog, snapshot: &Snapshot, class: &Class) -> WorkloadClass {
    let (definition, limits) = (catalog.workload.classes.get(&class.name), &class.limits);
    let name_of = |id| Name(snapshot.class(id).name.clone());
    let (statement_memory_limit, statement_memory_limit_unit) =
        amount(definition, Key::StatementMemoryLimit, "GB");
    let (statement_thread_limit, statement_thread_limit_unit) =
        amount(definition, Key::StatementThreadLimit, "THREADS");
    let (total_statement_memory_limit, total_statement_memory_limit_unit) =
        amount(definition, Key::TotalStatementMemoryLimit, "GB");
    let (total_statement_thread_limit, total_statement_thread_limit_unit) =
        amount(definition, Key::TotalStatementThreadLimit, "THREADS");
    let [p50, p95, p99, p999] = limits.targets.map(|target| scaled(target, 1e3));
    let percent = |threshold: Option<u8>| threshold.map(u32::from);
    let rules = definition.into_iter().flat_map(|class| &class.rules).map(rule_text);
    let grants = catalog.workload_grants.get(&class.name).into_iter().flatten();
    let grantees = grants.map(|grant| grant.grantee.clone());
    WorkloadClass {
        workload_class_name: Name(class.name.clone()),
        parent_workload_class_name: class.parent.map(name_of),
        priority: limits.priority.into(),
        statement_memory_limit,
        statement_memory_limit_unit,
        statement_thread_limit,
        statement_thread_limit_unit,
        total_statement_memory_limit,
        total_statement_memory_limit_unit,
        total_statement_thread_limit,
        total_statement_thread_limit_unit,
        statement_timeout: scaled(limits.statement_timeout, 1.0),
        write_transaction_lifetime: scaled(limits.write_transaction_lifetime, 1.0 / 60.0),
        idle_cursor_lifetime: scaled(limits.idle_cursor_lifetime, 1.0 / 60.0),
        admission_control_reject_cpu_threshold: percent(limits.reject_cpu),
        admission_control_queue_cpu_threshold: percent(limits.queue_cpu),
        admission_control_reject_memory_threshold: percent(limits.reject_memory),
        admission_control_queue_memory_threshold: percent(limits.queue_memory),
        latency_target_p50: p50,
        latency_target_p95: p95,
        latency_target_p99: p99,
        latency_target_p999: p999,
        concurrency_limit: limits.concurrency,
        queue_limit: limits.queue_limit,
        queue_timeout: limits.queue_timeout.as_secs_f64(),
        connection_limit: limits.connections,
        cache_class: limits.cache.name(),
        floor: f64::from(limits.floor_per_mille) / 10.0,
        auto_class: limits.auto_class.map(name_of),
        rules: joined(rules, "\n"),
        granted_to: joined(grantees, ", "),
        is_enabled: class.enabled,
    }
}

fn workload_mappings(context: &Context) -> Vec<WorkloadMapping> {
    let row = |mapping: &MappingDefinition| {
        let value = |key: MappingKey| mapping.settings.get(key.name()).cloned();
        WorkloadMapping {
            workload_mapping_name: Name(mapping.name.clone()),
            workload_class_name: Name(mapping.class.clone()),
            user_name: value(MappingKey::UserName),
            usergroup_name: value(MappingKey::UserGroupName),
            xs_application_user_name: value(MappingKey::XsApplicationUserName),
            application_user_name: value(MappingKey::ApplicationUserName),
            schema_name: value(MappingKey::SchemaName),
            object_name: value(MappingKey::ObjectName),
            application_name: value(MappingKey::ApplicationName),
            application_component_name: value(MappingKey::ApplicationComponentName),
            application_component_type: value(MappingKey::ApplicationComponentType),
            application_source: value(MappingKey::ApplicationSource),
            database_name: value(MappingKey::DatabaseName),
            client: value(MappingKey::Client),
            application_tenant_name: value(MappingKey::ApplicationTenantName),
            wildcard: mapping.wildcard.map(String::from),
            is_enabled: mapping.enabled,
        }
    };
    context.live.newest(&context.catalog).workload.mappings.values().map(row).collect()
}

/// A class's own setting as a number and its unit, which is `unit` if none is written.
fn amount(class: Option<&ClassDefinition>, key: Key, unit: &str) -> (Option<f64>, Option<String>) {
    let text = class.and_then(|class| class.settings.get(key.name())).map(|text| text.trim());
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let parts = text.map(|text| text.split_at(text.find(|c| !is_digit(c)).unwrap_or(text.len())));
    let Some((digits, written)) = parts else { return (None, None) };
    let written = match written.trim() {
        "" => unit.to_owned(),
        "%" => "PERCENT".to_owned(),
        other => other.to_uppercase(),
    };
    (digits.parse().ok(), Some(written))
}

/// A time in the unit of which `per_second` are a second.
fn scaled(time: Option<Duration>, per_second: f64) -> Option<f64> {
    time.map(|time| time.as_secs_f64() * per_second)
}

fn rule_text(rule: &RuleDefinition) -> String {
    let RuleDefinition { name, condition, action, dry_run } = rule;
    let dry_run = if *dry_run { " DRY RUN" } else { "" };
    format!("{name} WHEN {condition} THEN {action}{dry_run}")
}

fn joined(texts: impl Iterator<Item = String>, between: &str) -> Option<String> {
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(between))
}
