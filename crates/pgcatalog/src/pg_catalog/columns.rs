//! Columns of the tables of `pg_catalog` that have rows, as PostgreSQL 15 has them.

use crate::table::Kind::{self, *};

pub(super) const CLASS: &[(&str, Kind)] = &[
    ("oid", Oid), ("relname", Name), ("relnamespace", Oid), ("reltype", Oid),
    ("reloftype", Oid), ("relowner", Oid), ("relam", Oid), ("relfilenode", Oid),
    ("reltablespace", Oid), ("relpages", Int4), ("reltuples", Float4), ("relallvisible", Int4),
    ("reltoastrelid", Oid), ("relhasindex", Bool), ("relisshared", Bool),
    ("relpersistence", Char), ("relkind", Char), ("relnatts", Int2), ("relchecks", Int2),
    ("relhasrules", Bool), ("relhastriggers", Bool), ("relhassubclass", Bool),
    ("relrowsecurity", Bool), ("relforcerowsecurity", Bool), ("relispopulated", Bool),
    ("relreplident", Char), ("relispartition", Bool), ("relrewrite", Oid),
    ("relfrozenxid", Int8), ("relminmxid", Int8), ("relacl", Acl), ("reloptions", Texts),
    ("relpartbound", Text),
];

pub(super) const ATTRIBUTE: &[(&str, Kind)] = &[
    ("attrelid", Oid), ("attname", Name), ("atttypid", Oid), ("attstattarget", Int4),
    ("attlen", Int2), ("attnum", Int2), ("attndims", Int4), ("attcacheoff", Int4),
    ("atttypmod", Int4), ("attbyval", Bool), ("attalign", Char), ("attstorage", Char),
    ("attcompression", Char), ("attnotnull", Bool), ("atthasdef", Bool),
    ("atthasmissing", Bool), ("attidentity", Char), ("attgenerated", Char),
    ("attisdropped", Bool), ("attislocal", Bool), ("attinhcount", Int4), ("attcollation", Oid),
    ("attacl", Acl), ("attoptions", Texts), ("attfdwoptions", Texts), ("attmissingval", Text),
];

pub(super) const ATTRDEF: &[(&str, Kind)] = &[
    ("oid", Oid), ("adrelid", Oid), ("adnum", Int2), ("adbin", Text),
];

pub(super) const INDEX: &[(&str, Kind)] = &[
    ("indexrelid", Oid), ("indrelid", Oid), ("indnatts", Int2), ("indnkeyatts", Int2),
    ("indisunique", Bool), ("indnullsnotdistinct", Bool), ("indisprimary", Bool),
    ("indisexclusion", Bool), ("indimmediate", Bool), ("indisclustered", Bool),
    ("indisvalid", Bool), ("indcheckxmin", Bool), ("indisready", Bool), ("indislive", Bool),
    ("indisreplident", Bool), ("indkey", Int2Vector), ("indcollation", Oids),
    ("indclass", Oids), ("indoption", Int2Vector), ("indexprs", Text), ("indpred", Text),
];

pub(super) const CONSTRAINT: &[(&str, Kind)] = &[
    ("oid", Oid), ("conname", Name), ("connamespace", Oid), ("contype", Char),
    ("condeferrable", Bool), ("condeferred", Bool), ("convalidated", Bool), ("conrelid", Oid),
    ("contypid", Oid), ("conindid", Oid), ("conparentid", Oid), ("confrelid", Oid),
    ("confupdtype", Char), ("confdeltype", Char), ("confmatchtype", Char), ("conislocal", Bool),
    ("coninhcount", Int4), ("connoinherit", Bool), ("conkey", Int2s), ("confkey", Int2s),
    ("conpfeqop", Oids), ("conppeqop", Oids), ("conffeqop", Oids), ("confdelsetcols", Int2s),
    ("conexclop", Oids), ("conbin", Text),
];

pub(super) const SEQUENCE: &[(&str, Kind)] = &[
    ("seqrelid", Oid), ("seqtypid", Oid), ("seqstart", Int8), ("seqincrement", Int8),
    ("seqmax", Int8), ("seqmin", Int8), ("seqcache", Int8), ("seqcycle", Bool),
];

pub(super) const SEQUENCES: &[(&str, Kind)] = &[
    ("schemaname", Name), ("sequencename", Name), ("sequenceowner", Name), ("data_type", Oid),
    ("start_value", Int8), ("min_value", Int8), ("max_value", Int8), ("increment_by", Int8),
    ("cycle", Bool), ("cache_size", Int8), ("last_value", Int8),
];

pub(super) const TABLES: &[(&str, Kind)] = &[
    ("schemaname", Name), ("tablename", Name), ("tableowner", Name), ("tablespace", Name),
    ("hasindexes", Bool), ("hasrules", Bool), ("hastriggers", Bool), ("rowsecurity", Bool),
];

pub(super) const MATVIEWS: &[(&str, Kind)] = &[
    ("schemaname", Name), ("matviewname", Name), ("matviewowner", Name), ("tablespace", Name),
    ("hasindexes", Bool), ("ispopulated", Bool), ("definition", Text),
];

pub(super) const VIEWS: &[(&str, Kind)] = &[
    ("schemaname", Name), ("viewname", Name), ("viewowner", Name), ("definition", Text),
];

pub(super) const INDEXES: &[(&str, Kind)] = &[
    ("schemaname", Name), ("tablename", Name), ("indexname", Name), ("tablespace", Name),
    ("indexdef", Text),
];

pub(super) const NAMESPACE: &[(&str, Kind)] = &[
    ("oid", Oid), ("nspname", Name), ("nspowner", Oid), ("nspacl", Acl),
];

pub(super) const ROLES: &[(&str, Kind)] = &[
    ("rolname", Name), ("rolsuper", Bool), ("rolinherit", Bool), ("rolcreaterole", Bool),
    ("rolcreatedb", Bool), ("rolcanlogin", Bool), ("rolreplication", Bool),
    ("rolconnlimit", Int4), ("rolpassword", Text), ("rolvaliduntil", Time),
    ("rolbypassrls", Bool), ("rolconfig", Texts), ("oid", Oid),
];

pub(super) const AUTHID: &[(&str, Kind)] = &[
    ("oid", Oid), ("rolname", Name), ("rolsuper", Bool), ("rolinherit", Bool),
    ("rolcreaterole", Bool), ("rolcreatedb", Bool), ("rolcanlogin", Bool),
    ("rolreplication", Bool), ("rolbypassrls", Bool), ("rolconnlimit", Int4),
    ("rolpassword", Text), ("rolvaliduntil", Time),
];

pub(super) const AUTH_MEMBERS: &[(&str, Kind)] = &[
    ("roleid", Oid), ("member", Oid), ("grantor", Oid), ("admin_option", Bool),
];

pub(super) const USER: &[(&str, Kind)] = &[
    ("usename", Name), ("usesysid", Oid), ("usecreatedb", Bool), ("usesuper", Bool),
    ("userepl", Bool), ("usebypassrls", Bool), ("passwd", Text), ("valuntil", Time),
    ("useconfig", Texts),
];

pub(super) const GROUP: &[(&str, Kind)] = &[
    ("groname", Name), ("grosysid", Oid), ("grolist", Oids),
];

pub(super) const SHADOW: &[(&str, Kind)] = &[
    ("usename", Name), ("usesysid", Oid), ("usecreatedb", Bool), ("usesuper", Bool),
    ("userepl", Bool), ("usebypassrls", Bool), ("passwd", Text), ("valuntil", Time),
    ("useconfig", Texts),
];

pub(super) const DATABASE: &[(&str, Kind)] = &[
    ("oid", Oid), ("datname", Name), ("datdba", Oid), ("encoding", Int4),
    ("datlocprovider", Char), ("datistemplate", Bool), ("datallowconn", Bool),
    ("datconnlimit", Int4), ("datfrozenxid", Int8), ("datminmxid", Int8),
    ("dattablespace", Oid), ("datcollate", Text), ("datctype", Text), ("daticulocale", Text),
    ("datcollversion", Text), ("datacl", Acl),
];

pub(super) const DESCRIPTION: &[(&str, Kind)] = &[
    ("objoid", Oid), ("classoid", Oid), ("objsubid", Int4), ("description", Text),
];

pub(super) const DEPEND: &[(&str, Kind)] = &[
    ("classid", Oid), ("objid", Oid), ("objsubid", Int4), ("refclassid", Oid),
    ("refobjid", Oid), ("refobjsubid", Int4), ("deptype", Char),
];

pub(super) const SETTINGS: &[(&str, Kind)] = &[
    ("name", Text), ("setting", Text), ("unit", Text), ("category", Text), ("short_desc", Text),
    ("extra_desc", Text), ("context", Text), ("vartype", Text), ("source", Text),
    ("min_val", Text), ("max_val", Text), ("enumvals", Texts), ("boot_val", Text),
    ("reset_val", Text), ("sourcefile", Text), ("sourceline", Int4), ("pending_restart", Bool),
];

pub(super) const STAT_ACTIVITY: &[(&str, Kind)] = &[
    ("datid", Oid), ("datname", Name), ("pid", Int4), ("leader_pid", Int4), ("usesysid", Oid),
    ("usename", Name), ("application_name", Text), ("client_addr", Text),
    ("client_hostname", Text), ("client_port", Int4), ("backend_start", Time),
    ("xact_start", Time), ("query_start", Time), ("state_change", Time),
    ("wait_event_type", Text), ("wait_event", Text), ("state", Text), ("backend_xid", Int8),
    ("backend_xmin", Int8), ("query_id", Int8), ("query", Text), ("backend_type", Text),
];

pub(super) const LOCKS: &[(&str, Kind)] = &[
    ("locktype", Text), ("database", Oid), ("relation", Oid), ("page", Int4), ("tuple", Int2),
    ("virtualxid", Text), ("transactionid", Int8), ("classid", Oid), ("objid", Oid),
    ("objsubid", Int2), ("virtualtransaction", Text), ("pid", Int4), ("mode", Text),
    ("granted", Bool), ("fastpath", Bool), ("waitstart", Time),
];

pub(super) const STAT_USER_TABLES: &[(&str, Kind)] = &[
    ("relid", Oid), ("schemaname", Name), ("relname", Name), ("seq_scan", Int8),
    ("seq_tup_read", Int8), ("idx_scan", Int8), ("idx_tup_fetch", Int8), ("n_tup_ins", Int8),
    ("n_tup_upd", Int8), ("n_tup_del", Int8), ("n_tup_hot_upd", Int8), ("n_live_tup", Int8),
    ("n_dead_tup", Int8), ("n_mod_since_analyze", Int8), ("n_ins_since_vacuum", Int8),
    ("last_vacuum", Time), ("last_autovacuum", Time), ("last_analyze", Time),
    ("last_autoanalyze", Time), ("vacuum_count", Int8), ("autovacuum_count", Int8),
    ("analyze_count", Int8), ("autoanalyze_count", Int8),
];

pub(super) const TABLESPACE: &[(&str, Kind)] = &[
    ("oid", Oid), ("spcname", Name), ("spcowner", Oid), ("spcacl", Acl), ("spcoptions", Texts),
];

pub(super) const STAT_DATABASE: &[(&str, Kind)] = &[
    ("datid", Oid), ("datname", Name), ("numbackends", Int4), ("xact_commit", Int8),
    ("xact_rollback", Int8), ("blks_read", Int8), ("blks_hit", Int8), ("tup_returned", Int8),
    ("tup_fetched", Int8), ("tup_inserted", Int8), ("tup_updated", Int8), ("tup_deleted", Int8),
    ("conflicts", Int8), ("temp_files", Int8), ("temp_bytes", Int8), ("deadlocks", Int8),
    ("checksum_failures", Int8), ("checksum_last_failure", Time), ("blk_read_time", Float8),
    ("blk_write_time", Float8), ("session_time", Float8), ("active_time", Float8),
    ("idle_in_transaction_time", Float8), ("sessions", Int8), ("sessions_abandoned", Int8),
    ("sessions_fatal", Int8), ("sessions_killed", Int8), ("stats_reset", Time),
];

pub(super) const REWRITE: &[(&str, Kind)] = &[
    ("oid", Oid), ("rulename", Name), ("ev_class", Oid), ("ev_type", Char),
    ("ev_enabled", Char), ("is_instead", Bool), ("ev_qual", Text), ("ev_action", Text),
];

pub(super) const SHDESCRIPTION: &[(&str, Kind)] = &[
    ("objoid", Oid), ("classoid", Oid), ("description", Text),
];

