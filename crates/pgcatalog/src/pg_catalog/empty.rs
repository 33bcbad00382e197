//! Tables and views of `pg_catalog` that are always empty: Halcyon has no such objects. Tools join
//! with them all the same, so they have PostgreSQL's columns.

use crate::table::Def;
use crate::table::Kind::*;
use crate::table::nothing;

/// The tables.
pub(crate) const TABLES: &[Def] = &[
    Def {
        name: "pg_inherits",
        columns: &[
            ("inhrelid", Oid), ("inhparent", Oid), ("inhseqno", Int4),
            ("inhdetachpending", Bool),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_policy",
        columns: &[
            ("oid", Oid), ("polname", Name), ("polrelid", Oid), ("polcmd", Char),
            ("polpermissive", Bool), ("polroles", Oids), ("polqual", Text),
            ("polwithcheck", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_trigger",
        columns: &[
            ("oid", Oid), ("tgrelid", Oid), ("tgparentid", Oid), ("tgname", Name),
            ("tgfoid", Oid), ("tgtype", Int2), ("tgenabled", Char), ("tgisinternal", Bool),
            ("tgconstrrelid", Oid), ("tgconstrindid", Oid), ("tgconstraint", Oid),
            ("tgdeferrable", Bool), ("tginitdeferred", Bool), ("tgnargs", Int2),
            ("tgattr", Int2Vector), ("tgargs", Text), ("tgqual", Text), ("tgoldtable", Name),
            ("tgnewtable", Name),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_publication",
        columns: &[
            ("oid", Oid), ("pubname", Name), ("pubowner", Oid), ("puballtables", Bool),
            ("pubinsert", Bool), ("pubupdate", Bool), ("pubdelete", Bool),
            ("pubtruncate", Bool), ("pubviaroot", Bool),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_publication_rel",
        columns: &[
            ("oid", Oid), ("prpubid", Oid), ("prrelid", Oid), ("prqual", Text),
            ("prattrs", Int2Vector),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_publication_namespace",
        columns: &[
            ("oid", Oid), ("pnpubid", Oid), ("pnnspid", Oid),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_subscription",
        columns: &[
            ("oid", Oid), ("subdbid", Oid), ("subskiplsn", Text), ("subname", Name),
            ("subowner", Oid), ("subenabled", Bool), ("subbinary", Bool), ("substream", Bool),
            ("subtwophasestate", Char), ("subdisableonerr", Bool), ("subconninfo", Text),
            ("subslotname", Name), ("subsynccommit", Text), ("subpublications", Texts),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_subscription_rel",
        columns: &[
            ("srsubid", Oid), ("srrelid", Oid), ("srsubstate", Char), ("srsublsn", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_statistic_ext",
        columns: &[
            ("oid", Oid), ("stxrelid", Oid), ("stxname", Name), ("stxnamespace", Oid),
            ("stxowner", Oid), ("stxstattarget", Int4), ("stxkeys", Int2Vector),
            ("stxkind", Texts), ("stxexprs", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_statistic_ext_data",
        columns: &[
            ("stxoid", Oid), ("stxdinherit", Bool), ("stxdndistinct", Text),
            ("stxddependencies", Text), ("stxdmcv", Text), ("stxdexpr", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_statistic",
        columns: &[
            ("starelid", Oid), ("staattnum", Int2), ("stainherit", Bool),
            ("stanullfrac", Float4), ("stawidth", Int4), ("stadistinct", Float4),
            ("stakind1", Int2), ("stakind2", Int2), ("stakind3", Int2), ("stakind4", Int2),
            ("stakind5", Int2), ("staop1", Oid), ("staop2", Oid), ("staop3", Oid),
            ("staop4", Oid), ("staop5", Oid), ("stacoll1", Oid), ("stacoll2", Oid),
            ("stacoll3", Oid), ("stacoll4", Oid), ("stacoll5", Oid), ("stanumbers1", Text),
            ("stanumbers2", Text), ("stanumbers3", Text), ("stanumbers4", Text),
            ("stanumbers5", Text), ("stavalues1", Text), ("stavalues2", Text),
            ("stavalues3", Text), ("stavalues4", Text), ("stavalues5", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_foreign_table",
        columns: &[
            ("ftrelid", Oid), ("ftserver", Oid), ("ftoptions", Texts),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_foreign_server",
        columns: &[
            ("oid", Oid), ("srvname", Name), ("srvowner", Oid), ("srvfdw", Oid),
            ("srvtype", Text), ("srvversion", Text), ("srvacl", Acl), ("srvoptions", Texts),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_foreign_data_wrapper",
        columns: &[
            ("oid", Oid), ("fdwname", Name), ("fdwowner", Oid), ("fdwhandler", Oid),
            ("fdwvalidator", Oid), ("fdwacl", Acl), ("fdwoptions", Texts),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_user_mapping",
        columns: &[
            ("oid", Oid), ("umuser", Oid), ("umserver", Oid), ("umoptions", Texts),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_event_trigger",
        columns: &[
            ("oid", Oid), ("evtname", Name), ("evtevent", Name), ("evtowner", Oid),
            ("evtfoid", Oid), ("evtenabled", Char), ("evttags", Texts),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_enum",
        columns: &[
            ("oid", Oid), ("enumtypid", Oid), ("enumsortorder", Float4), ("enumlabel", Name),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_extension",
        columns: &[
            ("oid", Oid), ("extname", Name), ("extowner", Oid), ("extnamespace", Oid),
            ("extrelocatable", Bool), ("extversion", Text), ("extconfig", Oids),
            ("extcondition", Texts),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_partitioned_table",
        columns: &[
            ("partrelid", Oid), ("partstrat", Char), ("partnatts", Int2), ("partdefid", Oid),
            ("partattrs", Int2Vector), ("partclass", Oids), ("partcollation", Oids),
            ("partexprs", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_db_role_setting",
        columns: &[
            ("setdatabase", Oid), ("setrole", Oid), ("setconfig", Texts),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_default_acl",
        columns: &[
            ("oid", Oid), ("defaclrole", Oid), ("defaclnamespace", Oid),
            ("defaclobjtype", Char), ("defaclacl", Acl),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_seclabel",
        columns: &[
            ("objoid", Oid), ("classoid", Oid), ("objsubid", Int4), ("provider", Text),
            ("label", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_shseclabel",
        columns: &[
            ("objoid", Oid), ("classoid", Oid), ("provider", Text), ("label", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_shdepend",
        columns: &[
            ("dbid", Oid), ("classid", Oid), ("objid", Oid), ("objsubid", Int4),
            ("refclassid", Oid), ("refobjid", Oid), ("deptype", Char),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_largeobject_metadata",
        columns: &[
            ("oid", Oid), ("lomowner", Oid), ("lomacl", Acl),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_init_privs",
        columns: &[
            ("objoid", Oid), ("classoid", Oid), ("objsubid", Int4), ("privtype", Char),
            ("initprivs", Acl),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_transform",
        columns: &[
            ("oid", Oid), ("trftype", Oid), ("trflang", Oid), ("trffromsql", Oid),
            ("trftosql", Oid),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_rules",
        columns: &[
            ("schemaname", Name), ("tablename", Name), ("rulename", Name), ("definition", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_policies",
        columns: &[
            ("schemaname", Name), ("tablename", Name), ("policyname", Name),
            ("permissive", Text), ("roles", Texts), ("cmd", Text), ("qual", Text),
            ("with_check", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_available_extensions",
        columns: &[
            ("name", Name), ("default_version", Text), ("installed_version", Text),
            ("comment", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_available_extension_versions",
        columns: &[
            ("name", Name), ("version", Text), ("installed", Bool), ("superuser", Bool),
            ("trusted", Bool), ("relocatable", Bool), ("schema", Name), ("requires", Texts),
            ("comment", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_prepared_xacts",
        columns: &[
            ("transaction", Int8), ("gid", Text), ("prepared", Time), ("owner", Name),
            ("database", Name),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_replication_slots",
        columns: &[
            ("slot_name", Name), ("plugin", Name), ("slot_type", Text), ("datoid", Oid),
            ("database", Name), ("temporary", Bool), ("active", Bool), ("active_pid", Int4),
            ("xmin", Int8), ("catalog_xmin", Int8), ("restart_lsn", Text),
            ("confirmed_flush_lsn", Text), ("wal_status", Text), ("safe_wal_size", Int8),
            ("two_phase", Bool),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_stat_replication",
        columns: &[
            ("pid", Int4), ("usesysid", Oid), ("usename", Name), ("application_name", Text),
            ("client_addr", Text), ("client_hostname", Text), ("client_port", Int4),
            ("backend_start", Time), ("backend_xmin", Int8), ("state", Text),
            ("sent_lsn", Text), ("write_lsn", Text), ("flush_lsn", Text), ("replay_lsn", Text),
            ("write_lag", Text), ("flush_lag", Text), ("replay_lag", Text),
            ("sync_priority", Int4), ("sync_state", Text), ("reply_time", Time),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_stat_gssapi",
        columns: &[
            ("pid", Int4), ("gss_authenticated", Bool), ("principal", Text),
            ("encrypted", Bool),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_stat_ssl",
        columns: &[
            ("pid", Int4), ("ssl", Bool), ("version", Text), ("cipher", Text), ("bits", Int4),
            ("client_dn", Text), ("client_serial", Text), ("issuer_dn", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_cursors",
        columns: &[
            ("name", Text), ("statement", Text), ("is_holdable", Bool), ("is_binary", Bool),
            ("is_scrollable", Bool), ("creation_time", Time),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_seclabels",
        columns: &[
            ("objoid", Oid), ("classoid", Oid), ("objsubid", Int4), ("objtype", Text),
            ("objnamespace", Oid), ("objname", Text), ("provider", Text), ("label", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_publication_tables",
        columns: &[
            ("pubname", Name), ("schemaname", Name), ("tablename", Name), ("attnames", Texts),
            ("rowfilter", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_stats",
        columns: &[
            ("schemaname", Name), ("tablename", Name), ("attname", Name), ("inherited", Bool),
            ("null_frac", Float4), ("avg_width", Int4), ("n_distinct", Float4),
            ("most_common_vals", Text), ("most_common_freqs", Text), ("histogram_bounds", Text),
            ("correlation", Float4), ("most_common_elems", Text),
            ("most_common_elem_freqs", Text), ("elem_count_histogram", Text),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_user_mappings",
        columns: &[
            ("umid", Oid), ("srvid", Oid), ("srvname", Name), ("umuser", Oid),
            ("usename", Name), ("umoptions", Texts),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_stat_progress_vacuum",
        columns: &[
            ("pid", Int4), ("datid", Oid), ("datname", Name), ("relid", Oid), ("phase", Text),
            ("heap_blks_total", Int8), ("heap_blks_scanned", Int8),
            ("heap_blks_vacuumed", Int8), ("index_vacuum_count", Int8),
            ("max_dead_tuples", Int8), ("num_dead_tuples", Int8),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_stat_progress_create_index",
        columns: &[
            ("pid", Int4), ("datid", Oid), ("datname", Name), ("relid", Oid),
            ("index_relid", Oid), ("command", Text), ("phase", Text), ("lockers_total", Int8),
            ("lockers_done", Int8), ("current_locker_pid", Int8), ("blocks_total", Int8),
            ("blocks_done", Int8), ("tuples_total", Int8), ("tuples_done", Int8),
            ("partitions_total", Int8), ("partitions_done", Int8),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_parameter_acl",
        columns: &[
            ("oid", Oid), ("parname", Text), ("paracl", Acl),
        ],
        fill: nothing,
    },
    Def {
        name: "pg_replication_origin",
        columns: &[
            ("roident", Oid), ("roname", Text),
        ],
        fill: nothing,
    },
];
