//! Databases and connections: the cases of `DatabaseTest` and `ConnectionTest` of Apache Arrow ADBC's validation suite
//! (named in comments), stated anew, and what the suite has none for.

mod common;

use std::collections::HashSet;

use adbc_core::error::Status;
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionDatabase, OptionValue};
use adbc_core::{Connection, Database, Optionable, Statement, schemas};
use adbc_driver_manager::ManagedConnection;
use arrow::array::{Array, AsArray, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type, UInt32Type};
use common::*;

fn option(connection: &ManagedConnection, key: OptionConnection) -> String {
    connection.get_option_string(key).expect("an option")
}

// DatabaseTest.NewInit, ConnectionTest.NewInit, Release, Concurrent
#[test]
fn connections_of_one_database_see_the_same_tables() {
    let database = open(&[]).unwrap();
    let (mut one, mut two) =
        (database.new_connection().unwrap(), database.new_connection().unwrap());
    run(&mut one, "CREATE TABLE t (a int)").unwrap();
    assert_eq!(run(&mut two, "INSERT INTO t VALUES (1), (2)").unwrap(), Some(2));
    drop(two);
    assert_eq!(number(&mut one, "SELECT count(*) FROM t"), 2);
}

#[test]
fn databases_in_memory_are_apart() {
    let (mut one, mut two) = (connect(), connect());
    run(&mut one, "CREATE TABLE t (a int)").unwrap();
    assert_eq!(run(&mut two, "SELECT * FROM t").unwrap_err().status, Status::NotFound);
}

#[test]
fn a_folder_that_is_opened_twice_is_shared_and_outlives_its_connections() {
    let folder = std::env::temp_dir().join(format!("adbc-shared-{}", std::process::id()));
    let path = folder.to_str().unwrap().to_owned();
    let uri = format!("file://{path}");
    {
        let (one, two) = (open(&[("path", &path)]).unwrap(), open(&[("uri", &uri)]).unwrap());
        assert_eq!(one.get_option_string(OptionDatabase::Uri).unwrap(), path);
        let mut first = one.new_connection().unwrap();
        run(&mut first, "CREATE TABLE t (a int); INSERT INTO t VALUES (7)").unwrap();
        drop(one);
        assert_eq!(number(&mut two.new_connection().unwrap(), "SELECT a FROM t"), 7);
        let refused = open(&[("path", &path), ("threads", "1")]).err().unwrap();
        assert_eq!(refused.status, Status::InvalidState, "{refused}");
    }
    let again = open(&[("path", &path), ("threads", "1")]).unwrap();
    let mut connection = again.new_connection().unwrap();
    assert_eq!(number(&mut connection, "SELECT a FROM t"), 7);
    drop((connection, again));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn wrong_options_of_a_database_are_refused() {
    for (options, status) in [
        (&[("password", "secret")][..], Status::NotImplemented),
        (&[("uri", "postgresql://host/db")], Status::InvalidArguments),
        (&[("uri", "a"), ("path", "b")], Status::InvalidArguments),
        (&[("threads", "many")], Status::InvalidArguments),
        (&[("no_such_setting", "1")], Status::NotFound),
        (&[("path", "/proc/no/such/folder")], Status::IO),
    ] {
        let error = open(options).err().expect("an error");
        assert_eq!(error.status, status, "{options:?}: {error}");
    }
}

#[test]
fn a_role_that_does_not_exist_is_refused_and_one_that_does_is_the_user() {
    let database = open(&[("username", "nobody")]).unwrap();
    let error = database.new_connection().err().unwrap();
    assert_eq!((error.status, state(&error).as_str()), (Status::Unauthenticated, "28000"));
    let folder = std::env::temp_dir().join(format!("adbc-role-{}", std::process::id()));
    let path = folder.to_str().unwrap();
    let owner = open(&[("path", path)]).unwrap();
    run(&mut owner.new_connection().unwrap(), "CREATE ROLE reader LOGIN").unwrap();
    let reader = open(&[("path", path), ("username", "reader")]).unwrap();
    let mut reader = reader.new_connection().unwrap();
    assert_eq!(text(&mut reader, "SELECT current_user"), "reader");
    let refused = run(&mut reader, "CREATE ROLE other").unwrap_err();
    assert_eq!(refused.status, Status::Unauthorized, "{refused}");
    drop((reader, owner));
    std::fs::remove_dir_all(folder).unwrap();
}

// ConnectionTest.AutocommitDefault, AutocommitToggle, StatementTest.SqlQueryInsertRollback, Transactions
#[test]
fn without_autocommit_a_transaction_lasts_until_commit_or_rollback() {
    let database = open(&[]).unwrap();
    let (mut one, mut two) =
        (database.new_connection().unwrap(), database.new_connection().unwrap());
    assert_eq!(option(&one, OptionConnection::AutoCommit), "true");
    for end in [ManagedConnection::commit, ManagedConnection::rollback] {
        assert_eq!(end(&mut one).unwrap_err().status, Status::InvalidState);
    }
    one.set_option(OptionConnection::AutoCommit, "false".into()).unwrap();
    assert_eq!(option(&one, OptionConnection::AutoCommit), "false");
    one.commit().unwrap();
    run(&mut one, "CREATE TABLE t (a int)").unwrap();
    assert_eq!(run(&mut two, "SELECT * FROM t").unwrap_err().status, Status::NotFound);
    one.commit().unwrap();
    run(&mut one, "INSERT INTO t VALUES (1)").unwrap();
    one.rollback().unwrap();
    assert_eq!(number(&mut two, "SELECT count(*) FROM t"), 0);
    run(&mut one, "INSERT INTO t VALUES (1)").unwrap();
    // The transaction in progress is committed.
    one.set_option(OptionConnection::AutoCommit, "true".into()).unwrap();
    assert_eq!(number(&mut two, "SELECT count(*) FROM t"), 1);
}

#[test]
fn a_statement_that_fails_ends_the_transaction_but_not_the_connection() {
    let mut connection = connect();
    connection.set_option(OptionConnection::AutoCommit, "false".into()).unwrap();
    run(&mut connection, "CREATE TABLE t (a int)").unwrap();
    assert_eq!(run(&mut connection, "SELECT 1/0").unwrap_err().status, Status::InvalidData);
    let failed = run(&mut connection, "SELECT 1").unwrap_err();
    assert_eq!((failed.status, state(&failed).as_str()), (Status::InvalidState, "25P02"));
    connection.rollback().unwrap();
    assert_eq!(number(&mut connection, "SELECT 1"), 1);
}

#[test]
fn transactions_have_the_modes_that_options_set() {
    let mut connection = connect();
    let level = |name: &str| format!("adbc.connection.transaction.isolation.{name}");
    for (name, found) in [
        ("read_committed", "read_committed"),
        ("read_uncommitted", "read_uncommitted"),
        ("snapshot", "repeatable_read"),
        ("serializable", "serializable"),
        ("default", "serializable"),
    ] {
        let value = level(name).as_str().into();
        connection.set_option(OptionConnection::IsolationLevel, value).unwrap();
        assert_eq!(option(&connection, OptionConnection::IsolationLevel), level(found), "{name}");
    }
    let mut refuse = |key: OptionConnection, value: &str, status| {
        let error = connection.set_option(key, value.into()).unwrap_err();
        assert_eq!(error.status, status, "{error}");
    };
    refuse(OptionConnection::IsolationLevel, &level("linearizable"), Status::NotImplemented);
    refuse(OptionConnection::IsolationLevel, "quick", Status::InvalidArguments);
    refuse(OptionConnection::AutoCommit, "maybe", Status::InvalidArguments);
    refuse(OptionConnection::Other("no.such.option".into()), "1", Status::NotImplemented);
    connection.set_option(OptionConnection::ReadOnly, "true".into()).unwrap();
    assert_eq!(option(&connection, OptionConnection::ReadOnly), "true");
    let refused = run(&mut connection, "CREATE TABLE t (a int)").unwrap_err();
    assert_eq!((refused.status, state(&refused).as_str()), (Status::InvalidState, "25006"));
    connection.set_option(OptionConnection::ReadOnly, "false".into()).unwrap();
    run(&mut connection, "CREATE TABLE t (a int)").unwrap();
    connection.set_option(OptionConnection::AutoCommit, "false".into()).unwrap();
    run(&mut connection, "SELECT 1").unwrap();
    let late = connection.set_option(OptionConnection::ReadOnly, "true".into()).unwrap_err();
    assert_eq!(late.status, Status::InvalidState);
}

// ConnectionTest.MetadataCurrentCatalog, MetadataCurrentDbSchema
#[test]
fn the_current_catalog_is_one_and_the_schema_can_be_set() {
    let mut connection = connect();
    assert_eq!(option(&connection, OptionConnection::CurrentCatalog), "halcyon");
    assert_eq!(option(&connection, OptionConnection::CurrentSchema), "public");
    connection.set_option(OptionConnection::CurrentCatalog, "halcyon".into()).unwrap();
    let other = connection.set_option(OptionConnection::CurrentCatalog, "other".into());
    assert_eq!(other.unwrap_err().status, Status::NotFound);
    let missing = connection.set_option(OptionConnection::CurrentSchema, "s\"1".into());
    assert_eq!(missing.unwrap_err().status, Status::NotFound);
    run(&mut connection, "CREATE SCHEMA \"s\"\"1\"").unwrap();
    connection.set_option(OptionConnection::CurrentSchema, "s\"1".into()).unwrap();
    assert_eq!(option(&connection, OptionConnection::CurrentSchema), "s\"1");
}

#[test]
fn settings_of_the_session_are_options() {
    let mut connection = connect();
    let key = || OptionConnection::Other("halcyon.setting.application_name".into());
    connection.set_option(key(), "suite".into()).unwrap();
    assert_eq!(option(&connection, key()), "suite");
    let id = OptionConnection::Other("halcyon.session_id".into());
    let found = connection.get_option_int(id).unwrap();
    assert_eq!(found, number(&mut connection, "SELECT pg_backend_pid()"));
    let unknown = OptionConnection::Other("nothing".into());
    assert_eq!(connection.get_option_string(unknown).unwrap_err().status, Status::NotFound);
    let wrong = connection.set_option(key(), OptionValue::Double(0.5)).unwrap_err();
    assert_eq!(wrong.status, Status::InvalidArguments);
}

// ConnectionTest.MetadataGetInfo
#[test]
fn facts_are_those_that_were_asked_for() {
    let connection = connect();
    let every = all(connection.get_info(None).unwrap());
    assert_eq!(every.schema(), *schemas::GET_INFO_SCHEMA);
    assert_eq!(every.num_rows(), 9);
    let codes = [InfoCode::DriverAdbcVersion, InfoCode::VendorName, InfoCode::Other(4_000)];
    let some = all(connection.get_info(Some(HashSet::from(codes))).unwrap());
    assert_eq!(some.num_rows(), 2);
    let names = some.column(0).as_primitive::<UInt32Type>();
    let values = some.column(1).as_any().downcast_ref::<arrow::array::UnionArray>().unwrap();
    for row in 0..2 {
        let value = values.value(row);
        match names.value(row) {
            0 => assert_eq!(value.as_string::<i32>().value(0), "Halcyon"),
            103 => assert_eq!(value.as_primitive::<Int64Type>().value(0), 1_001_000),
            other => panic!("fact {other}"),
        }
    }
}

// ConnectionTest.MetadataGetTableSchema, MetadataGetTableSchemaDbSchema, MetadataGetTableSchemaEscaping,
// MetadataGetTableSchemaNotFound
#[test]
fn a_tables_schema_is_found_by_its_exact_name() {
    let mut connection = connect();
    run(&mut connection, "CREATE TABLE t (id int NOT NULL, name text, at timestamptz)").unwrap();
    run(&mut connection, "CREATE SCHEMA other; CREATE TABLE other.t (b bytea)").unwrap();
    run(&mut connection, "CREATE TABLE \"(SELECT CURRENT_TIME)\" (a int)").unwrap();
    let schema = connection.get_table_schema(None, None, "t").unwrap();
    let fields: Vec<_> =
        schema.fields().iter().map(|f| (f.name().as_str(), f.is_nullable())).collect();
    assert_eq!(fields, [("id", false), ("name", true), ("at", true)]);
    assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
    for catalog in [None, Some("halcyon"), Some("")] {
        let schema = connection.get_table_schema(catalog, Some("other"), "t").unwrap();
        assert_eq!(schema.field(0).data_type(), &DataType::Binary);
    }
    connection.get_table_schema(None, None, "(SELECT CURRENT_TIME)").unwrap();
    for (catalog, schema, table) in [
        (None, None, "nothing"),
        (None, None, "t\""),
        (None, Some("nothing"), "t"),
        (Some("nothing"), None, "t"),
    ] {
        let error = connection.get_table_schema(catalog, schema, table).unwrap_err();
        assert_eq!(error.status, Status::NotFound, "{table}: {error}");
    }
}

// ConnectionTest.MetadataGetTableTypes
#[test]
fn there_are_four_types_of_tables() {
    let found = all(connect().get_table_types().unwrap());
    assert_eq!(found.schema(), *schemas::GET_TABLE_TYPES_SCHEMA);
    let names: Vec<_> = found.column(0).as_string::<i32>().iter().flatten().collect();
    assert_eq!(names, ["table", "view", "materialized_view", "foreign_table"]);
}

/// The items of a list column's first list, as structures.
fn first(column: &dyn Array) -> StructArray {
    column.as_list::<i32>().value(0).as_struct().clone()
}

fn names(structures: &StructArray) -> Vec<String> {
    structures.column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect()
}

fn objects(
    connection: &ManagedConnection,
    depth: ObjectDepth,
    names: [Option<&str>; 4],
    types: Option<Vec<&str>>,
) -> RecordBatch {
    let [catalog, schema, table, column] = names;
    let found = all(connection.get_objects(depth, catalog, schema, table, types, column).unwrap());
    assert_eq!(found.schema(), *schemas::GET_OBJECTS_SCHEMA);
    found
}

fn tables(found: &RecordBatch) -> StructArray {
    first(first(found.column(1)).column(1))
}

fn with_objects() -> ManagedConnection {
    let mut connection = connect();
    run(
        &mut connection,
        "CREATE SCHEMA s2;
         CREATE TABLE parent (a int, b int, note varchar(20) DEFAULT 'none', PRIMARY KEY (a, b));
         CREATE TABLE child (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x int, y int, n numeric(9,2) NOT NULL,
             CONSTRAINT positive CHECK (n > 0), CONSTRAINT to_parent FOREIGN KEY (x, y) REFERENCES parent (a, b),
             UNIQUE (n));
         CREATE VIEW looks AS SELECT a FROM parent;
         CREATE TABLE s2.other (a int)",
    )
    .unwrap();
    connection
}

// ConnectionTest.MetadataGetObjectsCatalogs, MetadataGetObjectsDbSchemas
#[test]
fn objects_go_as_deep_as_was_asked_for() {
    let connection = with_objects();
    let catalogs = objects(&connection, ObjectDepth::Catalogs, [None; 4], None);
    assert_eq!(catalogs.column(0).as_string::<i32>().value(0), "halcyon");
    assert!(catalogs.column(1).is_null(0));
    let schemas = first(objects(&connection, ObjectDepth::Schemas, [None; 4], None).column(1));
    assert_eq!(names(&schemas), ["public", "s2"]);
    assert!(schemas.column(1).is_null(0) && schemas.column(1).is_null(1));
    let none = objects(&connection, ObjectDepth::Schemas, [Some("x%"), None, None, None], None);
    assert_eq!(none.num_rows(), 0);
    let like = [Some("hal%"), Some("_2"), None, None];
    assert_eq!(names(&first(objects(&connection, ObjectDepth::All, like, None).column(1))), ["s2"]);
    let system = [None, Some("pg_catalog"), Some("pg_class"), None];
    assert_eq!(names(&tables(&objects(&connection, ObjectDepth::All, system, None))), ["pg_class"]);
}

// ConnectionTest.MetadataGetObjectsTables, MetadataGetObjectsTablesTypes
#[test]
fn tables_are_found_by_pattern_and_type() {
    let connection = with_objects();
    let public = [None, Some("public"), None, None];
    let every = tables(&objects(&connection, ObjectDepth::Tables, public, None));
    assert_eq!(names(&every), ["child", "looks", "parent"]);
    let types: Vec<_> = every.column(1).as_string::<i32>().iter().flatten().collect();
    assert_eq!(types, ["table", "view", "table"]);
    assert!(every.column(2).is_null(0) && every.column(3).is_null(0));
    let views = tables(&objects(&connection, ObjectDepth::Tables, public, Some(vec!["view"])));
    assert_eq!(names(&views), ["looks"]);
    let like = [None, Some("public"), Some("p%t"), None];
    let found = tables(&objects(&connection, ObjectDepth::Tables, like, None));
    assert_eq!(names(&found), ["parent"]);
    let none = tables(&objects(&connection, ObjectDepth::Tables, public, Some(vec!["sequence"])));
    assert_eq!(none.len(), 0);
}

// ConnectionTest.MetadataGetObjectsColumns
#[test]
fn columns_have_types_places_and_defaults() {
    let connection = with_objects();
    let filter = [None, Some("public"), Some("parent"), None];
    let columns = first(tables(&objects(&connection, ObjectDepth::All, filter, None)).column(2));
    assert_eq!(names(&columns), ["a", "b", "note"]);
    let places: Vec<_> = columns.column(1).as_primitive::<Int32Type>().values().to_vec();
    assert_eq!(places, [1, 2, 3]);
    let named = |name: &str| columns.column_by_name(name).unwrap();
    let types: Vec<_> = named("xdbc_data_type").as_primitive::<Int16Type>().values().to_vec();
    assert_eq!(types, [4, 4, 12]);
    assert_eq!(named("xdbc_type_name").as_string::<i32>().value(2), "character varying(20)");
    assert_eq!(named("xdbc_column_size").as_primitive::<Int32Type>().value(2), 20);
    assert!(named("xdbc_column_def").as_string::<i32>().value(2).starts_with("'none'"));
    let nullable: Vec<_> = named("xdbc_is_nullable").as_string::<i32>().iter().flatten().collect();
    assert_eq!(nullable, ["NO", "NO", "YES"]);
    let filter = [None, Some("public"), Some("child"), Some("i_")];
    let columns = first(tables(&objects(&connection, ObjectDepth::All, filter, None)).column(2));
    assert_eq!(names(&columns), ["id"]);
    assert!(columns.column_by_name("xdbc_is_autoincrement").unwrap().as_boolean().value(0));
}

// ConnectionTest.MetadataGetObjectsConstraints, MetadataGetObjectsPrimaryKey, MetadataGetObjectsForeignKey
#[test]
fn constraints_name_their_columns_and_what_they_refer_to() {
    let connection = with_objects();
    let filter = [None, Some("public"), Some("child"), None];
    let found = first(tables(&objects(&connection, ObjectDepth::All, filter, None)).column(3));
    let names = names(&found);
    let at = |name: &str| names.iter().position(|known| known == name).expect(name);
    let kinds = found.column(1).as_string::<i32>();
    let columns = |at| {
        let columns = found.column(2).as_list::<i32>().value(at);
        columns.as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names.len(), 4);
    assert_eq!(
        (kinds.value(at("child_pkey")), columns(at("child_pkey"))),
        ("PRIMARY KEY", vec!["id".into()])
    );
    assert_eq!(
        (kinds.value(at("child_n_key")), columns(at("child_n_key"))),
        ("UNIQUE", vec!["n".into()])
    );
    assert_eq!((kinds.value(at("positive")), columns(at("positive"))), ("CHECK", vec!["n".into()]));
    let foreign = at("to_parent");
    assert_eq!(
        (kinds.value(foreign), columns(foreign)),
        ("FOREIGN KEY", vec!["x".into(), "y".into()])
    );
    let usage = found.column(3).as_list::<i32>();
    assert!(usage.is_null(at("positive")));
    let usage = usage.value(foreign);
    let usage = usage.as_struct();
    let cell = |column: usize, row| usage.column(column).as_string::<i32>().value(row).to_owned();
    assert!(usage.column(0).is_null(0));
    assert_eq!((cell(1, 0), cell(2, 0)), ("public".into(), "parent".into()));
    assert_eq!((cell(3, 0), cell(3, 1)), ("a".into(), "b".into()));
}

// ConnectionTest.MetadataGetObjectsCancel
#[test]
fn a_cancelled_connection_goes_on() {
    let mut connection = with_objects();
    let reader = connection.get_objects(ObjectDepth::All, None, None, None, None, None).unwrap();
    connection.get_cancel_handle().try_cancel().unwrap();
    assert_eq!(all(reader).num_rows(), 1);
    assert_eq!(number(&mut connection, "SELECT 1"), 1);
}

// ConnectionTest.MetadataGetStatisticNames; StatementTest.SqlPartitionedInts
#[test]
fn parts_of_the_standard_that_the_driver_lacks_say_so() {
    let mut connection = connect();
    let statistics = connection.get_statistics(None, None, None, true).err().unwrap();
    assert_eq!(statistics.status, Status::NotImplemented);
    let names = connection.get_statistic_names().err().unwrap();
    assert_eq!(names.status, Status::NotImplemented);
    let partition = connection.read_partition([1, 2]).err().unwrap();
    assert_eq!(partition.status, Status::NotImplemented);
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query("SELECT 42").unwrap();
    assert_eq!(statement.execute_partitions().err().unwrap().status, Status::NotImplemented);
    let plan = statement.set_substrait_plan([1, 2]).unwrap_err();
    assert_eq!((plan.status, state(&plan).as_str()), (Status::NotImplemented, "0A000"));
}
