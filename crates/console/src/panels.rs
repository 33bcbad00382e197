//! The panels of the pages: which queries each shows, so that every viewer can run them elsewhere.
//!
//! The queries read system views alone. What a role may see there is the views' affair: the session that runs a
//! panel's queries is one of the viewer's role.

use serde_json::{Value as Json, json};

/// A panel: queries that are run together once a second while somebody looks at them.
pub(crate) struct Panel {
    pub name: &'static str,
    /// Names and texts.
    pub queries: &'static [(&'static str, &'static str)],
}

/// All panels.
pub(crate) const PANELS: &[Panel] = &[
    Panel {
        name: "overview",
        queries: &[
            ("classes", CLASS_STATISTICS),
            ("latency", CLASS_LATENCY),
            ("workers", WORKERS),
            (
                "accounts",
                "SELECT account, bytes, limit_bytes, refusals FROM halcyon.memory_accounts \
                 WHERE session IS NULL",
            ),
            (
                "log",
                "SELECT end_lsn, durable_lsn, checkpoint_lsn, bytes, files, commits, syncs, sync_ms, \
                 checkpointed, error FROM halcyon.log",
            ),
            ("sessions", "SELECT state, count(*) AS sessions FROM halcyon.sessions GROUP BY state"),
        ],
    },
    Panel {
        name: "sessions",
        queries: &[
            (
                "sessions",
                "SELECT session, role, application, client, state, transaction, started, \
                 transaction_started, statement_started, statement FROM halcyon.sessions \
                 ORDER BY session LIMIT 500",
            ),
            (
                "locks",
                "SELECT schema, relation, partition, partition_id, transaction, session, mode, \
                 granted FROM halcyon.locks WHERE partition_id IN \
                 (SELECT partition_id FROM halcyon.locks WHERE NOT granted) LIMIT 500",
            ),
            (
                "progress",
                "SELECT work, part_of, session, command, schema, relation, index, phase, unit, done, \
                 total, percent, started FROM halcyon.progress ORDER BY work LIMIT 200",
            ),
            (
                "queue",
                "SELECT connection_id, workload_class_name, user_name, enqueue_time, \
                 statement_string FROM halcyon.m_admission_control_queues LIMIT 200",
            ),
        ],
    },
    Panel {
        name: "views",
        queries: &[(
            "views",
            "SELECT schema, view, rows, bytes, map_bytes, events, event_ns_p50, event_ns_p99, \
             event_ns_max FROM halcyon.views ORDER BY schema, view LIMIT 200",
        )],
    },
    Panel {
        name: "statements",
        queries: &[(
            "statements",
            "SELECT statement, executor, calls, errors, rows, total_ms, mean_ms, max_ms, plan_hits, \
             plan_misses, last_miss FROM halcyon.statements ORDER BY total_ms DESC LIMIT 100",
        )],
    },
    Panel {
        name: "memory",
        queries: &[
            (
                "tables",
                "SELECT schema, relation, count(*) FILTER (WHERE index IS NULL) AS partitions, \
                 sum(rows) FILTER (WHERE index IS NULL) AS rows, \
                 sum(bytes) FILTER (WHERE index IS NULL) AS row_bytes, \
                 sum(bytes) FILTER (WHERE index IS NOT NULL) AS index_bytes, \
                 sum(free_slots) AS free_slots \
                 FROM halcyon.memory GROUP BY schema, relation ORDER BY sum(bytes) DESC LIMIT 200",
            ),
            (
                "accounts",
                "SELECT account, session, bytes, limit_bytes, refusals FROM halcyon.memory_accounts \
                 ORDER BY bytes DESC LIMIT 100",
            ),
        ],
    },
    Panel {
        name: "workload",
        queries: &[
            ("definitions", "SELECT * FROM halcyon.workload_classes ORDER BY workload_class_name"),
            ("mappings", "SELECT * FROM halcyon.workload_mappings ORDER BY workload_mapping_name"),
            ("classes", CLASS_STATISTICS),
            ("latency", CLASS_LATENCY),
            ("admission", "SELECT * FROM halcyon.m_admission_control_statistics"),
            ("controller", "SELECT * FROM halcyon.m_workload_controller"),
            (
                "events",
                "SELECT * FROM halcyon.m_admission_control_events ORDER BY event_time DESC LIMIT 50",
            ),
        ],
    },
    Panel { name: "machine", queries: &[("workers", WORKERS)] },
];

const CLASS_STATISTICS: &str = "SELECT workload_class_name, running_statements, statement_count, \
    error_count, busy_ms, ready_wait_p99_ms, used_memory, thread_limit \
    FROM halcyon.m_workload_class_statistics";

const CLASS_LATENCY: &str = "SELECT workload_class_name, statement_count, window_s, p50_ms, p95_ms, \
    p99_ms, p999_ms, target, attainment FROM halcyon.m_workload_class_latency";

const WORKERS: &str = "SELECT worker, plane, island, processors, state, session, tasks, suspensions, \
    busy_ms, run_delay_ms, longest_ms, sleeps FROM halcyon.workers ORDER BY worker";

/// The panel of a name.
pub(crate) fn panel(name: &str) -> Option<&'static Panel> {
    PANELS.iter().find(|panel| panel.name == name)
}

/// All panels with the texts of their queries, for the pages.
pub(crate) fn described() -> Json {
    let of = |panel: &Panel| {
        let queries: Json = panel
            .queries
            .iter()
            .map(|(name, sql)| ((*name).to_owned(), json!(sql)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        (panel.name.to_owned(), queries)
    };
    PANELS.iter().map(of).collect::<serde_json::Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon::Database;

    #[test]
    fn every_query_runs_for_a_superuser_and_reads_views_of_halcyon_alone() {
        let database = Database::in_memory();
        let mut session = database.session();
        for panel in PANELS {
            for (name, sql) in panel.queries {
                let ran = session.execute(*sql, &[]);
                assert!(ran.is_ok(), "{} {name}: {ran:?}", panel.name);
                let relations = sql.split("FROM ").skip(1);
                relations.for_each(|rest| assert!(rest.starts_with("halcyon."), "{sql}"));
            }
        }
    }
}
