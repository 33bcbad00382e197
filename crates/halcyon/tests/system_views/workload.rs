//! Views of workload classes and mappings.

use halcyon::{Database, Session};

use super::{Look, run};

/// A database with classes and mappings whose every column differs from that of a class without settings.
fn defined() -> Session {
    let mut session = Database::in_memory().session();
    run(
        &mut session,
        "CREATE ROLE shop; CREATE ROLE clerk;
         CREATE WORKLOAD CLASS web SET 'PRIORITY' = 8, 'STATEMENT MEMORY LIMIT' = 2,
           'STATEMENT THREAD LIMIT' = '50%', 'TOTAL STATEMENT MEMORY LIMIT' = '512 MB',
           'TOTAL STATEMENT THREAD LIMIT' = 3, 'STATEMENT TIMEOUT' = '90s',
           'WRITE TRANSACTION LIFETIME' = 5, 'IDLE CURSOR LIFETIME' = '90s';
         CREATE WORKLOAD CLASS shield PARENT web SET 'ADMISSION CONTROL REJECT CPU THRESHOLD' = 95,
           'ADMISSION CONTROL QUEUE CPU THRESHOLD' = 85,
           'ADMISSION CONTROL REJECT MEMORY THRESHOLD' = 96,
           'ADMISSION CONTROL QUEUE MEMORY THRESHOLD' = 86, 'CONCURRENCY LIMIT' = 4,
           'QUEUE LIMIT' = 200, 'QUEUE TIMEOUT' = '10min', 'CONNECTION LIMIT' = 7,
           'LATENCY TARGET P50' = '10ms', 'LATENCY TARGET P95' = '20ms',
           'LATENCY TARGET P99' = '50ms', 'LATENCY TARGET P999' = '0.2s',
           'CACHE CLASS' = 'POLLUTING', 'FLOOR' = '5%', 'AUTO CLASS' = 'web';
         ALTER WORKLOAD CLASS shield ADD RULE long WHEN STATEMENT CPU TIME > 30s THEN SWITCH TO web;
         ALTER WORKLOAD CLASS shield ADD RULE big WHEN STATEMENT MEMORY >= 2GB THEN LOG DRY RUN;
         GRANT USAGE ON WORKLOAD CLASS shield TO shop, clerk;
         ALTER WORKLOAD CLASS shield DISABLE;
         CREATE WORKLOAD MAPPING m WORKLOAD CLASS web SET 'USER NAME' = 'shop', 'APPLICATION NAME' = 'a%',
           'SCHEMA NAME' = 's', 'OBJECT NAME' = 'o', 'CLIENT' = '100' WITH WILDCARD;
         CREATE WORKLOAD MAPPING n WORKLOAD CLASS shield SET 'USERGROUP NAME' = 'clerk',
           'XS APPLICATION USER NAME' = 'x', 'APPLICATION USER NAME' = 'u',
           'APPLICATION COMPONENT NAME' = 'c', 'APPLICATION COMPONENT TYPE' = 't',
           'APPLICATION SOURCE' = 'f', 'DATABASE NAME' = 'd', 'APPLICATION TENANT NAME' = 'e';
         ALTER WORKLOAD MAPPING n DISABLE",
    );
    session
}

fn sees(look: &mut Look, of: &str, values: &[(&'static str, &str)]) {
    let mut session = defined();
    for (column, value) in values {
        assert_eq!(look.at(&mut session, column, of), *value, "{column}");
    }
}

pub(super) fn classes_of_hana(look: &mut Look) {
    let of_web = [
        ("workload_class_name", "web"),
        ("priority", "8"),
        ("statement_memory_limit", "2"),
        ("statement_memory_limit_unit", "GB"),
        ("statement_thread_limit", "50"),
        ("statement_thread_limit_unit", "PERCENT"),
        ("total_statement_memory_limit", "512"),
        ("total_statement_memory_limit_unit", "MB"),
        ("total_statement_thread_limit", "3"),
        ("total_statement_thread_limit_unit", "THREADS"),
        ("statement_timeout", "90"),
        ("write_transaction_lifetime", "5"),
        ("idle_cursor_lifetime", "1.5"),
    ];
    sees(look, "workload_class_name = 'web'", &of_web);
    let of_shield = [
        ("parent_workload_class_name", "web"),
        ("admission_control_reject_cpu_threshold", "95"),
        ("admission_control_queue_cpu_threshold", "85"),
        ("admission_control_reject_memory_threshold", "96"),
        ("admission_control_queue_memory_threshold", "86"),
        ("is_enabled", "false"),
    ];
    sees(look, "workload_class_name = 'shield'", &of_shield);
}

pub(super) fn classes_of_ours(look: &mut Look) {
    let of_shield = [
        ("latency_target_p50", "10"),
        ("latency_target_p95", "20"),
        ("latency_target_p99", "50"),
        ("latency_target_p999", "200"),
        ("concurrency_limit", "4"),
        ("queue_limit", "200"),
        ("queue_timeout", "600"),
        ("connection_limit", "7"),
        ("cache_class", "POLLUTING"),
        ("floor", "5"),
        ("auto_class", "web"),
        (
            "rules",
            "long WHEN STATEMENT CPU TIME > 30s THEN SWITCH TO \"web\"\n\
             big WHEN STATEMENT MEMORY >= 2GB THEN LOG DRY RUN",
        ),
        ("granted_to", "shop, clerk"),
    ];
    sees(look, "workload_class_name = 'shield'", &of_shield);
}

pub(super) fn mappings(look: &mut Look) {
    let of_m = [
        ("workload_mapping_name", "m"),
        ("workload_class_name", "web"),
        ("user_name", "shop"),
        ("application_name", "a%"),
        ("schema_name", "s"),
        ("object_name", "o"),
        ("client", "100"),
        ("wildcard", "%"),
    ];
    sees(look, "workload_mapping_name = 'm'", &of_m);
    let of_n = [
        ("usergroup_name", "clerk"),
        ("xs_application_user_name", "x"),
        ("application_user_name", "u"),
        ("application_component_name", "c"),
        ("application_component_type", "t"),
        ("application_source", "f"),
        ("database_name", "d"),
        ("application_tenant_name", "e"),
        ("is_enabled", "false"),
    ];
    sees(look, "workload_mapping_name = 'n'", &of_n);
}
