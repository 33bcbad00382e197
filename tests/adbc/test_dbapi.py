"""PEP 249 and the standard's extensions by adbc_driver_manager: parameters, transactions, metadata, errors, cancel."""

import pathlib
import tempfile
import threading
import time
import unittest

import adbc_driver_halcyon
import adbc_driver_manager
import pyarrow
from adbc_driver_halcyon import dbapi


class WithConnection(unittest.TestCase):
    def setUp(self):
        self.connection = dbapi.connect()
        self.cursor = self.connection.cursor()

    def tearDown(self):
        self.cursor.close()
        self.connection.close()

    def value(self, sql, params=None):
        self.cursor.execute(sql, params)
        return self.cursor.fetchone()[0]


class Statements(WithConnection):
    def test_parameters_by_question_mark_and_by_number(self):
        self.cursor.execute("CREATE TABLE t (id int PRIMARY KEY, name text, n numeric(9,2))")
        self.cursor.executemany("INSERT INTO t VALUES (?, ?, ?)", [(1, "a", 1.5), (2, None, 2.25)])
        self.assertEqual(self.cursor.rowcount, 2)
        self.assertEqual(self.value("SELECT name FROM t WHERE id = ?", (1,)), "a")
        self.assertEqual(self.value("SELECT id FROM t WHERE n = $1", (2.25,)), 2)
        self.cursor.execute("INSERT INTO t VALUES (?, ?, 0) RETURNING id", (3, "c"))
        self.assertEqual(self.cursor.fetchall(), [(3,)])

    def test_a_script_gives_the_last_statements_rows(self):
        self.cursor.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (7); SELECT a FROM t")
        self.assertEqual(self.cursor.fetchall(), [(7,)])

    def test_operators_that_are_question_marks(self):
        self.assertTrue(self.value("""SELECT '{"a": 1}'::jsonb ? 'a'"""))

    def test_the_schema_without_running(self):
        schema = self.cursor.adbc_execute_schema("SELECT 1 AS one, 'x' AS two")
        self.assertEqual(schema.names, ["one", "two"])
        self.assertEqual(len(self.cursor.adbc_prepare("SELECT ?::int, ?::text")), 2)

    def test_rows_come_as_they_are_asked_for(self):
        self.cursor.execute("SELECT a.x FROM generate_series(1, 1000000) a(x), generate_series(1, 1000000) b(x)")
        self.assertEqual(len(self.cursor.fetchmany(10_000)), 10_000)


class Transactions(WithConnection):
    def test_commit_and_rollback(self):
        self.cursor.execute("CREATE TABLE t (a int)")
        self.connection.commit()
        self.cursor.execute("INSERT INTO t VALUES (1)")
        self.connection.rollback()
        self.assertEqual(self.value("SELECT count(*) FROM t"), 0)

    def test_a_clone_is_another_session_of_the_same_database(self):
        self.cursor.execute("CREATE TABLE t (a int)")
        with self.connection.adbc_clone() as other, other.cursor() as cursor:
            with self.assertRaises(dbapi.ProgrammingError):
                cursor.execute("SELECT * FROM t")
            other.rollback()
            self.connection.commit()
            cursor.execute("SELECT count(*) FROM t")
            self.assertEqual(cursor.fetchone(), (0,))

    def test_a_folder_keeps_what_was_committed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "data")
            for expected in (1, 2):
                with dbapi.connect(path, autocommit=True) as connection, connection.cursor() as cursor:
                    cursor.execute("CREATE TABLE IF NOT EXISTS t (a int)")
                    cursor.execute("INSERT INTO t VALUES (1)")
                    cursor.execute("SELECT count(*) FROM t")
                    self.assertEqual(cursor.fetchone(), (expected,))

    def test_options_of_the_connection(self):
        options = {"adbc.connection.readonly": "true"}
        with dbapi.connect(conn_kwargs=options) as connection, connection.cursor() as cursor:
            with self.assertRaises(dbapi.Error) as caught:
                cursor.execute("CREATE TABLE t (a int)")
            self.assertEqual(caught.exception.sqlstate, "25006")


class Metadata(WithConnection):
    def test_what_there_is(self):
        self.cursor.execute("CREATE TABLE t (id int PRIMARY KEY, name text NOT NULL)")
        self.connection.commit()
        self.assertEqual(self.connection.adbc_get_info()["vendor_name"], "Halcyon")
        self.assertIn("table", self.connection.adbc_get_table_types())
        self.assertEqual(self.connection.adbc_get_table_schema("t").names, ["id", "name"])
        found = self.connection.adbc_get_objects(table_name_filter="t").read_all().to_pylist()
        (table,) = found[0]["catalog_db_schemas"][0]["db_schema_tables"]
        self.assertEqual([column["column_name"] for column in table["table_columns"]], ["id", "name"])
        self.assertEqual(table["table_constraints"][0]["constraint_type"], "PRIMARY KEY")
        self.assertEqual(self.connection.adbc_current_catalog, "halcyon")
        self.assertEqual(self.connection.adbc_current_db_schema, "public")

    def test_the_driver_without_the_interface_of_pep_249(self):
        with adbc_driver_halcyon.connect() as database, adbc_driver_manager.AdbcConnection(database) as connection:
            with adbc_driver_manager.AdbcStatement(connection) as statement:
                statement.set_options(**{adbc_driver_halcyon.StatementOptions.STRING_VIEWS.value: "true"})
                statement.set_sql_query("SELECT 'a' AS t")
                stream, _ = statement.execute_query()
                reader = pyarrow.RecordBatchReader._import_from_c(stream.address)
                self.assertEqual(reader.schema.field(0).type, pyarrow.string_view())
                self.assertEqual(reader.read_all().to_pydict(), {"t": ["a"]})


class Errors(WithConnection):
    def error(self, sql, class_):
        with self.assertRaises(class_) as caught:
            self.cursor.execute(sql)
            self.cursor.fetchall()
        self.connection.rollback()
        return caught.exception

    def test_classes_states_and_details(self):
        self.cursor.execute("CREATE TABLE t (a int PRIMARY KEY)")
        self.connection.commit()
        self.assertEqual(self.error("SELEC 1", dbapi.ProgrammingError).sqlstate, "42601")
        self.assertEqual(self.error("SELECT * FROM nothing", dbapi.ProgrammingError).sqlstate, "42P01")
        self.assertEqual(self.error("SELECT 1 / 0", dbapi.DataError).sqlstate, "22012")
        twice = self.error("INSERT INTO t VALUES (1), (1)", dbapi.IntegrityError)
        self.assertEqual(twice.sqlstate, "23505")
        self.assertEqual(dict(twice.details)[b"PG_DIAG_CONSTRAINT_NAME"], b"t_pkey")

    def test_an_error_of_rows_to_come_has_its_state(self):
        self.cursor.execute("CREATE TABLE t AS SELECT x FROM generate_series(1, 300000) g(x)")
        self.connection.commit()
        self.assertEqual(self.error("SELECT 1 / (x - 299999) FROM t", dbapi.DataError).sqlstate, "22012")

    def test_cancel_from_another_thread(self):
        caught, begun = [], threading.Event()

        def work():
            begun.set()
            try:
                self.cursor.execute("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a + b = 0")
                self.cursor.fetchall()
            except dbapi.Error as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        until = time.monotonic() + 60
        while thread.is_alive() and time.monotonic() < until:
            time.sleep(0.05)
            self.cursor.adbc_cancel()
        thread.join()
        self.assertEqual(caught[0].sqlstate, "57014")
        self.connection.rollback()
        self.assertEqual(self.value("SELECT 1"), 1)


if __name__ == "__main__":
    unittest.main()
