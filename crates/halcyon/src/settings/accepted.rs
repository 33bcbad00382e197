//! Settings of PostgreSQL that tools set and show, and that have no effect here.
//!
//! Each accepts what PostgreSQL accepts, SHOW returns what was SET, and `pg_settings` lists it with
//! its default there. Settings with an effect stand in [`super::registry`]. Settings that
//! PostgreSQL fixes at its start cannot be set here either.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Facts;
use super::kind::{Bounds, KILOBYTE, MILLISECOND, SettingKind};
use super::registry::{Home, InForce, Setting};

/// The heading of these settings in `pg_settings`.
pub(crate) const CATEGORY: &str = "Without Effect";

const PURPOSE: &str = "PostgreSQL's, without effect here.";

const fn session(name: &'static str, kind: SettingKind<InForce>) -> Setting {
    let home = Home::Session(kind);
    Setting { name, purpose: PURPOSE, category: CATEGORY, reported_as: None, home }
}

const fn switch(name: &'static str, default: bool) -> Setting {
    session(name, SettingKind::Bool { default, apply: |_, _| () })
}

const fn number(name: &'static str, default: i64, bounds: RangeInclusive<i64>) -> Setting {
    session(name, SettingKind::Number { default, bounds, apply: |_, _| () })
}

/// A setting for a size in bytes; a bare number counts kilobytes.
const fn size(name: &'static str, default: u64) -> Setting {
    let bounds = Bounds { least: 0, most: 1 << 60, zero: None };
    session(name, SettingKind::Size { default, unit: KILOBYTE, bounds, apply: |_, _| () })
}

/// A setting for a time in milliseconds.
const fn time(name: &'static str, default: u64) -> Setting {
    let bounds = Bounds { least: 0, most: 2_147_483_647_000, zero: None };
    let default = Duration::from_millis(default);
    session(name, SettingKind::Time { default, unit: MILLISECOND, bounds, apply: |_, _| () })
}

const fn words(
    name: &'static str,
    default: &'static str,
    spellings: &'static [(&'static str, &'static str)],
) -> Setting {
    session(name, SettingKind::Word { default, spellings, apply: |_, _| () })
}

const fn text(name: &'static str, default: &'static str) -> Setting {
    let check = |text: &str| Ok(text.to_owned());
    session(name, SettingKind::Text { default, check, apply: |_, _| () })
}

const fn fixed(name: &'static str, show: fn(&Facts) -> &str) -> Setting {
    let home = Home::Fact { type_name: "string", show };
    Setting { name, purpose: PURPOSE, category: CATEGORY, reported_as: None, home }
}

/// All of these settings, in alphabetical order.
#[rustfmt::skip]
pub(crate) static ACCEPTED: &[Setting] = &[
    switch("allow_system_table_mods", false),
    fixed("archive_mode", |_| "off"),
    switch("array_nulls", true),
    fixed("autovacuum", |_| "on"),
    number("backend_flush_after", 0, 0..=256),
    words("backslash_quote", "safe_encoding", &[("on", "on"), ("off", "off"), ("safe_encoding", "safe_encoding")]),
    fixed("bonjour", |_| "off"),
    switch("check_function_bodies", true),
    number("client_connection_check_interval", 0, 0..=2_147_483_647),
    fixed("cluster_name", |_| ""),
    number("commit_delay", 0, 0..=100_000),
    number("commit_siblings", 5, 0..=1_000),
    words("compute_query_id", "auto", &[("auto", "auto"), ("regress", "regress"), ("on", "on"), ("off", "off")]),
    fixed("config_file", |_| ""),
    words("constraint_exclusion", "partition", &[("on", "on"), ("off", "off"), ("partition", "partition")]),
    text("cpu_index_tuple_cost", "0.005"),
    text("cpu_operator_cost", "0.0025"),
    text("cpu_tuple_cost", "0.01"),
    text("createrole_self_grant", ""),
    text("cursor_tuple_fraction", "0.1"),
    fixed("data_checksums", |_| "off"),
    fixed("data_directory", |_| ""),
    fixed("data_directory_mode", |_| "0700"),
    time("deadlock_timeout", 1000),
    number("debug_discard_caches", 0, 0..=5),
    switch("debug_pretty_print", true),
    switch("debug_print_parse", false),
    switch("debug_print_plan", false),
    switch("debug_print_rewritten", false),
    number("default_statistics_target", 100, 1..=10_000),
    text("default_table_access_method", "heap"),
    text("default_tablespace", ""),
    text("default_text_search_config", "pg_catalog.simple"),
    text("default_toast_compression", "pglz"),
    switch("default_transaction_deferrable", false),
    text("dynamic_library_path", "$libdir"),
    size("effective_cache_size", 4194304 << 10),
    number("effective_io_concurrency", 1, 0..=1_000),
    switch("enable_async_append", true),
    switch("enable_bitmapscan", true),
    switch("enable_gathermerge", true),
    switch("enable_hashagg", true),
    switch("enable_hashjoin", true),
    switch("enable_incremental_sort", true),
    switch("enable_indexonlyscan", true),
    switch("enable_indexscan", true),
    switch("enable_material", true),
    switch("enable_memoize", true),
    switch("enable_mergejoin", true),
    switch("enable_nestloop", true),
    switch("enable_parallel_append", true),
    switch("enable_parallel_hash", true),
    switch("enable_partition_pruning", true),
    switch("enable_partitionwise_aggregate", false),
    switch("enable_partitionwise_join", false),
    switch("enable_seqscan", true),
    switch("enable_sort", true),
    switch("enable_tidscan", true),
    switch("escape_string_warning", true),
    fixed("event_source", |_| "PostgreSQL"),
    switch("exit_on_error", false),
    fixed("external_pid_file", |_| ""),
    number("from_collapse_limit", 8, 1..=2_147_483_647),
    fixed("fsync", |_| "on"),
    fixed("full_page_writes", |_| "on"),
    switch("geqo", true),
    number("geqo_threshold", 12, 2..=2_147_483_647),
    number("gin_fuzzy_search_limit", 0, 0..=2_147_483_647),
    size("gin_pending_list_limit", 4096 << 10),
    text("hash_mem_multiplier", "2"),
    fixed("hba_file", |_| ""),
    fixed("hot_standby", |_| "on"),
    fixed("huge_pages", |_| "off"),
    text("icu_validation_level", "warning"),
    switch("jit", false),
    text("jit_above_cost", "100000"),
    text("jit_inline_above_cost", "500000"),
    text("jit_optimize_above_cost", "500000"),
    number("join_collapse_limit", 8, 1..=2_147_483_647),
    text("lc_messages", "C.UTF-8"),
    text("lc_monetary", "C.UTF-8"),
    text("lc_numeric", "C.UTF-8"),
    text("lc_time", "C.UTF-8"),
    fixed("listen_addresses", |_| ""),
    switch("lo_compat_privileges", false),
    text("local_preload_libraries", ""),
    fixed("log_connections", |_| "off"),
    fixed("log_disconnections", |_| "off"),
    switch("log_duration", false),
    words("log_error_verbosity", "default", &[("terse", "terse"), ("default", "default"), ("verbose", "verbose")]),
    switch("log_executor_stats", false),
    fixed("log_line_prefix", |_| "%m [%p] "),
    switch("log_lock_waits", false),
    number("log_min_duration_sample", -1, -1..=2_147_483_647),
    number("log_min_duration_statement", -1, -1..=2_147_483_647),
    text("log_min_error_statement", "error"),
    text("log_min_messages", "warning"),
    switch("log_parser_stats", false),
    switch("log_planner_stats", false),
    words("log_statement", "none", &[("none", "none"), ("ddl", "ddl"), ("mod", "mod"), ("all", "all")]),
    switch("log_statement_stats", false),
    number("log_temp_files", -1, -1..=2_147_483_647),
    fixed("log_timezone", |_| "UTC"),
    fixed("logging_collector", |_| "off"),
    size("logical_decoding_work_mem", 65536 << 10),
    number("maintenance_io_concurrency", 10, 0..=1_000),
    size("maintenance_work_mem", 65536 << 10),
    fixed("max_connections", |_| "100"),
    fixed("max_function_args", |_| "100"),
    fixed("max_locks_per_transaction", |_| "64"),
    number("max_parallel_maintenance_workers", 2, 0..=1_024),
    number("max_parallel_workers", 8, 0..=1_024),
    number("max_parallel_workers_per_gather", 2, 0..=1_024),
    fixed("max_prepared_transactions", |_| "0"),
    fixed("max_replication_slots", |_| "0"),
    size("max_stack_depth", 2048 << 10),
    fixed("max_wal_senders", |_| "0"),
    fixed("max_worker_processes", |_| "8"),
    size("min_parallel_index_scan_size", 512 << 10),
    size("min_parallel_table_scan_size", 8192 << 10),
    switch("parallel_leader_participation", true),
    text("parallel_setup_cost", "1000"),
    text("parallel_tuple_cost", "0.1"),
    words("password_encryption", "scram-sha-256", &[("scram-sha-256", "scram-sha-256")]),
    words("plan_cache_mode", "auto", &[("auto", "auto"), ("force_generic_plan", "force_generic_plan"), ("force_custom_plan", "force_custom_plan")]),
    fixed("port", |_| "5432"),
    switch("quote_all_identifiers", false),
    text("random_page_cost", "4"),
    text("recursive_worktable_factor", "10"),
    fixed("restart_after_crash", |_| "on"),
    fixed("segment_size", |_| "1GB"),
    text("seq_page_cost", "1"),
    text("session_preload_libraries", ""),
    words("session_replication_role", "origin", &[("origin", "origin"), ("replica", "replica"), ("local", "local")]),
    fixed("shared_buffers", |_| "128MB"),
    fixed("shared_preload_libraries", |_| ""),
    fixed("ssl", |_| "off"),
    fixed("ssl_library", |_| ""),
    words("stats_fetch_consistency", "cache", &[("none", "none"), ("cache", "cache"), ("snapshot", "snapshot")]),
    fixed("superuser_reserved_connections", |_| "0"),
    switch("synchronize_seqscans", true),
    fixed("synchronous_standby_names", |_| ""),
    number("tcp_keepalives_count", 0, 0..=2_147_483_647),
    number("tcp_keepalives_idle", 0, 0..=2_147_483_647),
    number("tcp_keepalives_interval", 0, 0..=2_147_483_647),
    number("tcp_user_timeout", 0, 0..=2_147_483_647),
    size("temp_buffers", 8192 << 10),
    text("temp_tablespaces", ""),
    text("timezone_abbreviations", "Default"),
    switch("track_activities", true),
    fixed("track_activity_query_size", |_| "1kB"),
    fixed("track_commit_timestamp", |_| "off"),
    switch("track_counts", true),
    words("track_functions", "none", &[("none", "none"), ("pl", "pl"), ("all", "all")]),
    switch("track_io_timing", false),
    switch("transaction_deferrable", false),
    switch("transform_null_equals", false),
    fixed("unix_socket_directories", |_| ""),
    number("vacuum_cost_delay", 0, 0..=100),
    number("vacuum_cost_limit", 200, 1..=10_000),
    number("vacuum_failsafe_age", 1_600_000_000, 0..=2_100_000_000),
    number("vacuum_freeze_min_age", 50_000_000, 0..=1_000_000_000),
    number("vacuum_freeze_table_age", 150_000_000, 0..=2_000_000_000),
    fixed("wal_block_size", |_| "8192"),
    fixed("wal_buffers", |_| "4MB"),
    switch("wal_compression", false),
    fixed("wal_level", |_| "replica"),
    fixed("wal_segment_size", |_| "16MB"),
    size("wal_skip_threshold", 2048 << 10),
    size("work_mem", 4096 << 10),
    words("xmlbinary", "base64", &[("base64", "base64"), ("hex", "hex")]),
    words("xmloption", "content", &[("content", "content"), ("document", "document")]),
    switch("zero_damaged_pages", false),
];

#[cfg(test)]
mod tests {
    use super::super::registry::REGISTRY;
    use super::*;

    #[test]
    fn they_stand_in_order_and_none_has_an_effect_elsewhere() {
        assert!(ACCEPTED.is_sorted_by(|a, b| a.name < b.name));
        for setting in ACCEPTED {
            let known = REGISTRY.iter().any(|other| other.name == setting.name);
            assert!(!known, "{} has an effect", setting.name);
            if let Home::Session(kind) = &setting.home {
                let default = kind.default();
                assert_eq!(kind.parse(setting.name, &default).expect(setting.name), default);
            }
        }
    }
}
