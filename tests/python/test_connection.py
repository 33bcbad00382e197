"""Connections, cursors, transactions and errors."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import halcyon

ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a <> b"


class Cursors(unittest.TestCase):
    def setUp(self):
        self.connection = halcyon.connect()
        self.addCleanup(self.connection.close)

    def test_rows_come_as_they_are_asked_for(self):
        cursor = self.connection.execute("SELECT i, i * 2 FROM generate_series(1, 50000) i ORDER BY i")
        self.assertEqual(cursor.fetchone(), (1, 2))
        self.assertEqual(cursor.fetchmany(2), [(2, 4), (3, 6)])
        self.assertEqual(cursor.rownumber, 3)
        rest = cursor.fetchall()
        self.assertEqual((rest[0], rest[-1], len(rest)), ((4, 8), (50000, 100000), 49997))
        self.assertIsNone(cursor.fetchone())
        self.assertEqual(cursor.fetchall(), [])

    def test_a_cursor_is_an_iterator(self):
        cursor = self.connection.execute("SELECT i FROM generate_series(1, 3) i ORDER BY i")
        self.assertEqual([row[0] for row in cursor], [1, 2, 3])

    def test_columns_are_described(self):
        cursor = self.connection.execute("SELECT 1 AS i, 'x' AS t, CAST(1 AS numeric(9,2)) AS n, now() AS at, 'x'::bytea AS b")
        names = [column[0] for column in cursor.description]
        self.assertEqual(names, ["i", "t", "n", "at", "b"])
        kinds = [column[1] for column in cursor.description]
        self.assertEqual(kinds, [halcyon.NUMBER, halcyon.STRING, halcyon.NUMBER, halcyon.DATETIME, halcyon.BINARY])
        self.assertEqual(cursor.description[2][4:6], (9, 2))
        self.assertEqual(cursor.description[0][3], 4)

    def test_rows_written_are_counted(self):
        cursor = self.connection.cursor()
        cursor.execute("CREATE TABLE t (i INTEGER PRIMARY KEY, s TEXT)")
        self.assertEqual((cursor.rowcount, cursor.description, cursor.statusmessage), (-1, None, "CREATE TABLE"))
        cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(i, f"s{i}") for i in range(10)])
        self.assertEqual(cursor.rowcount, 10)
        self.assertEqual(cursor.execute("UPDATE t SET s = NULL WHERE i < 4").rowcount, 4)
        self.assertEqual(cursor.execute("DELETE FROM t WHERE i > 7 RETURNING i").rowcount, 2)
        self.assertEqual(sorted(cursor.fetchall()), [(8,), (9,)])
        with self.assertRaises(halcyon.ProgrammingError):
            cursor.execute("CREATE TABLE u (i INTEGER)").fetchone()

    def test_several_statements_run_and_the_last_ones_rows_stay(self):
        cursor = self.connection.execute("CREATE TABLE t (s TEXT); INSERT INTO t VALUES ('a;b'); SELECT s FROM t;")
        self.assertEqual(cursor.fetchall(), [("a;b",)])
        with self.assertRaises(halcyon.ProgrammingError) as caught:
            self.connection.execute("SELECT %s; SELECT 1", (1,))
        self.assertEqual(caught.exception.sqlstate, "42601")

    def test_executemany_is_all_or_none(self):
        connection = self.connection.connect(autocommit=True)
        connection.execute("CREATE TABLE t (i INTEGER PRIMARY KEY)")
        with self.assertRaises(halcyon.IntegrityError):
            connection.executemany("INSERT INTO t VALUES (%s)", [(1,), (2,), (1,)])
        self.assertEqual(connection.execute("SELECT count(*) FROM t").fetchone(), (0,))
        connection.executemany("INSERT INTO t VALUES (%s)", [(1,), (1 << 20,)])
        connection.executemany("INSERT INTO t VALUES (%s)", [])
        self.assertEqual(connection.execute("SELECT count(*) FROM t").fetchone(), (2,))

    def test_placeholders_of_each_kind(self):
        execute = self.connection.execute
        for text, params in [
            ("SELECT %s - %s", (7, 3)), ("SELECT %(a)s - %(b)s", {"b": 3, "a": 7}), ("SELECT $2 - $1", (3, 7)),
            ("SELECT ? - ?", (7, 3)), ("SELECT :a - :b", {"a": 7, "b": 3}), ("SELECT $a - $b", {"a": 7, "b": 3}),
        ]:
            self.assertEqual(execute(text, params).fetchone(), (4,), text)
        self.assertEqual(execute("SELECT 7 %% %s, 'x%s' LIKE 'x%%'", (4,)).fetchone(), (3, True))
        self.assertEqual(execute("SELECT 7 % 4").fetchone(), (3,))
        for text, params in [("SELECT %s", ()), ("SELECT %s", (1, 2)), ("SELECT %(a)s", {}), ("SELECT %(a)s", (1,)),
                             ("SELECT %s", {"a": 1}), ("SELECT %s", "x"), ("SELECT $1", ())]:
            with self.assertRaises(halcyon.ProgrammingError, msg=text):
                execute(text, params)
            self.connection.rollback()

    def test_what_is_closed_is_refused(self):
        cursor = self.connection.cursor()
        cursor.close()
        cursor.close()
        with self.assertRaises(halcyon.InterfaceError):
            cursor.execute("SELECT 1")
        with self.assertRaises(halcyon.InterfaceError):
            cursor.fetchall()
        self.connection.close()
        for use in (self.connection.cursor, self.connection.commit, lambda: self.connection.sql("SELECT 1")):
            with self.assertRaises(halcyon.InterfaceError):
                use()


class Transactions(unittest.TestCase):
    def setUp(self):
        self.connection = halcyon.connect()
        self.addCleanup(self.connection.close)
        self.connection.execute("CREATE TABLE t (i INTEGER PRIMARY KEY)")
        self.connection.commit()

    def count(self):
        return self.connection.connect(autocommit=True).execute("SELECT count(*) FROM t").fetchone()[0]

    def test_the_first_statement_begins_one(self):
        self.assertFalse(self.connection.in_transaction)
        self.connection.execute("INSERT INTO t VALUES (1)")
        self.assertTrue(self.connection.in_transaction)
        self.connection.rollback()
        self.assertEqual(self.count(), 0)
        self.connection.execute("INSERT INTO t VALUES (1)")
        self.connection.commit()
        self.assertEqual(self.count(), 1)
        self.connection.commit()
        self.connection.rollback()

    def test_autocommit_is_for_between_transactions(self):
        self.connection.execute("INSERT INTO t VALUES (1)")
        with self.assertRaises(halcyon.ProgrammingError):
            self.connection.autocommit = True
        self.connection.rollback()
        self.connection.autocommit = True
        self.connection.execute("INSERT INTO t VALUES (1)")
        self.assertEqual((self.connection.in_transaction, self.count()), (False, 1))

    def test_the_context_commits_or_rolls_back_and_closes(self):
        with self.connection.connect() as connection:
            connection.execute("INSERT INTO t VALUES (1)")
        self.assertTrue(connection.closed)
        with self.assertRaises(ZeroDivisionError), self.connection.connect() as connection:
            connection.execute("INSERT INTO t VALUES (2)")
            raise ZeroDivisionError
        self.assertEqual(self.count(), 1)

    def test_a_transaction_within_one_is_a_savepoint(self):
        connection = self.connection.connect(autocommit=True)
        with connection.transaction():
            connection.execute("INSERT INTO t VALUES (1)")
            with self.assertRaises(halcyon.IntegrityError), connection.transaction():
                connection.execute("INSERT INTO t VALUES (2)")
                connection.execute("INSERT INTO t VALUES (1)")
            connection.execute("INSERT INTO t VALUES (3)")
        self.assertEqual(connection.execute("SELECT i FROM t ORDER BY i").fetchall(), [(1,), (3,)])
        with self.assertRaises(ZeroDivisionError), connection.transaction():
            connection.execute("DELETE FROM t")
            raise ZeroDivisionError
        self.assertEqual(self.count(), 2)

    def test_a_mistake_leaves_the_transaction_to_roll_back(self):
        self.connection.execute("INSERT INTO t VALUES (1)")
        with self.assertRaises(halcyon.ProgrammingError):
            self.connection.execute("SELECT nothing FROM t")
        with self.assertRaises(halcyon.InternalError) as caught:
            self.connection.execute("SELECT 1")
        self.assertEqual(caught.exception.sqlstate, "25P02")
        self.connection.rollback()
        self.connection.execute("SELECT 1")


class Errors(unittest.TestCase):
    def test_each_has_its_class_and_its_fields(self):
        connection = halcyon.connect(autocommit=True)
        connection.execute("CREATE TABLE t (i INTEGER PRIMARY KEY, n INTEGER CONSTRAINT positive CHECK (n > 0))")
        connection.execute("INSERT INTO t VALUES (1, 1)")
        for text, kind, state in [
            ("SELECT 1 / 0", halcyon.DataError, "22012"),
            ("INSERT INTO t VALUES (1, 1)", halcyon.IntegrityError, "23505"),
            ("INSERT INTO t VALUES (2, -1)", halcyon.IntegrityError, "23514"),
            ("SELEC 1", halcyon.ProgrammingError, "42601"),
            ("SELECT * FROM nothing", halcyon.ProgrammingError, "42P01"),
            ("SET lock_timeout = 'soon'", halcyon.DataError, "22023"),
            ("COPY t FROM STDIN", halcyon.NotSupportedError, "0A000"),
            ("COPY t TO STDOUT", halcyon.NotSupportedError, "0A000"),
        ]:
            with self.assertRaises(kind, msg=text) as caught:
                connection.execute(text).fetchall()
            self.assertEqual(caught.exception.sqlstate, state, text)
            self.assertIsInstance(caught.exception, connection.DatabaseError)
        with self.assertRaises(halcyon.IntegrityError) as caught:
            connection.execute("INSERT INTO t VALUES (1, 1)")
        self.assertEqual(caught.exception.detail, "Key (i)=(1) already exists.")
        self.assertEqual(caught.exception.table, "t")
        self.assertEqual(caught.exception.constraint, "t_pkey")
        with self.assertRaises(halcyon.ProgrammingError) as caught:
            connection.execute("SELECT\n nothing")
        self.assertEqual(caught.exception.position, 9)

    def test_notices_are_kept(self):
        connection = halcyon.connect(autocommit=True)
        connection.execute("DROP TABLE IF EXISTS nothing")
        self.assertEqual([state for state, _ in connection.notices()], ["42P01"])
        self.assertEqual(connection.notices(), [])


class Databases(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "db"

    def test_a_folder_keeps_what_was_committed(self):
        with halcyon.connect(self.folder) as connection:
            connection.execute("CREATE TABLE t (i INTEGER)")
            connection.execute("INSERT INTO t VALUES (7)")
        connection = halcyon.connect(str(self.folder))
        connection.execute("INSERT INTO t VALUES (8)")
        connection.close()
        with halcyon.connect(self.folder) as connection:
            self.assertEqual(connection.execute("SELECT i FROM t").fetchall(), [(7,)])
            connection.checkpoint()
            connection.backup(self.folder.parent / "copy")
        with halcyon.connect(self.folder.parent / "copy") as connection:
            self.assertEqual(connection.execute("SELECT i FROM t").fetchall(), [(7,)])

    def test_connections_to_one_folder_share_the_database(self):
        first, second = halcyon.connect(self.folder), halcyon.connect(self.folder)
        first.execute("CREATE TABLE t (i INTEGER)")
        first.commit()
        self.assertEqual(second.execute("SELECT count(*) FROM t").fetchone(), (0,))
        with self.assertRaises(halcyon.InterfaceError):
            halcyon.connect(self.folder, config={"memory_limit": "1GB"})
        other = subprocess.run(
            [sys.executable, "-c", f"import halcyon; halcyon.connect({str(self.folder)!r})"], capture_output=True, text=True)
        self.assertIn("is open in another process", other.stderr)
        first.close()
        second.close()

    def test_nothing_keeps_a_folder_open_behind_its_connection(self):
        connection = halcyon.connect(self.folder, autocommit=True)
        connection.execute("CREATE TABLE t (i INTEGER); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        connection.execute("INSERT INTO t SELECT i FROM generate_series(1, 100000) i")
        cursor = connection.execute("SELECT i FROM t")
        cursor.fetchone()
        read, unread = connection.sql("SELECT i FROM t"), connection.sql("SELECT i FROM t")
        self.assertEqual(len(read), 100000)
        changes = connection.subscribe("v")
        connection.close()
        again = halcyon.connect(self.folder)
        self.assertEqual(again.execute("SELECT count(*) FROM t").fetchone(), (100000,))
        again.close()
        # What was read is kept.
        self.assertEqual(len(read.fetchall()), 100000)
        self.assertEqual(list(changes), [])
        for use in (cursor.fetchone, unread.fetchall):
            with self.assertRaises(halcyon.InterfaceError):
                use()

    def test_databases_in_memory_are_apart(self):
        first, second = halcyon.connect(), halcyon.connect(":memory:")
        first.execute("CREATE TABLE t (i INTEGER)")
        first.commit()
        with self.assertRaises(halcyon.ProgrammingError):
            second.execute("SELECT * FROM t")

    def test_config_and_role(self):
        connection = halcyon.connect(config={"memory_limit": "2GB", "threads": 2}, autocommit=True)
        self.assertEqual(connection.execute("SHOW memory_limit").fetchone(), ("2GB",))
        connection.execute("CREATE ROLE ann LOGIN")
        ann = connection.connect(role="ann")
        self.assertEqual(ann.execute("SELECT current_user").fetchone(), ("ann",))
        with self.assertRaises(halcyon.OperationalError):
            connection.connect(role="nobody")
        for config in ({"nothing": 1}, {"threads": "many"}, {"memory_limit": "soon"}):
            with self.assertRaises(halcyon.DatabaseError, msg=str(config)):
                halcyon.connect(config=config)

    def test_limits_of_memory_hold(self):
        connection = halcyon.connect(autocommit=True)
        connection.execute("SET halcyon.memory = '1MB'")
        with self.assertRaises(halcyon.OperationalError) as caught:
            connection.execute("SELECT DISTINCT i FROM generate_series(1, 300000) i").fetchall()
        self.assertEqual(caught.exception.sqlstate, "53200")
        self.assertIn("halcyon.memory", caught.exception.detail)
        # In a process of its own: memory of all databases of a process counts together.
        program = """
import halcyon
connection = halcyon.connect(config={"memory_limit": "64MB"}, autocommit=True)
connection.execute("CREATE TABLE t (i BIGINT)")
try:
    connection.execute("INSERT INTO t SELECT i FROM generate_series(1, 20000000) i")
except halcyon.OperationalError as error:
    print(error.sqlstate, connection.execute("SELECT count(*) FROM t").fetchone())
"""
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(told.stdout, "53200 (0,)\n", told.stderr)

    def test_a_forked_child_is_told(self):
        connection = halcyon.connect()
        connection.execute("SELECT 1")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                connection.execute("SELECT 1")
                os.write(write, b"ran")
            except halcyon.OperationalError as error:
                os.write(write, error.sqlstate.encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(os.read(read, 100), b"08003")


class Interrupts(unittest.TestCase):
    def setUp(self):
        # A shell starts what runs in the background with SIGINT ignored, and Python leaves that as it is.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before if before is not None else signal.SIG_DFL)

    def interrupted(self, work):
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        try:
            with self.assertRaises(KeyboardInterrupt):
                work()
        finally:
            timer.cancel()
            timer.join()
        return time.monotonic() - began

    def test_ctrl_c_ends_a_statement_that_is_computed_as_it_is_read(self):
        connection = halcyon.connect(autocommit=True)
        self.assertLess(self.interrupted(lambda: connection.execute(ENDLESS).fetchall()), 20)
        self.assertEqual(connection.execute("SELECT 1").fetchone(), (1,))

    def test_ctrl_c_ends_a_write_and_undoes_it(self):
        connection = halcyon.connect(autocommit=True)
        connection.execute("CREATE TABLE t (i BIGINT)")
        self.assertLess(self.interrupted(lambda: connection.execute("INSERT INTO t " + ENDLESS)), 20)
        self.assertEqual(connection.execute("SELECT count(*) FROM t").fetchone(), (0,))

    def test_ctrl_c_ends_the_wait_of_a_statement_that_was_short_before(self):
        connection = halcyon.connect(autocommit=True)
        connection.execute("CREATE TABLE t (i INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 1)")
        look_up = lambda: connection.execute("SELECT n FROM t WHERE i = %s FOR UPDATE", (1,)).fetchall()  # noqa: E731
        other = connection.connect(autocommit=False)
        seen = []

        def handle(*_):
            try:
                connection.execute("SELECT n FROM t")
            except halcyon.Error as error:
                seen.append(error.sqlstate)
            raise KeyboardInterrupt

        # By turns on the main thread itself, and by another one: what has taken long is not taken for short.
        for handler, warms in [(signal.default_int_handler, True), (signal.default_int_handler, False), (handle, True), (handle, False)]:
            for _ in range(100 if warms else 0):
                self.assertEqual(look_up(), [(1,)])
            other.execute("UPDATE t SET n = 2")
            before = signal.signal(signal.SIGINT, handler)
            try:
                self.assertLess(self.interrupted(look_up), 20)
            finally:
                signal.signal(signal.SIGINT, before)
                other.rollback()
        # A handler's statement on the connection that waits would wait for ever.
        self.assertEqual(seen, ["55000", "55000"])
        self.assertEqual(look_up(), [(1,)])

    def test_another_thread_cancels(self):
        connection = halcyon.connect(autocommit=True)
        timer = threading.Timer(0.3, connection.cancel)
        timer.start()
        with self.assertRaises(halcyon.QueryCanceled):
            connection.execute(ENDLESS).fetchall()
        timer.join()

    def test_threads_run_while_a_statement_does(self):
        connection = halcyon.connect(autocommit=True)
        statement = threading.Thread(target=lambda: self.assertRaises(
            halcyon.QueryCanceled, lambda: connection.execute("SELECT pg_sleep(60)").fetchall()))
        statement.start()
        turns = 0
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            turns += 1
        self.assertGreater(turns, 1000)
        connection.cancel()
        while statement.is_alive():
            connection.cancel()
            statement.join(0.05)

    def test_threads_share_a_connection(self):
        connection = halcyon.connect(autocommit=True)
        connection.execute("CREATE TABLE t (i INTEGER PRIMARY KEY)")
        failures = []

        def insert(start):
            try:
                for i in range(start, start + 50):
                    connection.execute("INSERT INTO t VALUES (%s)", (i,))
                    self.assertEqual(connection.execute("SELECT i FROM t WHERE i = %s", (i,)).fetchall(), [(i,)])
            except Exception as error:  # shown by the assertion below
                failures.append(error)

        threads = [threading.Thread(target=insert, args=(start,)) for start in (0, 1000, 2000, 3000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(connection.execute("SELECT count(*) FROM t").fetchone(), (200,))


if __name__ == "__main__":
    unittest.main()
