-- What the tools send when they connect, open a schema and show a table, as their sources and their drivers'
-- sources have it, written down by hand.

-- DBeaver: who and where
SELECT current_schema(), session_user
-- DBeaver: databases
SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE 1 = 1 AND datallowconn AND NOT datistemplate OR db.datname = 'halcyon' ORDER BY db.datname
-- DBeaver: schemas
SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass
ORDER BY nspname
-- DBeaver: relations of a schema
SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr, pg_catalog.pg_get_partkeydef(c.oid) AS partition_key
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = {shop} AND c.relkind NOT IN ('i', 'I', 'c')
-- DBeaver: columns
SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, dep.objid
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND c.relnamespace = {shop} ORDER BY a.attnum
-- DBeaver: types
SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name, d.description
FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid
WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')
-- DBeaver: constraints
SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description,
    CASE WHEN c.contype = 'c' THEN "substring"(pg_get_constraintdef(c.oid), 7) ELSE NULL END consrc_copy
FROM pg_catalog.pg_constraint c
INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid
LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass
WHERE c.conrelid = {item} ORDER BY c.oid
-- DBeaver: indexes
SELECT i.*, i.indkey AS keys, c.relname, c.relnamespace, c.relam, c.reltablespace, tc.relname AS tabrelname, dsc.description,
    pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr, pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) AS expr,
    pg_catalog.pg_relation_size(i.indexrelid) AS index_rel_size, pg_catalog.pg_stat_get_numscans(i.indexrelid) AS index_num_scans
FROM pg_catalog.pg_index i
INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid
LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid
WHERE i.indrelid = {item} ORDER BY tabrelname, c.relname
-- DBeaver: an index's key by its parts
SELECT pg_catalog.pg_get_indexdef({price}, 1, true) AS a, pg_catalog.pg_get_indexdef({price}, 2, false) AS b
-- DBeaver: a sequence
SELECT * FROM pg_catalog.pg_sequences WHERE schemaname = 'shop' AND sequencename = 'number'
-- DBeaver: a sequence by its own relation
SELECT last_value, log_cnt, is_called FROM shop.number
-- DBeaver: functions
SELECT p.oid AS poid, p.*, pg_catalog.pg_get_expr(p.proargdefaults, 0) AS arg_defaults, d.description
FROM pg_catalog.pg_proc p LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = p.oid
WHERE p.pronamespace = {shop} ORDER BY p.proname
-- DBeaver: roles
SELECT a.oid, a.*, pd.description FROM pg_catalog.pg_roles a LEFT JOIN pg_catalog.pg_shdescription pd ON a.oid = pd.objoid ORDER BY a.rolname
-- DBeaver: tablespaces
SELECT t.oid, t.*, pg_tablespace_location(t.oid) loc FROM pg_catalog.pg_tablespace t ORDER BY t.oid
-- DBeaver: languages
SELECT l.oid, l.* FROM pg_catalog.pg_language l ORDER BY l.oid
-- DBeaver: access methods
SELECT am.oid, am.* FROM pg_catalog.pg_am am ORDER BY am.oid
-- DBeaver: extensions
SELECT e.oid, e.*, n.nspname AS schema_name FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace ORDER BY e.oid
-- DBeaver: sizes
SELECT c.oid, pg_catalog.pg_total_relation_size(c.oid) AS total_rel_size, pg_catalog.pg_relation_size(c.oid) AS rel_size
FROM pg_class c WHERE c.relnamespace = {shop}
-- DBeaver: the size of the database
SELECT pg_catalog.pg_database_size({database})
-- DBeaver: triggers
SELECT x.oid, x.*, p.pronamespace AS func_schema_id, d.description, pg_get_triggerdef(x.oid) AS body
FROM pg_catalog.pg_trigger x LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid = x.tgfoid
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = x.oid AND d.objsubid = 0
WHERE x.tgrelid = {item} AND NOT x.tgisinternal
-- DBeaver: rules
SELECT x.oid, x.*, pg_get_ruledef(x.oid) AS definition FROM pg_catalog.pg_rewrite x WHERE x.ev_class = {dear}
-- DBeaver: what depends on a table
SELECT DISTINCT dep.deptype, dep.classid, dep.objid, cl.relkind, attr.attname, pg_get_expr(ad.adbin, ad.adrelid) adefval,
    CASE WHEN cl.relkind IS NOT NULL THEN cl.relkind::text || COALESCE(dep.objsubid::text, '')
        WHEN tg.oid IS NOT NULL THEN 'T'::text WHEN ty.oid IS NOT NULL THEN 'y'::text WHEN ns.oid IS NOT NULL THEN 'n'::text
        WHEN pr.oid IS NOT NULL THEN 'p'::text WHEN la.oid IS NOT NULL THEN 'l'::text WHEN rw.oid IS NOT NULL THEN 'R'::text
        WHEN co.oid IS NOT NULL THEN 'C'::text || contype::text WHEN ad.oid IS NOT NULL THEN 'A'::text ELSE '' END AS type,
    COALESCE(coc.relname, clrw.relname, tgr.relname) AS ownertable,
    CASE WHEN cl.relname IS NOT NULL AND att.attname IS NOT NULL THEN cl.relname || '.' || att.attname
        ELSE COALESCE(cl.relname, co.conname, pr.proname, tg.tgname, ty.typname, la.lanname, rw.rulename, ns.nspname) END AS refname,
    COALESCE(nsc.nspname, nso.nspname, nsp.nspname, nst.nspname, nsrw.nspname, tgrn.nspname) AS nspname
FROM pg_depend dep
LEFT JOIN pg_class cl ON dep.objid = cl.oid
LEFT JOIN pg_attribute att ON dep.objid = att.attrelid AND dep.objsubid = att.attnum
LEFT JOIN pg_namespace nsc ON cl.relnamespace = nsc.oid
LEFT JOIN pg_proc pr ON dep.objid = pr.oid
LEFT JOIN pg_namespace nsp ON pr.pronamespace = nsp.oid
LEFT JOIN pg_trigger tg ON dep.objid = tg.oid
LEFT JOIN pg_class tgr ON tg.tgrelid = tgr.oid
LEFT JOIN pg_namespace tgrn ON tgr.relnamespace = tgrn.oid
LEFT JOIN pg_type ty ON dep.objid = ty.oid
LEFT JOIN pg_namespace nst ON ty.typnamespace = nst.oid
LEFT JOIN pg_constraint co ON dep.objid = co.oid
LEFT JOIN pg_class coc ON co.conrelid = coc.oid
LEFT JOIN pg_namespace nso ON co.connamespace = nso.oid
LEFT JOIN pg_rewrite rw ON dep.objid = rw.oid
LEFT JOIN pg_class clrw ON clrw.oid = rw.ev_class
LEFT JOIN pg_namespace nsrw ON clrw.relnamespace = nsrw.oid
LEFT JOIN pg_language la ON dep.objid = la.oid
LEFT JOIN pg_namespace ns ON dep.objid = ns.oid
LEFT JOIN pg_attrdef ad ON ad.oid = dep.objid
LEFT JOIN pg_attribute attr ON attr.attrelid = ad.adrelid AND attr.attnum = ad.adnum
WHERE dep.refobjid = {item}
ORDER BY type
-- DBeaver: sessions
SELECT sa.* FROM pg_catalog.pg_stat_activity sa
-- DBeaver: locks
SELECT bl.pid AS blocked_pid, a.usename AS blocked_user, kl.pid AS blocking_pid, ka.usename AS blocking_user, a.query AS blocked_statement, a.xact_start
FROM pg_catalog.pg_locks bl
JOIN pg_catalog.pg_stat_activity a ON bl.pid = a.pid
JOIN pg_catalog.pg_locks kl ON bl.locktype = kl.locktype AND bl.database IS NOT DISTINCT FROM kl.database AND bl.relation IS NOT DISTINCT FROM kl.relation
    AND bl.page IS NOT DISTINCT FROM kl.page AND bl.tuple IS NOT DISTINCT FROM kl.tuple AND bl.virtualxid IS NOT DISTINCT FROM kl.virtualxid
    AND bl.transactionid IS NOT DISTINCT FROM kl.transactionid AND bl.classid IS NOT DISTINCT FROM kl.classid AND bl.pid != kl.pid
JOIN pg_catalog.pg_stat_activity ka ON kl.pid = ka.pid
WHERE NOT bl.granted
-- DBeaver: settings
SELECT * FROM pg_catalog.pg_settings ORDER BY name
-- DBeaver: foreign servers and wrappers
SELECT fs.oid, fs.*, fdw.fdwname FROM pg_catalog.pg_foreign_server fs LEFT JOIN pg_catalog.pg_foreign_data_wrapper fdw ON fdw.oid = fs.srvfdw
-- DBeaver: collations and encodings
SELECT c.oid, c.*, pg_catalog.pg_encoding_to_char(c.collencoding) AS encname FROM pg_catalog.pg_collation c ORDER BY c.oid
-- DBeaver: event triggers and policies
SELECT p.policyname, p.schemaname, p.tablename FROM pg_catalog.pg_policies p
-- DBeaver: keywords
SELECT string_agg(word, ',') FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{a,abs,absolute}'::text[])
-- DBeaver: enum values of a type
SELECT e.enumlabel FROM pg_catalog.pg_enum e JOIN pg_catalog.pg_type t ON t.oid = e.enumtypid WHERE t.typname = 'state' ORDER BY e.enumsortorder
-- DBeaver: rights on a table
SELECT * FROM information_schema.table_privileges WHERE table_catalog = 'halcyon' AND table_schema = 'shop' AND table_name = 'item'
-- DBeaver: rights on a table's columns
SELECT * FROM information_schema.column_privileges WHERE table_schema = 'shop' AND table_name = 'item'
-- DBeaver: partitions and inheritance
SELECT i.*, c.relnamespace FROM pg_catalog.pg_inherits i, pg_catalog.pg_class c WHERE i.inhrelid = {item} AND c.oid = i.inhparent ORDER BY i.inhseqno
-- DBeaver: an explanation
EXPLAIN (FORMAT JSON, ANALYZE, COSTS) SELECT * FROM shop.item WHERE price > 5
-- DBeaver: rows of a grid
SELECT i.* FROM shop.item i WHERE name LIKE '%e%' ORDER BY 1 LIMIT 200 OFFSET 0
-- DBeaver: a grid's row by its place
SELECT ctid, * FROM shop.item LIMIT 10

-- pgAdmin: settings of a connection
SET DateStyle=ISO; SET client_min_messages=notice; SELECT set_config('bytea_output','hex',false) FROM pg_show_all_settings() WHERE name = 'bytea_output'; SET client_encoding='utf-8';
-- pgAdmin: the database
SELECT db.oid AS did, db.datname, db.datallowconn, pg_encoding_to_char(db.encoding) AS serverencoding,
    has_database_privilege(db.oid, 'CREATE') AS cancreate, datistemplate
FROM pg_catalog.pg_database db WHERE db.datname = current_database()
-- pgAdmin: the user
SELECT roles.oid AS id, roles.rolname AS name, roles.rolsuper AS is_superuser,
    CASE WHEN roles.rolsuper THEN true ELSE roles.rolcreaterole END AS can_create_role,
    CASE WHEN roles.rolsuper THEN true ELSE roles.rolcreatedb END AS can_create_db,
    CASE WHEN 'pg_signal_backend'=ANY(ARRAY(WITH RECURSIVE cte AS (
        SELECT pg_roles.oid,pg_roles.rolname FROM pg_roles WHERE pg_roles.oid = roles.oid
        UNION ALL
        SELECT m.roleid,pgr.rolname FROM cte cte_1 JOIN pg_auth_members m ON m.member = cte_1.oid JOIN pg_roles pgr ON pgr.oid = m.roleid)
        SELECT rolname FROM cte)) THEN True ELSE False END AS can_signal_backend
FROM pg_catalog.pg_roles AS roles WHERE rolname = current_user
-- pgAdmin: whether the server recovers
SELECT CASE WHEN usesuper THEN pg_is_in_recovery() ELSE FALSE END AS inrecovery,
    CASE WHEN usesuper AND pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE FALSE END AS isreplaypaused
FROM pg_catalog.pg_user WHERE usename=current_user
-- pgAdmin: GSSAPI
SELECT gss_authenticated, encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid()
-- pgAdmin: replication
SELECT CASE WHEN (SELECT count(extname) FROM pg_catalog.pg_extension WHERE extname='bdr') > 0 THEN 'pgd'
    WHEN (SELECT COUNT(*) FROM pg_replication_slots) > 0 THEN 'log' ELSE NULL END AS type
-- pgAdmin: databases
SELECT db.oid AS did, db.datname AS name, ta.spcname AS spcname, db.datallowconn, db.datistemplate AS is_template,
    pg_catalog.has_database_privilege(db.oid, 'CREATE') AS cancreate, datdba AS owner, descr.description
FROM pg_catalog.pg_database db
LEFT OUTER JOIN pg_catalog.pg_tablespace ta ON db.dattablespace = ta.oid
LEFT OUTER JOIN pg_catalog.pg_shdescription descr ON (db.oid=descr.objoid AND descr.classoid='pg_database'::regclass)
WHERE db.oid > 0::OID OR db.datname IN ('postgres', 'edb') ORDER BY datname
-- pgAdmin: a database's properties
SELECT db.oid AS did, db.datname AS name, db.dattablespace AS spcoid, spcname, datallowconn, pg_catalog.pg_encoding_to_char(encoding) AS encoding,
    pg_catalog.pg_get_userbyid(datdba) AS datowner, datcollate, datctype, datconnlimit,
    pg_catalog.has_database_privilege(db.oid, 'CREATE') AS cancreate, pg_catalog.current_setting('default_tablespace') AS default_tablespace,
    descr.description AS comments, db.datistemplate AS is_template,
    (SELECT pg_catalog.array_to_string(ARRAY(SELECT pg_catalog.array_to_string(defaclacl::text[], ', ') FROM pg_catalog.pg_default_acl WHERE defaclobjtype = 'r' AND defaclnamespace = 0::OID), ', ')) AS tblacl,
    (SELECT pg_catalog.array_to_string(ARRAY(SELECT provider || '=' || label FROM pg_catalog.pg_shseclabel sl1 WHERE sl1.objoid=db.oid), ',')) AS seclabels,
    pg_catalog.array_to_string(datacl::text[], ', ') AS acl
FROM pg_catalog.pg_database db
LEFT OUTER JOIN pg_catalog.pg_tablespace ta ON db.dattablespace=ta.OID
LEFT OUTER JOIN pg_catalog.pg_shdescription descr ON (db.oid=descr.objoid AND descr.classoid='pg_database'::regclass)
WHERE db.oid = {database}::OID ORDER BY datname
-- pgAdmin: schemas
SELECT nsp.oid, nsp.nspname AS name, pg_catalog.has_schema_privilege(nsp.oid, 'CREATE') AS can_create,
    pg_catalog.has_schema_privilege(nsp.oid, 'USAGE') AS has_usage, descr.description
FROM pg_catalog.pg_namespace nsp
LEFT OUTER JOIN pg_catalog.pg_description descr ON descr.objoid=nsp.oid AND descr.classoid='pg_namespace'::regclass
WHERE nspname NOT LIKE E'pg\_%' AND NOT (
    (nsp.nspname = 'pg_catalog' AND EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pg_class' AND relnamespace = nsp.oid LIMIT 1)) OR
    (nsp.nspname = 'pgagent' AND EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pga_job' AND relnamespace = nsp.oid LIMIT 1)) OR
    (nsp.nspname = 'information_schema' AND EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'tables' AND relnamespace = nsp.oid LIMIT 1)))
ORDER BY nspname
-- pgAdmin: tables
SELECT rel.oid, rel.relname AS name,
    (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid=rel.oid AND tgisinternal = FALSE) AS triggercount,
    (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid=rel.oid AND tgisinternal = FALSE AND tgenabled = 'O') AS has_enable_triggers,
    (CASE WHEN rel.relkind = 'p' THEN true ELSE false END) AS is_partitioned,
    (SELECT count(1) FROM pg_catalog.pg_inherits WHERE inhrelid=rel.oid LIMIT 1) AS is_inherits,
    (SELECT count(1) FROM pg_catalog.pg_inherits WHERE inhparent=rel.oid LIMIT 1) AS is_inherited, des.description
FROM pg_catalog.pg_class rel
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=rel.oid AND des.objsubid=0 AND des.classoid='pg_class'::regclass)
WHERE rel.relkind IN ('r','s','t','p') AND rel.relnamespace = {shop}::oid AND NOT rel.relispartition ORDER BY rel.relname
-- pgAdmin: a table's properties
SELECT *,
    (CASE WHEN pre_coll_inherits IS NULL THEN ARRAY[]::varchar[] ELSE pre_coll_inherits END) AS coll_inherits,
    (CASE WHEN relkind = 'p' THEN true ELSE false END) AS is_partitioned
FROM (
    SELECT rel.oid, rel.relname AS name, rel.reltablespace AS spcoid, rel.relacl AS relacl_str,
        (CASE WHEN length(spc.spcname::text) > 0 OR rel.relkind = 'p' THEN spc.spcname ELSE (SELECT sp.spcname FROM pg_catalog.pg_database dtb JOIN pg_catalog.pg_tablespace sp ON dtb.dattablespace=sp.oid WHERE dtb.oid = {database}::oid) END) AS spcname,
        (SELECT st.replica_identity FROM (SELECT CASE rel.relreplident WHEN 'd' THEN 'default' ELSE 'nothing' END AS replica_identity) st) AS replica_identity,
        pg_catalog.pg_get_userbyid(rel.relowner) AS relowner, rel.relkind, rel.relpersistence, des.description,
        (SELECT pg_catalog.array_agg(inhparent::regclass::varchar) FROM pg_catalog.pg_inherits i WHERE i.inhrelid = rel.oid) AS pre_coll_inherits,
        substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'fillfactor=([0-9]*)') AS fillfactor,
        (substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'autovacuum_enabled=([a-z|0-9]*)'))::BOOL AS autovacuum_enabled,
        con.conname, con.conkey, EXISTS (SELECT 1 FROM pg_catalog.pg_trigger WHERE tgrelid=rel.oid AND tgisinternal) AS isrepl
    FROM pg_catalog.pg_class rel
    LEFT OUTER JOIN pg_catalog.pg_tablespace spc ON spc.oid=rel.reltablespace
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=rel.oid AND des.objsubid=0 AND des.classoid='pg_class'::regclass)
    LEFT OUTER JOIN pg_catalog.pg_constraint con ON con.conrelid=rel.oid AND con.contype='p'
    LEFT OUTER JOIN pg_catalog.pg_class tst ON tst.oid = rel.reltoastrelid
    WHERE rel.relkind IN ('r','s','t','p') AND rel.relnamespace = {shop}::oid AND rel.oid = {item}::oid) AS TableInformation
-- pgAdmin: columns
SELECT DISTINCT att.attname AS name, att.attnum AS OID, pg_catalog.format_type(ty.oid,NULL) AS datatype,
    pg_catalog.format_type(ty.oid,att.atttypmod) AS displaytypname, att.attnotnull AS not_null,
    CASE WHEN att.atthasdef OR att.attidentity != '' OR ty.typdefault IS NOT NULL THEN True ELSE False END AS has_default_val, des.description, seq.seqtypid
FROM pg_catalog.pg_attribute att
JOIN pg_catalog.pg_type ty ON ty.oid=atttypid
JOIN pg_catalog.pg_namespace tn ON tn.oid=ty.typnamespace
JOIN pg_catalog.pg_class cl ON cl.oid=att.attrelid
JOIN pg_catalog.pg_namespace na ON na.oid=cl.relnamespace
LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=ty.typelem
LEFT OUTER JOIN pg_catalog.pg_attrdef def ON adrelid=att.attrelid AND adnum=att.attnum
LEFT OUTER JOIN (pg_catalog.pg_depend JOIN pg_catalog.pg_class cs ON classid='pg_class'::regclass AND objid=cs.oid AND cs.relkind='S') ON refobjid=att.attrelid AND refobjsubid=att.attnum
LEFT OUTER JOIN pg_catalog.pg_namespace ns ON ns.oid=cs.relnamespace
LEFT OUTER JOIN pg_catalog.pg_index pi ON pi.indrelid=att.attrelid AND indisprimary
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=att.attrelid AND des.objsubid=att.attnum AND des.classoid='pg_class'::regclass)
LEFT OUTER JOIN pg_catalog.pg_sequence seq ON cs.oid=seq.seqrelid
WHERE att.attrelid = {item}::oid AND att.attnum > 0 AND att.attisdropped IS FALSE ORDER BY att.attnum
-- pgAdmin: columns' properties
SELECT DISTINCT ON (att.attnum) att.attname AS name, att.atttypid, att.attlen, att.attnum, att.attndims, att.atttypmod, att.attacl, att.attnotnull, att.attoptions, att.attfdwoptions, att.attstattarget,
    att.attstorage, att.attidentity, pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS defval, pg_catalog.format_type(ty.oid,NULL) AS typname,
    pg_catalog.format_type(ty.oid,att.atttypmod) AS displaytypname, pg_catalog.format_type(ty.oid,att.atttypmod) AS cltype,
    CASE WHEN ty.typelem > 0 THEN ty.typelem ELSE ty.oid END AS elemoid, (SELECT nspname FROM pg_catalog.pg_namespace WHERE oid = ty.typnamespace) AS typnspname,
    ty.typstorage AS defaultstorage, description, pi.indkey,
    (SELECT count(1) FROM pg_catalog.pg_type t2 WHERE t2.typname=ty.typname) > 1 AS isdup,
    CASE WHEN length(coll.collname::text) > 0 AND length(nspc.nspname::text) > 0 THEN pg_catalog.concat(pg_catalog.quote_ident(nspc.nspname),'.',pg_catalog.quote_ident(coll.collname)) ELSE '' END AS collspcname,
    EXISTS(SELECT 1 FROM pg_catalog.pg_constraint WHERE conrelid=att.attrelid AND contype='f' AND att.attnum=ANY(conkey)) AS is_fk,
    (SELECT pg_catalog.array_agg(provider || '=' || label) FROM pg_catalog.pg_seclabels sl1 WHERE sl1.objoid=att.attrelid AND sl1.objsubid=att.attnum) AS seclabels,
    (CASE WHEN (att.attnum < 1) THEN true ELSE false END) AS is_sys_column, (CASE WHEN (att.attidentity in ('a', 'd')) THEN 'i' WHEN (att.attgenerated in ('s')) THEN 'g' ELSE 'n' END) AS colconstype,
    (CASE WHEN (att.attgenerated in ('s')) THEN pg_catalog.pg_get_expr(def.adbin, def.adrelid) END) AS genexpr, tab.relname AS relname,
    (CASE WHEN tab.relkind = 'v' THEN true ELSE false END) AS is_view_only, seq.*
FROM pg_catalog.pg_attribute att
JOIN pg_catalog.pg_type ty ON ty.oid=atttypid
LEFT OUTER JOIN pg_catalog.pg_attrdef def ON adrelid=att.attrelid AND adnum=att.attnum
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=att.attrelid AND des.objsubid=att.attnum AND des.classoid='pg_class'::regclass)
LEFT OUTER JOIN (pg_catalog.pg_depend dep JOIN pg_catalog.pg_class cs ON dep.classid='pg_class'::regclass AND dep.objid=cs.oid AND cs.relkind='S') ON dep.refobjid=att.attrelid AND dep.refobjsubid=att.attnum
LEFT OUTER JOIN pg_catalog.pg_index pi ON pi.indrelid=att.attrelid AND indisprimary
LEFT OUTER JOIN pg_catalog.pg_collation coll ON att.attcollation=coll.oid
LEFT OUTER JOIN pg_catalog.pg_namespace nspc ON coll.collnamespace=nspc.oid
LEFT OUTER JOIN pg_catalog.pg_sequence seq ON cs.oid=seq.seqrelid
LEFT OUTER JOIN pg_catalog.pg_class tab ON tab.oid = att.attrelid
WHERE att.attrelid = {item}::oid AND att.attnum > 0 AND att.attisdropped IS FALSE ORDER BY att.attnum
-- pgAdmin: indexes
SELECT DISTINCT ON(cls.relname) cls.oid, cls.relname AS name,
    (SELECT (CASE WHEN count(i.inhrelid) > 0 THEN true ELSE false END) FROM pg_inherits i WHERE i.inhrelid = cls.oid) AS is_inherited
FROM pg_catalog.pg_index idx
JOIN pg_catalog.pg_class cls ON cls.oid=indexrelid
JOIN pg_catalog.pg_class tab ON tab.oid=indrelid
LEFT OUTER JOIN pg_catalog.pg_tablespace ta ON ta.oid=cls.reltablespace
JOIN pg_catalog.pg_namespace n ON n.oid=tab.relnamespace
JOIN pg_catalog.pg_am am ON am.oid=cls.relam
LEFT JOIN pg_catalog.pg_depend dep ON (dep.classid = cls.tableoid AND dep.objid = cls.oid AND dep.refobjsubid = '0' AND dep.refclassid=(SELECT oid FROM pg_catalog.pg_class WHERE relname='pg_constraint') AND dep.deptype='i')
LEFT OUTER JOIN pg_catalog.pg_constraint con ON (con.tableoid = dep.refclassid AND con.oid = dep.refobjid)
WHERE indrelid = {item}::OID AND conname is NULL ORDER BY cls.relname
-- pgAdmin: an index's columns
SELECT i.indoption[i.attnum - 1] AS options, i.attnum, pg_catalog.pg_get_indexdef(i.indexrelid, i.attnum, true) AS attdef,
    CASE WHEN (o.opcdefault = FALSE) THEN o.opcname ELSE null END AS opcname, op.oprname AS oprname,
    CASE WHEN length(nspc.nspname::text) > 0 AND length(coll.collname::text) > 0 THEN pg_catalog.concat(pg_catalog.quote_ident(nspc.nspname), '.', pg_catalog.quote_ident(coll.collname)) ELSE '' END AS collnspname
FROM (SELECT indexrelid, i.indoption, i.indclass, pg_catalog.unnest(ARRAY(SELECT pg_catalog.generate_series(1, i.indnatts) AS n)) AS attnum FROM pg_catalog.pg_index i WHERE i.indexrelid = {price}::OID) i
LEFT JOIN pg_catalog.pg_opclass o ON (o.oid = i.indclass[i.attnum - 1])
LEFT OUTER JOIN pg_catalog.pg_constraint c ON (c.conindid = i.indexrelid)
LEFT OUTER JOIN pg_catalog.pg_operator op ON (op.oid = c.conexclop[i.attnum])
LEFT JOIN pg_catalog.pg_attribute a ON (a.attrelid = i.indexrelid AND a.attnum = i.attnum)
LEFT OUTER JOIN pg_catalog.pg_collation coll ON a.attcollation=coll.oid
LEFT OUTER JOIN pg_catalog.pg_namespace nspc ON coll.collnamespace=nspc.oid
ORDER BY i.attnum
-- pgAdmin: constraints
SELECT conindid AS oid, conname AS name, NOT convalidated AS convalidated, desp.description AS comment FROM pg_catalog.pg_constraint ct
LEFT JOIN pg_catalog.pg_description desp ON (desp.objoid = ct.oid AND desp.objsubid = 0 AND desp.classoid='pg_constraint'::regclass)
WHERE contype IN ('p', 'u') AND conrelid = {item}::oid ORDER BY conname
-- pgAdmin: foreign keys
SELECT ct.oid, conname AS name, condeferrable, condeferred, confupdtype, confdeltype, CASE confmatchtype WHEN 's' THEN FALSE WHEN 'f' THEN TRUE END AS confmatchtype,
    conkey, confkey, confrelid, nl.nspname AS fknsp, cl.relname AS fktab, nr.oid AS refnspoid, nr.nspname AS refnsp, cr.relname AS reftab, description AS comment, convalidated, conislocal
FROM pg_catalog.pg_constraint ct
JOIN pg_catalog.pg_class cl ON cl.oid=conrelid
JOIN pg_catalog.pg_namespace nl ON nl.oid=cl.relnamespace
JOIN pg_catalog.pg_class cr ON cr.oid=confrelid
JOIN pg_catalog.pg_namespace nr ON nr.oid=cr.relnamespace
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=ct.oid AND des.classoid='pg_constraint'::regclass)
WHERE contype='f' AND conrelid = {item}::oid ORDER BY conname
-- pgAdmin: a foreign key's columns [rows]
WITH cons AS (SELECT conrelid, confrelid, pg_catalog.unnest(conkey) AS conkey, pg_catalog.unnest(confkey) AS confkey FROM pg_catalog.pg_constraint WHERE conrelid = {item} AND contype = 'f')
SELECT a1.attname AS conattname, a2.attname AS confattname, r1.relname AS confrelname
FROM cons LEFT JOIN pg_catalog.pg_attribute a1 ON a1.attrelid = conrelid AND a1.attnum = conkey
LEFT JOIN pg_catalog.pg_attribute a2 ON a2.attrelid = confrelid AND a2.attnum = confkey
LEFT JOIN pg_catalog.pg_class r1 ON r1.oid = confrelid
-- pgAdmin: the key of a grid
SELECT at.attname, at.attnum, ty.typname FROM pg_catalog.pg_attribute at LEFT JOIN pg_catalog.pg_type ty ON (ty.oid = at.atttypid)
WHERE attrelid={item}::oid AND attnum = ANY ((SELECT con.conkey FROM pg_catalog.pg_class rel LEFT OUTER JOIN pg_catalog.pg_constraint con ON con.conrelid=rel.oid AND con.contype='p'
    WHERE rel.relkind IN ('r','s','t', 'p') AND rel.oid = {item}::oid)::oid[])
-- pgAdmin: rights
SELECT 'relacl' AS deftype, COALESCE(gt.rolname, 'PUBLIC') grantee, g.rolname grantor, pg_catalog.array_agg(privilege_type) AS privileges, pg_catalog.array_agg(is_grantable) AS grantable
FROM (SELECT d.grantee, d.grantor, d.is_grantable,
        CASE d.privilege_type WHEN 'CONNECT' THEN 'c' WHEN 'CREATE' THEN 'C' WHEN 'DELETE' THEN 'd' WHEN 'INSERT' THEN 'a' WHEN 'SELECT' THEN 'r' WHEN 'UPDATE' THEN 'w' ELSE 'UNKNOWN' END AS privilege_type
    FROM (SELECT rel.relacl FROM pg_catalog.pg_class rel WHERE rel.oid = {item}::OID) acl,
        (SELECT (d).grantee AS grantee, (d).grantor AS grantor, (d).is_grantable AS is_grantable, (d).privilege_type AS privilege_type
         FROM (SELECT pg_catalog.aclexplode(rel.relacl) AS d FROM pg_catalog.pg_class rel WHERE rel.oid = {item}::OID) a) d) d
LEFT JOIN pg_catalog.pg_roles g ON (d.grantor = g.oid)
LEFT JOIN pg_catalog.pg_roles gt ON (d.grantee = gt.oid)
GROUP BY g.rolname, gt.rolname
-- pgAdmin: statistics of a table
SELECT seq_scan AS "Sequential scans", seq_tup_read AS "Sequential tuples read", idx_scan AS "Index scans", n_tup_ins AS "Tuples inserted", n_live_tup AS "Live tuples",
    heap_blks_read AS "Heap blocks read", idx_blks_hit AS "Index blocks hit", last_vacuum AS "Last vacuum", pg_catalog.pg_size_pretty(pg_catalog.pg_relation_size(stat.relid)) AS "Table size",
    pg_catalog.pg_size_pretty(pg_catalog.pg_indexes_size(stat.relid)) AS "Indexes size"
FROM pg_catalog.pg_stat_all_tables stat
JOIN pg_catalog.pg_statio_all_tables statio ON stat.relid = statio.relid
JOIN pg_catalog.pg_class cl ON cl.oid=stat.relid
WHERE stat.relid = {item}::oid
-- pgAdmin: the dashboard's sessions
SELECT 'session_stats' AS chart_name, pg_catalog.row_to_json(t) AS chart_data FROM (SELECT
    (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = (SELECT datname FROM pg_catalog.pg_database WHERE oid = {database})) AS "Total",
    (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active') AS "Active",
    (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'idle') AS "Idle") t
UNION ALL
SELECT 'tps_stats' AS chart_name, pg_catalog.row_to_json(t) AS chart_data FROM (SELECT
    (SELECT sum(xact_commit) + sum(xact_rollback) FROM pg_catalog.pg_stat_database) AS "Transactions",
    (SELECT sum(xact_commit) FROM pg_catalog.pg_stat_database) AS "Commits") t
UNION ALL
SELECT 'bio_stats' AS chart_name, pg_catalog.row_to_json(t) AS chart_data FROM (SELECT
    (SELECT sum(blks_read) FROM pg_catalog.pg_stat_database) AS "Reads", (SELECT sum(blks_hit) FROM pg_catalog.pg_stat_database) AS "Hits") t
-- pgAdmin: the dashboard's activity
SELECT pid, datname, usename, application_name, client_addr, pg_catalog.to_char(backend_start, 'YYYY-MM-DD HH24:MI:SS TZ') AS backend_start,
    state, wait_event_type || ': ' || wait_event AS wait_event, array_to_string(pg_catalog.pg_blocking_pids(pid), ', ') AS blocking_pids, query,
    pg_catalog.to_char(state_change, 'YYYY-MM-DD HH24:MI:SS TZ') AS state_change, pg_catalog.to_char(query_start, 'YYYY-MM-DD HH24:MI:SS TZ') AS query_start, backend_type,
    CASE WHEN state = 'active' THEN ROUND((extract(epoch from now() - query_start) / 60)::numeric, 2) ELSE 0 END AS active_since
FROM pg_catalog.pg_stat_activity WHERE datname = (SELECT datname FROM pg_catalog.pg_database WHERE oid = {database}) ORDER BY pid
-- pgAdmin: the dashboard's locks
SELECT pid, locktype, datname, relation::regclass, page, tuple, virtualxid transactionid, classid::regclass, objid, objsubid, virtualtransaction, mode, granted, fastpath
FROM pg_catalog.pg_locks l LEFT OUTER JOIN pg_catalog.pg_database d ON (l.database = d.oid) ORDER BY pid, locktype
-- pgAdmin: a view
SELECT c.oid, c.xmin, (CASE WHEN length(spc.spcname::text) > 0 THEN spc.spcname ELSE 'pg_default' END) AS spcname, c.relname AS name, c.reltablespace AS spcoid,
    description AS comment, pg_catalog.pg_get_userbyid(c.relowner) AS owner, nsp.nspname AS schema, pg_catalog.array_to_string(c.reloptions, ',') AS options,
    pg_catalog.pg_get_viewdef(c.oid, true) AS definition
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_namespace nsp ON nsp.oid = c.relnamespace
LEFT OUTER JOIN pg_catalog.pg_tablespace spc ON spc.oid=c.reltablespace
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=c.oid AND des.objsubid=0 AND des.classoid='pg_class'::regclass)
WHERE ((c.relhasrules AND (EXISTS (SELECT r.rulename FROM pg_catalog.pg_rewrite r WHERE ((r.ev_class = c.oid) AND (pg_catalog.bpchar(r.ev_type) = '1'::bpchar))))) AND (c.relkind = 'v'::char))
    AND c.relnamespace = {shop}::oid ORDER BY c.relname
-- pgAdmin: sequences
SELECT cl.oid AS oid, relname AS name, relnamespace AS schema, cl.relacl, seqcache, description AS comment,
    (SELECT true FROM pg_catalog.pg_depend def WHERE cl.oid = def.objid AND deptype = 'a' LIMIT 1) AS owned
FROM pg_catalog.pg_class cl LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=cl.oid AND des.classoid='pg_class'::regclass)
LEFT JOIN pg_catalog.pg_sequence seq ON seq.seqrelid = cl.oid
WHERE relkind = 'S' AND relnamespace = {shop}::oid ORDER BY relname
-- pgAdmin: types
SELECT t.oid, t.typname AS name, des.description FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_type e ON e.oid=t.typelem
LEFT OUTER JOIN pg_catalog.pg_class ct ON ct.oid=t.typrelid AND ct.relkind <> 'c'
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=t.oid AND des.classoid='pg_type'::regclass)
WHERE t.typtype != 'd' AND t.typname NOT LIKE E'\\_%' AND t.typnamespace = {shop}::oid AND ct.oid is NULL ORDER BY t.typname
-- pgAdmin: what depends on a table
SELECT DISTINCT dep.deptype, dep.classid, cl.relkind, ad.adbin, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid) AS adsrc,
    CASE WHEN cl.relkind IS NOT NULL THEN CASE WHEN cl.relkind = 'r' THEN cl.relkind::text || COALESCE(dep.objsubid::character varying, '') ELSE cl.relkind::text END
        WHEN tg.oid IS NOT NULL THEN 'T'::text WHEN ad.oid IS NOT NULL THEN 'A'::text ELSE '' END AS type
FROM pg_catalog.pg_depend dep
LEFT JOIN pg_catalog.pg_class cl ON dep.objid=cl.oid
LEFT JOIN pg_catalog.pg_trigger tg ON dep.objid=tg.oid
LEFT JOIN pg_catalog.pg_attrdef ad ON ad.oid=dep.objid
WHERE dep.refobjid={item}::OID AND (classid NOT IN (SELECT oid FROM pg_catalog.pg_class WHERE relname IN ('pg_rewrite')))
-- pgAdmin: roles
SELECT r.oid, r.rolname, r.rolcanlogin, r.rolsuper, pg_catalog.shobj_description(r.oid, 'pg_authid') AS description,
    ARRAY(SELECT CASE WHEN am.admin_option THEN '1' ELSE '0' END || rm.rolname FROM (SELECT * FROM pg_catalog.pg_auth_members WHERE member = r.oid) am LEFT JOIN pg_catalog.pg_roles rm ON (rm.oid = am.roleid)) AS rolmembership
FROM pg_catalog.pg_roles r ORDER BY r.rolcanlogin, r.rolname
-- pgAdmin: functions
SELECT pr.oid, pr.proname || '(' || COALESCE(pg_catalog.pg_get_function_identity_arguments(pr.oid), '') || ')' AS name, lanname, pg_catalog.pg_get_userbyid(proowner) AS funcowner, description
FROM pg_catalog.pg_proc pr JOIN pg_catalog.pg_type typ ON typ.oid=prorettype JOIN pg_catalog.pg_language lng ON lng.oid=prolang
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=pr.oid AND des.classoid='pg_proc'::regclass AND des.objsubid = 0)
WHERE pr.prokind = 'f'::char AND pronamespace = {shop}::oid AND typname NOT IN ('trigger', 'event_trigger') ORDER BY proname

-- DataGrip: databases
SELECT N.oid::bigint AS id, datname AS name, D.description, datistemplate AS is_template, datallowconn AS allow_connections, pg_catalog.pg_get_userbyid(N.datdba) AS "owner"
FROM pg_catalog.pg_database N LEFT JOIN pg_catalog.pg_shdescription D ON N.oid = D.objoid
ORDER BY CASE WHEN datname = pg_catalog.current_database() THEN -1::bigint ELSE N.oid::bigint END
-- DataGrip: schemas
SELECT N.oid::bigint AS id, N.xmin AS state_number, nspname AS name, D.description, pg_catalog.pg_get_userbyid(N.nspowner) AS "owner"
FROM pg_catalog.pg_namespace N LEFT JOIN pg_catalog.pg_description D ON N.oid = D.objoid
ORDER BY CASE WHEN nspname = pg_catalog.current_schema() THEN -1::bigint ELSE N.oid::bigint END
-- DataGrip: the transaction's number
SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN null ELSE (pg_catalog.txid_current() % 4294967296)::varchar::bigint END AS current_txid
-- DataGrip: the oldest transaction
SELECT L.transactionid::varchar::bigint AS transaction_id FROM pg_catalog.pg_locks L WHERE L.transactionid IS NOT NULL ORDER BY pg_catalog.age(L.transactionid) DESC LIMIT 1
-- DataGrip: time zones
SELECT name, is_dst FROM pg_catalog.pg_timezone_names UNION DISTINCT SELECT abbrev AS name, is_dst FROM pg_catalog.pg_timezone_abbrevs
-- DataGrip: where it starts
SELECT pg_catalog.current_database() AS a, pg_catalog.current_schema() AS b, pg_catalog.current_schemas(true) AS c, pg_catalog.pg_postmaster_start_time() AS d, extract(epoch from pg_catalog.pg_postmaster_start_time()) AS e
-- DataGrip: relations
SELECT T.relkind AS table_kind, T.relname AS table_name, T.oid AS table_id, T.xmin AS table_state_number, false /* T.relhasoids */ AS table_with_oids,
    T.reltablespace AS tablespace_id, T.reloptions AS options, T.relpersistence AS persistence,
    (SELECT pg_catalog.array_agg(inhparent::bigint ORDER BY inhseqno)::varchar FROM pg_catalog.pg_inherits WHERE T.oid = inhrelid) AS ancestors,
    (SELECT pg_catalog.array_agg(inhrelid::bigint ORDER BY inhrelid)::varchar FROM pg_catalog.pg_inherits WHERE T.oid = inhparent) AS successors,
    T.relispartition AS is_partition, pg_catalog.pg_get_partkeydef(T.oid) AS partition_key, pg_catalog.pg_get_expr(T.relpartbound, T.oid) AS partition_expression,
    T.relam am_id, pg_catalog.pg_get_userbyid(T.relowner) AS "owner"
FROM pg_catalog.pg_class T WHERE relnamespace = {shop}::oid AND relkind IN ('r', 'm', 'v', 'f', 'p') ORDER BY table_kind, table_id
-- DataGrip: columns
WITH T AS (SELECT DISTINCT T.oid AS table_id, T.relname AS table_name FROM pg_catalog.pg_class T, pg_catalog.pg_attribute A
    WHERE T.relnamespace = {shop}::oid AND T.relkind IN ('r', 'm', 'v', 'f', 'p') AND A.attrelid = T.oid)
SELECT T.table_id, C.attnum AS column_position, C.attname AS column_name, C.xmin AS column_state_number, C.atttypmod AS type_mod, C.attndims AS dimensions_number,
    pg_catalog.format_type(C.atttypid, C.atttypmod) AS type_spec, C.atttypid AS type_id, C.attnotnull AS mandatory, pg_catalog.pg_get_expr(D.adbin, T.table_id) AS column_default_expression,
    NOT C.attislocal AS column_is_inherited, C.attfdwoptions AS options, C.attisdropped AS column_is_dropped, C.attidentity AS identity_kind, C.attgenerated AS generated
FROM T JOIN pg_catalog.pg_attribute C ON T.table_id = C.attrelid
LEFT JOIN pg_catalog.pg_attrdef D ON (C.attrelid, C.attnum) = (D.adrelid, D.adnum)
WHERE attnum > 0 ORDER BY table_id, attnum
-- DataGrip: columns' texts [rows]
SELECT attname, pg_catalog.format_type(atttypid, atttypmod) AS type_spec, attnotnull, atthasdef, attidentity, attgenerated
FROM pg_catalog.pg_attribute LEFT JOIN pg_catalog.pg_attrdef ON (attrelid, attnum) = (adrelid, adnum) WHERE attrelid = {item}::oid AND attnum > 0 ORDER BY attnum
-- DataGrip: indexes
SELECT tab.oid table_id, tab.relkind table_kind, ind_stor.relname index_name, ind_head.indexrelid index_id, ind_stor.xmin state_number, ind_head.indisunique is_unique,
    ind_head.indisprimary is_primary, false nulls_not_distinct, pg_catalog.pg_get_expr(ind_head.indpred, ind_head.indrelid) AS condition,
    (SELECT pg_catalog.array_agg(inhparent::bigint ORDER BY inhseqno)::varchar FROM pg_catalog.pg_inherits WHERE ind_stor.oid = inhrelid) AS ancestors,
    ind_stor.reltablespace tablespace_id, opcmethod AS access_method_id
FROM pg_catalog.pg_class tab JOIN pg_catalog.pg_index ind_head ON ind_head.indrelid = tab.oid
JOIN pg_catalog.pg_class ind_stor ON tab.relnamespace = ind_stor.relnamespace AND ind_stor.oid = ind_head.indexrelid
LEFT JOIN pg_catalog.pg_opclass ON pg_opclass.oid = ANY(indclass)
WHERE tab.relnamespace = {shop}::oid AND tab.relkind IN ('r', 'm', 'v', 'p') AND ind_stor.relkind IN ('i', 'I')
-- DataGrip: indexes' columns
SELECT ind_head.indexrelid index_id, k AS col_idx, k <= indnkeyatts AS in_key, ind_head.indkey[k-1] AS column_position, ind_head.indoption[k-1] AS column_options,
    ind_head.indcollation[k-1] AS collation, colln.nspname AS collation_schema, collname AS collation_str, ind_head.indclass[k-1] AS opclass,
    CASE WHEN opcdefault THEN null ELSE opcn.nspname END AS opclass_schema, CASE WHEN opcdefault THEN null ELSE opcname END AS opclass_str,
    CASE WHEN indexprs IS NULL THEN null WHEN ind_head.indkey[k-1] = 0 THEN chr(27) || pg_catalog.pg_get_indexdef(ind_head.indexrelid, k::int, true)
        ELSE pg_catalog.pg_get_indexdef(ind_head.indexrelid, k::int, true) END AS expression, pg_catalog.pg_indexam_has_property(pg_am.oid, 'can_order') can_order
FROM pg_catalog.pg_index ind_head JOIN pg_catalog.pg_class ind_stor ON ind_stor.oid = ind_head.indexrelid
CROSS JOIN unnest(ind_head.indkey) WITH ORDINALITY u(u, k)
LEFT JOIN pg_catalog.pg_collation ON pg_collation.oid = ind_head.indcollation[k-1]
LEFT JOIN pg_catalog.pg_namespace colln ON collnamespace = colln.oid
LEFT JOIN pg_catalog.pg_opclass ON pg_opclass.oid = ind_head.indclass[k-1]
LEFT JOIN pg_catalog.pg_namespace opcn ON opcnamespace = opcn.oid
LEFT JOIN pg_catalog.pg_am ON ind_stor.relam = pg_am.oid
WHERE ind_stor.relnamespace = {shop}::oid AND ind_stor.relkind IN ('i', 'I') ORDER BY index_id, k
-- DataGrip: constraints
SELECT T.oid table_id, relkind table_kind, C.oid::bigint con_id, C.xmin con_state_id, conname con_name, contype con_kind, conkey con_columns, conindid index_id, confrelid ref_table_id,
    condeferrable is_deferrable, condeferred is_init_deferred, confupdtype on_update, confdeltype on_delete, connoinherit no_inherit,
    pg_catalog.pg_get_expr(conbin, T.oid) con_expression, confkey ref_columns, conexclop::int[] excl_operators, array(SELECT unnest::regoper::varchar FROM unnest(conexclop)) excl_operators_str
FROM pg_catalog.pg_constraint C JOIN pg_catalog.pg_class T ON C.conrelid = T.oid
WHERE relkind IN ('r', 'v', 'f', 'p') AND relnamespace = {shop}::oid AND contype IN ('p', 'u', 'f', 'c', 'x') AND connamespace = {shop}::oid
-- DataGrip: definitions of keys [rows]
SELECT conname, contype, pg_catalog.pg_get_constraintdef(oid) AS d FROM pg_catalog.pg_constraint WHERE conrelid = {item}::oid AND contype <> 'c' ORDER BY conname
-- DataGrip: sequences
SELECT cls.xmin AS sequence_state_number, sq.seqrelid AS sequence_id, cls.relname AS sequence_name, pg_catalog.format_type(sq.seqtypid, null) AS data_type, sq.seqstart AS next_value,
    sq.seqincrement AS inc_value, sq.seqmin AS min_value, sq.seqmax AS max_value, sq.seqcache AS cache_size, sq.seqcycle AS cycle_option, pg_catalog.pg_get_userbyid(cls.relowner) AS "owner"
FROM pg_catalog.pg_sequence sq JOIN pg_catalog.pg_class cls ON sq.seqrelid = cls.oid WHERE cls.relnamespace = {shop}::oid
-- DataGrip: sequences of columns
SELECT D.objid AS dependent_id, D.refobjid AS owner_id, D.refobjsubid AS owner_subobject_id FROM pg_catalog.pg_depend D
JOIN pg_catalog.pg_class C_SEQ ON D.objid = C_SEQ.oid AND D.classid = 'pg_catalog.pg_class'::regclass::oid
JOIN pg_catalog.pg_class C_TAB ON D.refobjid = C_TAB.oid AND D.refclassid = 'pg_catalog.pg_class'::regclass::oid
WHERE C_SEQ.relkind = 'S' AND C_TAB.relkind = 'r' AND D.refobjsubid <> 0 AND (D.deptype = 'a' OR D.deptype = 'i') AND C_TAB.relnamespace = {shop}::oid ORDER BY owner_id
-- DataGrip: types
SELECT T.oid AS type_id, T.xmin AS type_state_number, T.typname AS type_name, T.typtype AS type_sub_kind, T.typcategory AS type_category, T.typrelid AS class_id, T.typbasetype AS base_type_id,
    CASE WHEN T.typtype IN ('c','e') THEN null ELSE pg_catalog.format_type(T.typbasetype, T.typtypmod) END AS type_def, T.typndims AS dimensions_number, T.typdefault AS default_expression,
    T.typnotnull AS mandatory, pg_catalog.pg_get_userbyid(T.typowner) AS "owner"
FROM pg_catalog.pg_type T LEFT OUTER JOIN pg_catalog.pg_class C ON T.typrelid = C.oid
WHERE T.typnamespace = {shop}::oid AND (T.typtype IN ('d','e') OR C.relkind = 'c'::"char" OR (T.typtype = 'b' AND (T.typelem = 0 OR T.typcategory <> 'A')) OR T.typtype = 'p' AND NOT T.typisdefined) ORDER BY 1
-- DataGrip: labels of enums
WITH types AS (SELECT DISTINCT T.oid AS type_id FROM pg_catalog.pg_type T JOIN pg_catalog.pg_enum E ON T.oid = E.enumtypid WHERE T.typnamespace = {shop}::oid AND T.typtype = 'e'::"char")
SELECT T.type_id AS enum_id, pg_catalog.array_agg(E.enumlabel::varchar ORDER BY E.enumsortorder) AS enum_labels FROM types T JOIN pg_catalog.pg_enum E ON T.type_id = E.enumtypid GROUP BY T.type_id
-- DataGrip: sources of views
SELECT T.relkind AS view_kind, T.oid AS view_id, pg_catalog.pg_get_viewdef(T.oid, true) AS source_text FROM pg_catalog.pg_class T JOIN pg_catalog.pg_namespace N ON T.relnamespace = N.oid
WHERE N.oid = {shop}::oid AND T.relkind IN ('m','v')
-- DataGrip: comments
SELECT T.oid id, T.relkind AS kind, D.objsubid AS sub_id, D.description FROM pg_catalog.pg_class T JOIN pg_catalog.pg_description D ON D.objoid = T.oid AND D.classoid = 'pg_catalog.pg_class'::regclass
WHERE T.relnamespace = {shop}::oid ORDER BY id, sub_id
-- DataGrip: rights
SELECT T.oid AS object_id, T.relacl AS acl FROM pg_catalog.pg_class T WHERE relnamespace = {shop}::oid AND T.relacl IS NOT NULL ORDER BY object_id
-- DataGrip: roles
SELECT R.oid::bigint AS role_id, rolname AS role_name, rolsuper AS is_super, rolinherit AS is_inherit, rolcreaterole AS can_createrole, rolcreatedb AS can_createdb, rolcanlogin AS can_login,
    rolreplication AS is_replication, rolconnlimit AS conn_limit, rolvaliduntil AS valid_until, rolbypassrls AS bypass_rls, rolconfig AS config, D.description
FROM pg_catalog.pg_roles R LEFT JOIN pg_catalog.pg_shdescription D ON D.objoid = R.oid
-- DataGrip: members
SELECT member id, roleid role_id, admin_option FROM pg_catalog.pg_auth_members ORDER BY id, roleid::text
-- DataGrip: routines
WITH languages AS (SELECT oid AS lang_oid, lanname AS lang FROM pg_catalog.pg_language),
routines AS (SELECT proname AS r_name, prolang AS lang_oid, oid AS r_id, xmin AS r_state_number, proargnames AS arg_names, proargmodes AS arg_modes, proargtypes::int[] AS in_arg_types, proallargtypes::int[] AS all_arg_types,
    pg_catalog.pg_get_expr(proargdefaults, 0) AS arg_defaults, provariadic AS arg_variadic_id, prorettype AS ret_type_id, proretset AS ret_set, prokind AS kind, provolatile AS volatile_kind, proisstrict AS is_strict,
    prosecdef AS is_security_definer, proconfig AS configuration_parameters, procost AS cost, pg_catalog.pg_get_userbyid(proowner) AS "owner", prorows AS rows, proleakproof AS is_leakproof, proparallel AS concurrency_kind
    FROM pg_catalog.pg_proc WHERE pronamespace = {shop}::oid AND NOT (prokind = 'a'))
SELECT * FROM routines NATURAL JOIN languages
-- DataGrip: operators and casts
SELECT C.oid, C.xmin AS state_number, C.castsource AS castsource_id, pg_catalog.quote_ident(SN.nspname) || '.' || pg_catalog.quote_ident(S.typname) AS castsource_name, C.casttarget AS casttarget_id,
    C.castfunc AS castfunc_id, C.castcontext, C.castmethod
FROM pg_cast C LEFT JOIN pg_type S ON C.castsource = S.oid LEFT JOIN pg_catalog.pg_namespace SN ON S.typnamespace = SN.oid
-- DataGrip: rules
SELECT R.ev_class AS table_id, R.oid AS rule_id, R.xmin AS rule_state_number, R.rulename AS rule_name, pg_catalog.translate(ev_type,'1234','SUID') AS rule_event_code, R.ev_enabled AS rule_fire_mode, R.is_instead AS rule_is_instead
FROM pg_catalog.pg_rewrite R WHERE R.ev_class IN (SELECT oid FROM pg_catalog.pg_class WHERE relnamespace = {shop}::oid) ORDER BY R.ev_class::bigint, ev_type

-- Metabase: tables
SELECT n.nspname AS schema, c.relname AS name, CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS type,
    d.description AS description, stat.n_live_tup AS estimated_row_count
FROM pg_catalog.pg_class AS c INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
LEFT JOIN pg_catalog.pg_description AS d ON (c.oid = d.objoid) AND (d.objsubid = 0) AND (d.classoid = 'pg_class'::regclass)
LEFT JOIN pg_stat_user_tables AS stat ON (n.nspname = stat.schemaname) AND (c.relname = stat.relname)
WHERE (c.relnamespace = n.oid) AND (n.nspname !~ '^pg_') AND (n.nspname <> 'information_schema') AND c.relkind IN ('r', 'p', 'v', 'f', 'm') AND (n.nspname IN ('shop'))
ORDER BY type ASC, schema ASC, name ASC
-- Metabase: rights
with table_privileges as (
 select NULL as role, t.schemaname as schema, t.objectname as table,
   pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"',  'update') as update,
   pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"',  'select') as select,
   pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"',  'insert') as insert,
   pg_catalog.has_table_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"',  'delete') as delete
 from (select schemaname, tablename as objectname from pg_catalog.pg_tables
   union select schemaname, viewname as objectname from pg_catalog.pg_views
   union select schemaname, matviewname as objectname from pg_catalog.pg_matviews) t
 where t.schemaname !~ '^pg_' and t.schemaname <> 'information_schema' and pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage'))
select t.* from table_privileges t where t.update or t.select or t.insert or t.delete
-- Metabase: fields [rows]
SELECT "c"."column_name" AS "name",
    CASE WHEN "c"."udt_schema" IN ('public', 'pg_catalog') THEN FORMAT('%s', "c"."udt_name") ELSE FORMAT('"%s"."%s"', "c"."udt_schema", "c"."udt_name") END AS "database-type",
    "c"."ordinal_position" - 1 AS "database-position", "c"."table_schema" AS "table-schema", "c"."table_name" AS "table-name", "pk"."column_name" IS NOT NULL AS "pk?",
    COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', CAST("c"."table_schema" AS TEXT), CAST("c"."table_name" AS TEXT)) AS REGCLASS) AS OID), "c"."ordinal_position") AS "field-comment",
    (("column_default" IS NULL) OR (LOWER("column_default") = 'null')) AND ("is_nullable" = 'NO') AND NOT ((("column_default" IS NOT NULL) AND ("column_default" LIKE '%nextval(%')) OR ("is_identity" <> 'NO')) AS "database-required",
    (("column_default" IS NOT NULL) AND ("column_default" LIKE '%nextval(%')) OR ("is_identity" <> 'NO') AS "database-is-auto-increment"
FROM "information_schema"."columns" AS "c"
LEFT JOIN (SELECT "tc"."table_schema", "tc"."table_name", "kc"."column_name" FROM "information_schema"."table_constraints" AS "tc"
    INNER JOIN "information_schema"."key_column_usage" AS "kc" ON ("tc"."constraint_name" = "kc"."constraint_name") AND ("tc"."table_schema" = "kc"."table_schema") AND ("tc"."table_name" = "kc"."table_name")
    WHERE "tc"."constraint_type" = 'PRIMARY KEY') AS "pk" ON ("c"."table_schema" = "pk"."table_schema") AND ("c"."table_name" = "pk"."table_name") AND ("c"."column_name" = "pk"."column_name")
WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND ("c"."table_schema" IN ('shop'))
UNION ALL
SELECT "pa"."attname" AS "name", CASE WHEN "ptn"."nspname" IN ('public', 'pg_catalog') THEN FORMAT('%s', "pt"."typname") ELSE FORMAT('"%s"."%s"', "ptn"."nspname", "pt"."typname") END AS "database-type",
    "pa"."attnum" - 1 AS "database-position", "pn"."nspname" AS "table-schema", "pc"."relname" AS "table-name", FALSE AS "pk?", NULL AS "field-comment", FALSE AS "database-required", FALSE AS "database-is-auto-increment"
FROM "pg_catalog"."pg_class" AS "pc" INNER JOIN "pg_catalog"."pg_namespace" AS "pn" ON "pn"."oid" = "pc"."relnamespace" INNER JOIN "pg_catalog"."pg_attribute" AS "pa" ON "pa"."attrelid" = "pc"."oid"
INNER JOIN "pg_catalog"."pg_type" AS "pt" ON "pt"."oid" = "pa"."atttypid" INNER JOIN "pg_catalog"."pg_namespace" AS "ptn" ON "ptn"."oid" = "pt"."typnamespace"
WHERE ("pc"."relkind" = 'm') AND ("pa"."attnum" >= 1) AND ("pn"."nspname" IN ('shop'))
ORDER BY "table-schema" ASC, "table-name" ASC, "database-position" ASC
-- Metabase: foreign keys [rows]
SELECT "fk_ns"."nspname" AS "fk-table-schema", "fk_table"."relname" AS "fk-table-name", "fk_column"."attname" AS "fk-column-name", "pk_ns"."nspname" AS "pk-table-schema", "pk_table"."relname" AS "pk-table-name", "pk_column"."attname" AS "pk-column-name"
FROM "pg_constraint" AS "c" INNER JOIN "pg_class" AS "fk_table" ON "c"."conrelid" = "fk_table"."oid" INNER JOIN "pg_namespace" AS "fk_ns" ON "c"."connamespace" = "fk_ns"."oid"
INNER JOIN "pg_attribute" AS "fk_column" ON "c"."conrelid" = "fk_column"."attrelid" INNER JOIN "pg_class" AS "pk_table" ON "c"."confrelid" = "pk_table"."oid"
INNER JOIN "pg_namespace" AS "pk_ns" ON "pk_table"."relnamespace" = "pk_ns"."oid" INNER JOIN "pg_attribute" AS "pk_column" ON "c"."confrelid" = "pk_column"."attrelid"
WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' AND ("c"."contype" = 'f'::char) AND ("fk_column"."attnum" = ANY(c.conkey)) AND ("pk_column"."attnum" = ANY(c.confkey)) AND ("fk_ns"."nspname" IN ('shop'))
ORDER BY "fk-table-schema" ASC, "fk-table-name" ASC
-- Metabase: indexed columns [rows]
SELECT tmp.table_schema AS "table-schema", tmp.table_name AS "table-name", TRIM(BOTH '"' FROM PG_GET_INDEXDEF(tmp.ci_oid, tmp.pos, FALSE)) AS "field-name"
FROM (SELECT n.nspname AS table_schema, ct.relname AS table_name, ci.oid AS ci_oid, (INFORMATION_SCHEMA._PG_EXPANDARRAY(i.indkey)).n AS pos
    FROM pg_catalog.pg_class AS ct INNER JOIN pg_catalog.pg_namespace AS n ON ct.relnamespace = n.oid INNER JOIN pg_catalog.pg_index AS i ON ct.oid = i.indrelid INNER JOIN pg_catalog.pg_class AS ci ON ci.oid = i.indexrelid
    WHERE (PG_CATALOG.PG_GET_EXPR(i.indpred, i.indrelid) IS NULL) AND n.nspname !~ '^information_schema|catalog_history|pg_' AND n.nspname IN ('shop')) AS tmp
WHERE tmp.pos = 1 ORDER BY 2, 3
-- Metabase: enums [rows]
SELECT nspname, typname, enumlabel FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid JOIN pg_namespace n ON n.oid = t.typnamespace WHERE nspname = 'shop' ORDER BY enumsortorder
-- Metabase: the time zone
SELECT to_char(current_timestamp, 'YYYY-MM-DD HH24:MI:SS.MS TZ')
-- Metabase: a sample of values [rows]
SELECT "source"."substring1" AS "substring1", "source"."price" AS "price" FROM (SELECT "shop"."item"."price" AS "price", SUBSTRING("shop"."item"."name", 1, 1234) AS "substring1" FROM "shop"."item") AS "source" ORDER BY 1 LIMIT 10000
-- Metabase: weeks [rows]
SELECT CAST((DATE_TRUNC('week', (made + INTERVAL '1 day')) + INTERVAL '-1 day') AS date) AS made, COUNT(*) AS count FROM shop.customer GROUP BY (DATE_TRUNC('week', (made + INTERVAL '1 day')) + INTERVAL '-1 day') ORDER BY 1
-- Metabase: bins and a filter of dates [rows]
SELECT FLOOR((("shop"."item"."price" - 0.0) / 5.0)) * 5.0 + 0.0 AS "price", COUNT(*) AS "count", SUM(CASE WHEN "shop"."item"."price" > 5 THEN 1 ELSE 0.0 END) AS "sum-where", PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY "shop"."item"."price") AS "median"
FROM "shop"."item" WHERE "shop"."item"."day" IS NULL OR ("shop"."item"."day" >= DATE_TRUNC('month', timestamp '2024-02-29 00:00:00.000') AND "shop"."item"."day" < CAST((CAST(now() AS timestamp) + (INTERVAL '1 year')) AS date))
GROUP BY FLOOR((("shop"."item"."price" - 0.0) / 5.0)) * 5.0 + 0.0 ORDER BY 1 ASC
-- Metabase: members of JSON documents [rows]
SELECT ("shop"."item"."doc"#>> array['n']::text[])::bigint AS n, COUNT(*) AS "count" FROM "shop"."item" WHERE jsonb_typeof(doc) = 'object' GROUP BY ("shop"."item"."doc"#>> array['n']::text[])::bigint ORDER BY 1

-- Grafana: whether it is there
SELECT 1
-- Grafana: the version
SELECT current_setting('server_version_num')::int/100 as version
-- Grafana: TimescaleDB
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'
-- Grafana: tables
SELECT CASE WHEN quote_ident(table_schema) IN (
        SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
        FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), array_upper(string_to_array(current_setting('search_path'),','),1)) AS i,
            string_to_array(current_setting('search_path'),',') s)
    THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
FROM information_schema.tables
WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache', '_timescaledb_catalog', '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information', 'timescaledb_experimental') ORDER BY 1
-- Grafana: columns [rows]
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('shop.item'),1) = 2
    THEN quote_ident(table_schema) = (parse_ident('shop.item'))[1] AND quote_ident(table_name) = (parse_ident('shop.item'))[2]
    ELSE quote_ident(table_name) = 'shop.item' AND quote_ident(table_schema) IN ('public') END
ORDER BY ordinal_position
-- Grafana: a series [rows]
SELECT floor(extract(epoch from "made")/300)*300 AS "time", count(*) AS "n", avg(id) AS "average" FROM shop.customer
WHERE "made" BETWEEN '2024-02-01T00:00:00Z' AND '2024-04-01T00:00:00Z' GROUP BY floor(extract(epoch from "made")/300)*300, 1 ORDER BY 1
-- Grafana: a series by time_bucket's stand-in [rows]
SELECT date_bin('5 minutes', made, TIMESTAMPTZ '2001-01-01 00:00:00Z') AS "time", name AS metric, id::float8 AS value FROM shop.customer WHERE made >= to_timestamp(1706745600) ORDER BY 1, 2

-- Superset: the dialect's first questions
select pg_catalog.version()
-- Superset: standard strings
show standard_conforming_strings
-- Superset: schemas
SELECT pg_catalog.pg_namespace.nspname FROM pg_catalog.pg_namespace WHERE pg_catalog.pg_namespace.nspname NOT LIKE 'pg_%%' ORDER BY pg_catalog.pg_namespace.nspname
-- Superset: tables [rows]
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'shop' AND c.relkind in ('r', 'p') ORDER BY 1
-- Superset: views [rows]
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'shop' AND c.relkind IN ('v', 'm') ORDER BY 1
-- Superset: columns
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
    (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef) AS DEFAULT,
    a.attnotnull, a.attrelid as table_oid, pgd.description as comment, a.attgenerated as generated,
    (SELECT json_build_object('always', a.attidentity = 'a', 'start', s.seqstart, 'increment', s.seqincrement, 'minvalue', s.seqmin, 'maxvalue', s.seqmax, 'cache', s.seqcache, 'cycle', s.seqcycle)
        FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c on s.seqrelid = c."oid" WHERE c.relkind = 'S' AND a.attidentity != '' AND s.seqrelid = pg_catalog.pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)::regclass::oid) as identity_options
FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_description pgd ON (pgd.objoid = a.attrelid AND pgd.objsubid = a.attnum)
WHERE a.attrelid = {customer} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
-- Superset: the key [rows]
SELECT a.attname FROM pg_attribute a JOIN (SELECT unnest(ix.indkey) attnum, generate_subscripts(ix.indkey, 1) ord FROM pg_index ix WHERE ix.indrelid = {item} AND ix.indisprimary) k ON a.attnum=k.attnum WHERE a.attrelid = {item} ORDER BY k.ord
-- Superset: foreign keys [rows]
SELECT r.conname, pg_catalog.pg_get_constraintdef(r.oid, true) as condef, n.nspname as conschema FROM pg_catalog.pg_constraint r, pg_namespace n, pg_class c
WHERE r.conrelid = {item} AND r.contype = 'f' AND c.oid = confrelid AND n.oid = c.relnamespace ORDER BY 1
-- Superset: indexes
SELECT i.relname as relname, ix.indisunique, ix.indexprs, a.attname, a.attnum, c.conrelid, ix.indkey::varchar, ix.indoption::varchar, i.reloptions, am.amname, pg_get_expr(ix.indpred, ix.indrelid), ix.indnkeyatts as indnkeyatts
FROM pg_class t join pg_index ix on t.oid = ix.indrelid join pg_class i on i.oid = ix.indexrelid left outer join pg_attribute a on t.oid = a.attrelid and a.attnum = ANY(ix.indkey)
left outer join pg_constraint c on (ix.indrelid = c.conrelid and ix.indexrelid = c.conindid and c.contype in ('p', 'u', 'x')) left outer join pg_am am on i.relam = am.oid
WHERE t.relkind IN ('r', 'v', 'f', 'm', 'p') and t.oid = {item} and ix.indisprimary = 'f' ORDER BY t.relname, i.relname
-- Superset: unique constraints
SELECT cons.conname as name, cons.conkey as key, a.attnum as col_num, a.attname as col_name FROM pg_catalog.pg_constraint cons
join pg_attribute a on cons.conrelid = a.attrelid AND a.attnum = ANY(cons.conkey) WHERE cons.conrelid = {item} AND cons.contype = 'u'
-- Superset: checks
SELECT cons.conname as name, pg_get_constraintdef(cons.oid) as src FROM pg_catalog.pg_constraint cons WHERE cons.conrelid = {item} AND cons.contype = 'c'
-- Superset: enums
SELECT t.typname as "name", pg_catalog.pg_type_is_visible(t.oid) as "visible", n.nspname as "schema", e.enumlabel as "label" FROM pg_catalog.pg_type t
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace LEFT JOIN pg_catalog.pg_enum e ON t.oid = e.enumtypid WHERE t.typtype = 'e' ORDER BY "schema", "name", e.oid
-- Superset: enums as a new dialect asks [rows]
SELECT pg_catalog.pg_type.typname AS name, pg_catalog.pg_type_is_visible(pg_catalog.pg_type.oid) AS visible, pg_catalog.pg_namespace.nspname AS schema, lbl_agg.labels AS labels
FROM pg_catalog.pg_type JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_type.typnamespace
LEFT OUTER JOIN (SELECT pg_catalog.pg_enum.enumtypid AS enumtypid, array_agg(CAST(pg_catalog.pg_enum.enumlabel AS TEXT) ORDER BY pg_catalog.pg_enum.enumsortorder) AS labels FROM pg_catalog.pg_enum GROUP BY pg_catalog.pg_enum.enumtypid) AS lbl_agg
    ON pg_catalog.pg_type.oid = lbl_agg.enumtypid WHERE pg_catalog.pg_type.typtype = 'e' ORDER BY pg_catalog.pg_namespace.nspname, pg_catalog.pg_type.typname
-- Superset: domains
SELECT t.typname as "name", pg_catalog.format_type(t.typbasetype, t.typtypmod) as "attype", not t.typnotnull as "nullable", t.typdefault as "default", pg_catalog.pg_type_is_visible(t.oid) as "visible", n.nspname as "schema"
FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype = 'd'
-- Superset: a chart [rows]
SELECT DATE_TRUNC('month', made) AS __timestamp, name AS name, COUNT(*) AS count FROM shop.customer
JOIN (SELECT name AS name__, COUNT(*) AS mme_inner__ FROM shop.customer WHERE made >= TO_TIMESTAMP('2024-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY name ORDER BY mme_inner__ DESC LIMIT 100) AS anon_1 ON name = name__
WHERE made >= TO_TIMESTAMP('2024-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND made < TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY name, DATE_TRUNC('month', made) ORDER BY count DESC, name LIMIT 10000
-- Superset: a virtual data set [rows]
SELECT sum(price) AS "SUM(price)", state::text AS state FROM (SELECT i.*, c.mail FROM shop.item i JOIN shop.customer c ON c.id = i.customer_id) AS virtual_table GROUP BY state ORDER BY "SUM(price)" DESC NULLS LAST LIMIT 1000
-- Superset: the cost
EXPLAIN SELECT * FROM shop.item

-- Tableau: settings of its driver
SET DateStyle = 'ISO';SET extra_float_digits = 2;show transaction_isolation
-- Tableau: large objects
select oid, typbasetype from pg_type where typname = 'lo'
-- Tableau: relations
select relname, nspname, relkind from pg_catalog.pg_class c, pg_catalog.pg_namespace n where relkind in ('r', 'v', 'm', 'f', 'p') and nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pg_temp_1') and n.oid = relnamespace order by nspname, relname
-- Tableau: columns
select n.nspname, c.relname, a.attname, a.atttypid, t.typname, a.attnum, a.attlen, a.atttypmod, a.attnotnull, c.relhasrules, c.relkind, c.oid, pg_get_expr(d.adbin, d.adrelid),
    case t.typtype when 'd' then t.typbasetype else 0 end, t.typtypmod, 0, attidentity, c.relhassubclass
from (((pg_catalog.pg_class c inner join pg_catalog.pg_namespace n on n.oid = c.relnamespace and c.relname like E'item' and n.nspname like E'shop')
inner join pg_catalog.pg_attribute a on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid) inner join pg_catalog.pg_type t on t.oid = a.atttypid)
left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid and d.adnum = a.attnum order by n.nspname, c.relname, attnum
-- Tableau: the key [rows]
select ta.attname, ia.attnum, ic.relname, n.nspname, tc.relname from pg_catalog.pg_attribute ta, pg_catalog.pg_attribute ia, pg_catalog.pg_class tc, pg_catalog.pg_index i, pg_catalog.pg_namespace n, pg_catalog.pg_class ic
where tc.relname = 'item' AND n.nspname = 'shop' AND tc.oid = i.indrelid AND n.oid = tc.relnamespace AND i.indisprimary = 't' AND ia.attrelid = i.indexrelid AND ta.attrelid = i.indrelid
AND ta.attnum = i.indkey[ia.attnum-1] AND (NOT ta.attisdropped) AND (NOT ia.attisdropped) AND ic.oid = i.indexrelid order by ia.attnum
-- Tableau: foreign keys [rows]
select 'halcyon'::name as "PKTABLE_CAT", n2.nspname as "PKTABLE_SCHEM", c2.relname as "PKTABLE_NAME", a2.attname as "PKCOLUMN_NAME", n1.nspname as "FKTABLE_SCHEM", c1.relname as "FKTABLE_NAME", a1.attname as "FKCOLUMN_NAME", i::int2 as "KEY_SEQ",
    case ref.confupdtype when 'c' then 0::int2 when 'n' then 2::int2 when 'd' then 4::int2 when 'r' then 1::int2 else 3::int2 end as "UPDATE_RULE",
    case ref.confdeltype when 'c' then 0::int2 when 'n' then 2::int2 when 'd' then 4::int2 when 'r' then 1::int2 else 3::int2 end as "DELETE_RULE", ref.conname as "FK_NAME", cn.conname as "PK_NAME",
    case when ref.condeferrable then case when ref.condeferred then 5::int2 else 6::int2 end else 7::int2 end as "DEFERRABLITY"
from ((((((( (select cn.oid, conrelid, conkey, confrelid, confkey, generate_series(array_lower(conkey, 1), array_upper(conkey, 1)) as i, confupdtype, confdeltype, conname, condeferrable, condeferred
        from pg_catalog.pg_constraint cn, pg_catalog.pg_class c, pg_catalog.pg_namespace n where contype = 'f' and conrelid = c.oid and relname = E'item' and n.oid = c.relnamespace and n.nspname = E'shop') ref
    inner join pg_catalog.pg_class c1 on c1.oid = ref.conrelid) inner join pg_catalog.pg_namespace n1 on n1.oid = c1.relnamespace)
    inner join pg_catalog.pg_attribute a1 on a1.attrelid = c1.oid and a1.attnum = conkey[i]) inner join pg_catalog.pg_class c2 on c2.oid = ref.confrelid)
    inner join pg_catalog.pg_namespace n2 on n2.oid = c2.relnamespace) inner join pg_catalog.pg_attribute a2 on a2.attrelid = c2.oid and a2.attnum = confkey[i])
    left outer join pg_catalog.pg_constraint cn on cn.conrelid = ref.confrelid and cn.contype = 'p')
order by ref.oid, ref.i
-- Tableau: statistics of its driver
select c.relname, i.indkey, i.indisunique, i.indisclustered, a.amname, c.relhasrules, n.nspname, c.oid, '0', i.indoption
from pg_catalog.pg_index i, pg_catalog.pg_class c, pg_catalog.pg_class d, pg_catalog.pg_am a, pg_catalog.pg_namespace n
where d.relname = 'item' and n.nspname = 'shop' and n.oid = d.relnamespace and d.oid = i.indrelid and i.indexrelid = c.oid and c.relam = a.oid order by i.indisprimary desc, i.indisunique, n.nspname, c.relname
-- Tableau: a test of temporary tables
CREATE LOCAL TEMPORARY TABLE "#Tableau_1_Connect" ("COL" INTEGER) ON COMMIT PRESERVE ROWS; INSERT INTO "#Tableau_1_Connect" VALUES (1); SELECT "COL" FROM "#Tableau_1_Connect" LIMIT 1; DROP TABLE "#Tableau_1_Connect"
-- Tableau: a test of subqueries
SELECT "SUBQUERY"."COL" AS "COL" FROM (SELECT 1 AS "COL") "SUBQUERY" LIMIT 1
-- Tableau: a cursor
BEGIN;declare "SQL_CUR0x1" cursor with hold for SELECT "item"."name" AS "name", SUM("item"."price") AS "sum:price:ok" FROM "shop"."item" "item" GROUP BY 1;fetch 2048 in "SQL_CUR0x1";CLOSE "SQL_CUR0x1";COMMIT
-- Tableau: months and a set [rows]
SELECT CAST(DATE_TRUNC('MONTH', CAST("item"."day" AS DATE)) AS DATE) AS "tmn:day:ok", CAST(EXTRACT(YEAR FROM "item"."day") AS INTEGER) AS "yr", SUM("item"."price") AS "s" FROM "shop"."item" "item"
WHERE (("item"."day" >= (DATE '2024-02-01')) AND ("item"."name" IN ('tea', 'coffee'))) GROUP BY 1, 2 HAVING (COUNT(1) > 0) ORDER BY 1
