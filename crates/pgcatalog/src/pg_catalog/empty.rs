//! Tables and views of `pg_catalog` that are always empty: Halcyon has no such objects. Tools join
//! with them all the same, so they have PostgreSQL's columns.

use crate::table::Def;
use crate::table::CatalogType::*;

/// The tables.
pub(crate) const TABLES: &[Def] = &[
    Def::empty("pg_inherits", &[
        ("inhrelid", Oid), ("inhparent", Oid), ("inhseqno", Int4),
        ("inhdetachpending", Bool),
    ]),
    Def::empty("pg_policy", &[
        ("oid", Oid), ("polname", Name), ("polrelid", Oid), ("polcmd", Char),
        ("polpermissive", Bool), ("polroles", OidArray), ("polqual", Text),
        ("polwithcheck", Text),
    ]),
    Def::empty("pg_trigger", &[
        ("oid", Oid), ("tgrelid", Oid), ("tgparentid", Oid), ("tgname", Name),
        ("tgfoid", Oid), ("tgtype", Int2), ("tgenabled", Char), ("tgisinternal", Bool),
        ("tgconstrrelid", Oid), ("tgconstrindid", Oid), ("tgconstraint", Oid),
        ("tgdeferrable", Bool), ("tginitdeferred", Bool), ("tgnargs", Int2),
        ("tgattr", Int2Vector), ("tgargs", Bytes), ("tgqual", Text), ("tgoldtable", Name),
        ("tgnewtable", Name),
    ]),
    Def::empty("pg_publication", &[
        ("oid", Oid), ("pubname", Name), ("pubowner", Oid), ("puballtables", Bool),
        ("pubinsert", Bool), ("pubupdate", Bool), ("pubdelete", Bool),
        ("pubtruncate", Bool), ("pubviaroot", Bool),
    ]),
    Def::empty("pg_publication_rel", &[
        ("oid", Oid), ("prpubid", Oid), ("prrelid", Oid), ("prqual", Text),
        ("prattrs", Int2Vector),
    ]),
    Def::empty("pg_publication_namespace", &[
        ("oid", Oid), ("pnpubid", Oid), ("pnnspid", Oid),
    ]),
    Def::empty("pg_subscription", &[
        ("oid", Oid), ("subdbid", Oid), ("subskiplsn", Text), ("subname", Name),
        ("subowner", Oid), ("subenabled", Bool), ("subbinary", Bool), ("substream", Bool),
        ("subtwophasestate", Char), ("subdisableonerr", Bool), ("subconninfo", Text),
        ("subpasswordrequired", Bool), ("subrunasowner", Bool), ("suborigin", Text),
        ("subslotname", Name), ("subsynccommit", Text), ("subpublications", Texts),
    ]),
    Def::empty("pg_subscription_rel", &[
        ("srsubid", Oid), ("srrelid", Oid), ("srsubstate", Char), ("srsublsn", Text),
    ]),
    Def::empty("pg_statistic_ext", &[
        ("oid", Oid), ("stxrelid", Oid), ("stxname", Name), ("stxnamespace", Oid),
        ("stxowner", Oid), ("stxstattarget", Int4), ("stxkeys", Int2Vector),
        ("stxkind", Texts), ("stxexprs", Text),
    ]),
    Def::empty("pg_statistic_ext_data", &[
        ("stxoid", Oid), ("stxdinherit", Bool), ("stxdndistinct", Text),
        ("stxddependencies", Text), ("stxdmcv", Text), ("stxdexpr", Text),
    ]),
    Def::empty("pg_statistic", &[
        ("starelid", Oid), ("staattnum", Int2), ("stainherit", Bool),
        ("stanullfrac", Float4), ("stawidth", Int4), ("stadistinct", Float4),
        ("stakind1", Int2), ("stakind2", Int2), ("stakind3", Int2), ("stakind4", Int2),
        ("stakind5", Int2), ("staop1", Oid), ("staop2", Oid), ("staop3", Oid),
        ("staop4", Oid), ("staop5", Oid), ("stacoll1", Oid), ("stacoll2", Oid),
        ("stacoll3", Oid), ("stacoll4", Oid), ("stacoll5", Oid), ("stanumbers1", Text),
        ("stanumbers2", Text), ("stanumbers3", Text), ("stanumbers4", Text),
        ("stanumbers5", Text), ("stavalues1", Text), ("stavalues2", Text),
        ("stavalues3", Text), ("stavalues4", Text), ("stavalues5", Text),
    ]),
    Def::empty("pg_foreign_table", &[
        ("ftrelid", Oid), ("ftserver", Oid), ("ftoptions", Texts),
    ]),
    Def::empty("pg_foreign_server", &[
        ("oid", Oid), ("srvname", Name), ("srvowner", Oid), ("srvfdw", Oid),
        ("srvtype", Text), ("srvversion", Text), ("srvacl", Acl), ("srvoptions", Texts),
    ]),
    Def::empty("pg_foreign_data_wrapper", &[
        ("oid", Oid), ("fdwname", Name), ("fdwowner", Oid), ("fdwhandler", Oid),
        ("fdwvalidator", Oid), ("fdwacl", Acl), ("fdwoptions", Texts),
    ]),
    Def::empty("pg_user_mapping", &[
        ("oid", Oid), ("umuser", Oid), ("umserver", Oid), ("umoptions", Texts),
    ]),
    Def::empty("pg_event_trigger", &[
        ("oid", Oid), ("evtname", Name), ("evtevent", Name), ("evtowner", Oid),
        ("evtfoid", Oid), ("evtenabled", Char), ("evttags", Texts),
    ]),
    Def::empty("pg_partitioned_table", &[
        ("partrelid", Oid), ("partstrat", Char), ("partnatts", Int2), ("partdefid", Oid),
        ("partattrs", Int2Vector), ("partclass", Oids), ("partcollation", Oids),
        ("partexprs", Text),
    ]),
    Def::empty("pg_db_role_setting", &[
        ("setdatabase", Oid), ("setrole", Oid), ("setconfig", Texts),
    ]),
    Def::empty("pg_seclabel", &[
        ("objoid", Oid), ("classoid", Oid), ("objsubid", Int4), ("provider", Text),
        ("label", Text),
    ]),
    Def::empty("pg_shseclabel", &[
        ("objoid", Oid), ("classoid", Oid), ("provider", Text), ("label", Text),
    ]),
    Def::empty("pg_shdepend", &[
        ("dbid", Oid), ("classid", Oid), ("objid", Oid), ("objsubid", Int4),
        ("refclassid", Oid), ("refobjid", Oid), ("deptype", Char),
    ]),
    Def::empty("pg_largeobject_metadata", &[
        ("oid", Oid), ("lomowner", Oid), ("lomacl", Acl),
    ]),
    Def::empty("pg_init_privs", &[
        ("objoid", Oid), ("classoid", Oid), ("objsubid", Int4), ("privtype", Char),
        ("initprivs", Acl),
    ]),
    Def::empty("pg_transform", &[
        ("oid", Oid), ("trftype", Oid), ("trflang", Oid), ("trffromsql", Oid),
        ("trftosql", Oid),
    ]),
    Def::empty("pg_rules", &[
        ("schemaname", Name), ("tablename", Name), ("rulename", Name), ("definition", Text),
    ]),
    Def::empty("pg_policies", &[
        ("schemaname", Name), ("tablename", Name), ("policyname", Name),
        ("permissive", Text), ("roles", Texts), ("cmd", Text), ("qual", Text),
        ("with_check", Text),
    ]),
    Def::empty("pg_prepared_xacts", &[
        ("transaction", Int8), ("gid", Text), ("prepared", Time), ("owner", Name),
        ("database", Name),
    ]),
    Def::empty("pg_replication_slots", &[
        ("slot_name", Name), ("plugin", Name), ("slot_type", Text), ("datoid", Oid),
        ("database", Name), ("temporary", Bool), ("active", Bool), ("active_pid", Int4),
        ("xmin", Int8), ("catalog_xmin", Int8), ("restart_lsn", Text),
        ("confirmed_flush_lsn", Text), ("wal_status", Text), ("safe_wal_size", Int8),
        ("two_phase", Bool),
    ]),
    Def::empty("pg_stat_replication", &[
        ("pid", Int4), ("usesysid", Oid), ("usename", Name), ("application_name", Text),
        ("client_addr", Text), ("client_hostname", Text), ("client_port", Int4),
        ("backend_start", Time), ("backend_xmin", Int8), ("state", Text),
        ("sent_lsn", Text), ("write_lsn", Text), ("flush_lsn", Text), ("replay_lsn", Text),
        ("write_lag", Text), ("flush_lag", Text), ("replay_lag", Text),
        ("sync_priority", Int4), ("sync_state", Text), ("reply_time", Time),
    ]),
    Def::empty("pg_stat_gssapi", &[
        ("pid", Int4), ("gss_authenticated", Bool), ("principal", Text),
        ("encrypted", Bool),
    ]),
    Def::empty("pg_stat_ssl", &[
        ("pid", Int4), ("ssl", Bool), ("version", Text), ("cipher", Text), ("bits", Int4),
        ("client_dn", Text), ("client_serial", Text), ("issuer_dn", Text),
    ]),
    Def::empty("pg_seclabels", &[
        ("objoid", Oid), ("classoid", Oid), ("objsubid", Int4), ("objtype", Text),
        ("objnamespace", Oid), ("objname", Text), ("provider", Text), ("label", Text),
    ]),
    Def::empty("pg_publication_tables", &[
        ("pubname", Name), ("schemaname", Name), ("tablename", Name), ("attnames", Texts),
        ("rowfilter", Text),
    ]),
    Def::empty("pg_stats", &[
        ("schemaname", Name), ("tablename", Name), ("attname", Name), ("inherited", Bool),
        ("null_frac", Float4), ("avg_width", Int4), ("n_distinct", Float4),
        ("most_common_vals", Text), ("most_common_freqs", Text), ("histogram_bounds", Text),
        ("correlation", Float4), ("most_common_elems", Text),
        ("most_common_elem_freqs", Text), ("elem_count_histogram", Text),
    ]),
    Def::empty("pg_user_mappings", &[
        ("umid", Oid), ("srvid", Oid), ("srvname", Name), ("umuser", Oid),
        ("usename", Name), ("umoptions", Texts),
    ]),
    Def::empty("pg_stat_progress_vacuum", &[
        ("pid", Int4), ("datid", Oid), ("datname", Name), ("relid", Oid), ("phase", Text),
        ("heap_blks_total", Int8), ("heap_blks_scanned", Int8),
        ("heap_blks_vacuumed", Int8), ("index_vacuum_count", Int8),
        ("max_dead_tuples", Int8), ("num_dead_tuples", Int8),
    ]),
    Def::empty("pg_stat_progress_analyze", &[
        ("pid", Int4), ("datid", Oid), ("datname", Name), ("relid", Oid), ("phase", Text),
        ("sample_blks_total", Int8), ("sample_blks_scanned", Int8),
        ("ext_stats_total", Int8), ("ext_stats_computed", Int8),
        ("child_tables_total", Int8), ("child_tables_done", Int8),
        ("current_child_table_relid", Oid),
    ]),
    Def::empty("pg_stat_progress_cluster", &[
        ("pid", Int4), ("datid", Oid), ("datname", Name), ("relid", Oid),
        ("command", Text), ("phase", Text), ("cluster_index_relid", Oid),
        ("heap_tuples_scanned", Int8), ("heap_tuples_written", Int8),
        ("heap_blks_total", Int8), ("heap_blks_scanned", Int8),
        ("index_rebuild_count", Int8),
    ]),
    Def::empty("pg_stat_progress_basebackup", &[
        ("pid", Int4), ("phase", Text), ("backup_total", Int8),
        ("backup_streamed", Int8), ("tablespaces_total", Int8),
        ("tablespaces_streamed", Int8),
    ]),
    Def::empty("pg_parameter_acl", &[
        ("oid", Oid), ("parname", Text), ("paracl", Acl),
    ]),
    Def::empty("pg_replication_origin", &[
        ("roident", Oid), ("roname", Text),
    ]),
];
