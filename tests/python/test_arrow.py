"""Arrow both ways: results for pyarrow, pandas, polars and DuckDB, and their tables as ours."""

import datetime
import decimal
import pathlib
import random
import tempfile
import unittest
import uuid

import duckdb
import halcyon
import pandas
import polars
import pyarrow
import pyarrow.csv
import pyarrow.parquet

D = decimal.Decimal
UTC = datetime.timezone.utc

COLUMNS = {
    "b": ("boolean", True, pyarrow.bool_()),
    "s": ("smallint", -7, pyarrow.int16()),
    "i": ("integer", 42, pyarrow.int32()),
    "l": ("bigint", 1 << 40, pyarrow.int64()),
    "r": ("real", 1.5, pyarrow.float32()),
    "f": ("double precision", -0.1, pyarrow.float64()),
    "n": ("numeric(12,3)", D("-123456.789"), pyarrow.decimal128(12, 3)),
    "t": ("text", "grün €, longer than twelve bytes", pyarrow.string()),
    "x": ("bytea", b"\x00\xff", pyarrow.binary()),
    "d": ("date", datetime.date(2024, 2, 29), pyarrow.date32()),
    "m": ("time", datetime.time(23, 59, 58, 123456), pyarrow.time64("us")),
    "ts": ("timestamp", datetime.datetime(2024, 2, 29, 12, 34, 56, 789), pyarrow.timestamp("us")),
    "tz": ("timestamptz", datetime.datetime(2024, 2, 29, 12, tzinfo=UTC), pyarrow.timestamp("us", "+00:00")),
    "il": ("integer[]", [1, None, -3], pyarrow.list_(pyarrow.int32())),
    "tl": ("text[]", ["a", None, 'b "q"'], pyarrow.list_(pyarrow.string())),
    "nl": ("numeric(9,2)[]", [D("-1.25"), None], pyarrow.list_(pyarrow.decimal128(9, 2))),
    "bl": ("boolean[]", [True, False, None], pyarrow.list_(pyarrow.bool_())),
    "zl": ("timestamptz[]", [datetime.datetime(2024, 2, 29, 12, tzinfo=UTC)], pyarrow.list_(pyarrow.timestamp("us", "+00:00"))),
}


class Results(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.connection = connection = halcyon.connect(autocommit=True)
        columns = ", ".join(f"{name} {ty}" for name, (ty, _, _) in COLUMNS.items())
        connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns})")
        places = ", ".join(["%s"] * len(COLUMNS))
        connection.execute(f"INSERT INTO t VALUES (1, {places})", [value for _, value, _ in COLUMNS.values()])
        connection.execute("INSERT INTO t (id) VALUES (2)")
        connection.execute("CREATE TABLE many AS SELECT i, i * 0.5 AS h, 'text ' || i AS t FROM generate_series(1, 50000) i")

    def selects(self):
        names = ", ".join(COLUMNS)
        # A vectorised statement, and one by key: the rows of these are put into batches.
        yield self.connection.sql(f"SELECT {names} FROM t ORDER BY id"), 2
        yield self.connection.sql(f"SELECT {names} FROM t WHERE id = 1"), 1

    def test_pyarrow_has_each_type_and_value(self):
        for relation, rows in self.selects():
            table = relation.arrow()
            self.assertEqual(table.num_rows, rows)
            for name, (_, value, ty) in COLUMNS.items():
                self.assertEqual(table.schema.field(name).type, ty, name)
                self.assertEqual(table.column(name).to_pylist(), [value, None][:rows], name)

    def test_polars_and_duckdb_have_each_value(self):
        for relation, rows in self.selects():
            frame = relation.pl()
            self.assertEqual(frame.shape, (rows, len(COLUMNS)))
            for name, (_, value, _) in COLUMNS.items():
                self.assertEqual(frame[name].to_list()[0], value, name)
            # DuckDB finds the variable `relation` and asks it for its stream.
            found = duckdb.sql("SELECT b, s, i, l, r, f, n, t, x, d, ts, il, tl FROM relation").fetchone()
            self.assertEqual(list(found), [COLUMNS[name][1] for name in "b s i l r f n t x d ts il tl".split()])

    def test_pandas_has_each_column(self):
        for relation, rows in self.selects():
            frame = relation.df()
            self.assertEqual(frame.shape, (rows, len(COLUMNS)))
            self.assertEqual(frame["t"][0], COLUMNS["t"][1])
            self.assertEqual(frame["ts"][0], pandas.Timestamp(COLUMNS["ts"][1]))
            self.assertEqual(list(frame["tl"][0]), COLUMNS["tl"][1])

    def test_data_frames_have_durations_and_texts_for_what_they_do_not_know(self):
        days = self.connection.sql("SELECT INTERVAL '1 day 2 seconds' AS v, CAST('00112233-4455-6677-8899-aabbccddeeff' AS uuid) AS u, ARRAY[1] AS a")
        self.assertEqual(days.pl().row(0), (datetime.timedelta(days=1, seconds=2), "00112233-4455-6677-8899-aabbccddeeff", [1]))
        self.assertEqual(days.df()["v"][0], pandas.Timedelta(days=1, seconds=2))
        months = self.connection.sql("SELECT INTERVAL '1 month 2 days' AS v")
        self.assertEqual(months.pl().row(0), ("1 mon 2 days",))
        self.assertEqual(months.df()["v"][0], "1 mon 2 days")
        self.assertEqual(months.arrow().column(0).to_pylist()[0].months, 1)
        self.assertEqual(months.fetchone(), (halcyon.Interval(1, 2, 0),))

    def test_large_results_are_whole(self):
        relation = self.connection.sql("SELECT i, h, t FROM many ORDER BY i")
        table = relation.arrow()
        self.assertEqual((table.num_rows, len(relation), relation.shape), (50000, 50000, (50000, 3)))
        self.assertEqual(table.column("i").to_pylist(), list(range(1, 50001)))
        self.assertEqual(table.column("t")[49999].as_py(), "text 50000")
        self.assertEqual(relation.fetchmany(2, start=49999), [(50000, D("25000.0"), "text 50000")])
        self.assertEqual(relation.fetchall()[10][0], 11)

    def test_the_memory_of_a_result_is_shared(self):
        relation = self.connection.sql("SELECT i, t FROM many")
        viewed = relation.arrow(views=True)
        self.assertEqual(viewed.schema.field("t").type, pyarrow.string_view())
        self.assertEqual(viewed.column("t").to_pylist(), relation.arrow().column("t").to_pylist())
        texts = [[chunk.buffers()[1].address for chunk in relation.arrow(views=True).column(1).chunks] for _ in range(2)]
        self.assertEqual(texts[0], texts[1])
        # The same buffers every time: nothing is copied on the way out.
        places = [[chunk.buffers()[1].address for chunk in relation.arrow().column(0).chunks] for _ in range(2)]
        self.assertEqual(places[0], places[1])
        table = relation.arrow()
        total = sum(table.column(0).to_pylist())
        # And they live as long as somebody has them.
        del relation
        self.connection.execute("DELETE FROM many WHERE i < 0")
        self.assertEqual(sum(table.column(0).to_pylist()), total)

    def test_a_cursors_batches_are_computed_as_they_are_asked_for(self):
        cursor = self.connection.execute("SELECT i FROM many ORDER BY i")
        self.assertEqual(cursor.fetchone(), (1,))
        reader = pyarrow.RecordBatchReader.from_stream(cursor)
        self.assertEqual(reader.schema.names, ["i"])
        rows = [value for batch in reader for value in batch.column(0).to_pylist()]
        self.assertEqual(rows, list(range(2, 50001)))
        with self.assertRaises(halcyon.InterfaceError):
            cursor.fetchone()
        self.assertEqual(self.connection.execute("SELECT i FROM many").pl().height, 50000)

    def test_an_error_on_the_way_is_told(self):
        cursor = self.connection.execute("SELECT 1 / (i - 40000) FROM many ORDER BY i")
        with self.assertRaises(pyarrow.ArrowException) as caught:
            pyarrow.RecordBatchReader.from_stream(cursor).read_all()
        self.assertIn("division by zero", str(caught.exception))
        with self.assertRaises(halcyon.DataError):
            self.connection.sql("SELECT 1 / (i - 40000) FROM many ORDER BY i").arrow()

    def test_results_without_rows_or_columns(self):
        empty = self.connection.sql("SELECT i, t FROM many WHERE i < 0")
        self.assertEqual(empty.arrow().schema.names, ["i", "t"])
        self.assertEqual((len(empty), empty.df().shape, empty.pl().shape, empty.fetchone()), (0, (0, 2), (0, 2), None))
        self.assertIsNone(self.connection.sql("CREATE TEMP TABLE gone (i INTEGER)"))

    def test_relations_are_shown(self):
        relation = self.connection.sql("SELECT i, t AS \"<b>\" FROM many ORDER BY i")
        lines = repr(relation).splitlines()
        self.assertEqual(lines[1].split(), ["│", "i", "│", "<b>", "│"])
        self.assertEqual(lines[4].split(), ["│", "1", "│", "text", "1", "│"])
        self.assertEqual(lines[-1], "50000 rows, 20 shown, 2 columns")
        shown = relation._repr_html_()
        self.assertIn("&lt;b&gt;", shown)
        self.assertNotIn("<b>", shown)
        self.assertEqual(shown.count("<tr>"), 21)


class Tables(unittest.TestCase):
    def setUp(self):
        self.connection = halcyon.connect(autocommit=True)
        self.addCleanup(self.connection.close)

    def rows(self, text):
        return self.connection.sql(text).fetchall()

    def test_data_frames_of_pandas(self):
        frame = pandas.DataFrame({
            "i": [1, 2, 3], "f": [0.5, None, 1.5], "t": ["a", None, "ü"], "at": pandas.to_datetime(["2024-01-01", None, "2024-02-29"]),
            "k": pandas.Categorical(["u", "v", "u"]), "dur": pandas.to_timedelta([1, 2, None], unit="s"), "bit": [True, False, True],
        })
        self.assertEqual(self.connection.register("frame", frame), 3)
        self.assertEqual(self.rows("SELECT * FROM frame ORDER BY i")[0],
                         (1, 0.5, "a", datetime.datetime(2024, 1, 1), "u", datetime.timedelta(seconds=1), True))
        self.assertEqual(self.rows("SELECT k, count(*) FROM frame GROUP BY k ORDER BY k"), [("u", 2), ("v", 1)])
        self.assertEqual(self.connection.register("frame", frame[:1]), 1)
        self.assertEqual(self.rows("SELECT count(*) FROM frame"), [(1,)])
        self.connection.unregister("frame")
        with self.assertRaises(halcyon.ProgrammingError):
            self.connection.execute("SELECT * FROM pg_temp.frame")

    def test_data_frames_of_polars(self):
        frame = polars.DataFrame(
            {"i": [1, 2], "d": [datetime.date(2024, 1, 1), None], "u": [1, 2**63], "l": [[1, 2], None], "c": ["a", "b"],
             "v": [datetime.timedelta(days=1), None], "m": [datetime.time(1, 2), None], "n": [D("1.50"), None]},
            schema_overrides={"u": polars.UInt64, "c": polars.Categorical, "n": polars.Decimal(10, 2)})
        self.connection.register("frame", frame)
        self.assertEqual(self.rows("SELECT * FROM frame ORDER BY i"), [
            (1, datetime.date(2024, 1, 1), D(1), [1, 2], "a", datetime.timedelta(days=1), datetime.time(1, 2), D("1.50")),
            (2, None, D(2**63), None, "b", None, None, None)])

    def test_tables_of_pyarrow_and_relations_of_duckdb(self):
        table = pyarrow.table({
            "j": pyarrow.array(['{"a": 1}'], pyarrow.json_()), "u": pyarrow.array([uuid.UUID(int=7).bytes], pyarrow.uuid()),
            "ns": pyarrow.array([datetime.datetime(2024, 1, 1)], pyarrow.timestamp("ns", "Europe/Berlin")),
            "half": pyarrow.array([0.5], pyarrow.float32()), "tiny": pyarrow.array([7], pyarrow.uint8()),
            "ll": pyarrow.array([["a"]], pyarrow.large_list(pyarrow.large_string())), "none": pyarrow.nulls(1)})
        self.connection.register("t", table)
        self.assertEqual(self.rows("SELECT j, u, ns, half, tiny, ll, \"none\" FROM t"), [
            ({"a": 1}, uuid.UUID(int=7), datetime.datetime(2024, 1, 1, tzinfo=UTC), 0.5, 7, ["a"], None)])
        relation = duckdb.sql("SELECT range AS i, 'text ' || range AS t, range::DECIMAL(9,2) AS n FROM range(100000)")
        self.assertEqual(self.connection.register("d", relation), 100000)
        self.assertEqual(self.rows("SELECT sum(i), count(DISTINCT t), max(n) FROM d"), [(D(4999950000), 100000, D("99999.00"))])

    def test_a_relation_of_ours_is_a_table_of_another_database(self):
        self.connection.register("again", halcyon.sql("SELECT i, ARRAY[i] AS a FROM generate_series(1, 3) i"))
        self.assertEqual(self.rows("SELECT * FROM again ORDER BY i"), [(1, [1]), (2, [2]), (3, [3])])

    def test_tables_are_made_and_added_to(self):
        self.assertEqual(self.connection.create_table("kept", {"i": [1, 2], "t": ["a", "b"]}), 2)
        with self.assertRaises(halcyon.ProgrammingError) as caught:
            self.connection.create_table("kept", {"i": [1]})
        self.assertEqual(caught.exception.sqlstate, "42P07")
        # By name, whatever their order, and converted to the columns' types.
        self.assertEqual(self.connection.append("kept", [{"t": "c", "i": 3}, {"t": None, "i": 4}]), 2)
        self.assertEqual(self.connection.append("kept", pyarrow.table({"i": pyarrow.array([5], pyarrow.int8())})), 1)
        self.assertEqual(self.rows("SELECT i, t FROM kept ORDER BY i"), [(1, "a"), (2, "b"), (3, "c"), (4, None), (5, None)])
        self.connection.execute("CREATE SCHEMA s")
        self.connection.create_table("s.kept", {"i": [7]})
        self.connection.create_table("s.kept", {"i": [8]}, replace=True)
        self.assertEqual(self.rows("SELECT i FROM s.kept"), [(8,)])
        other = self.connection.connect()
        self.assertEqual(other.execute("SELECT count(*) FROM kept").fetchone(), (5,))

    def test_what_is_refused_leaves_nothing(self):
        self.connection.execute("CREATE TABLE t (i INTEGER PRIMARY KEY CHECK (i > 0))")
        for data, kind in [({"i": [1, 2, -1]}, halcyon.IntegrityError), ({"i": [1, 1]}, halcyon.IntegrityError),
                           ({"i": [2**40]}, halcyon.DataError), ({"nothing": [1]}, halcyon.ProgrammingError),
                           ({"i": [{"a": 1}]}, halcyon.NotSupportedError)]:
            with self.assertRaises(kind, msg=str(data)):
                self.connection.append("t", data)
        for data in (7, "text", [], [7], None):
            with self.assertRaises(halcyon.ProgrammingError, msg=repr(data)):
                self.connection.register("x", data)
        self.assertEqual(self.rows("SELECT count(*) FROM t"), [(0,)])

        def batches():
            yield pyarrow.record_batch({"i": [1]})
            raise ZeroDivisionError("in the middle")

        reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema({"i": pyarrow.int64()}), batches())
        with self.assertRaises(halcyon.DataError):
            self.connection.append("t", reader)
        self.assertEqual(self.rows("SELECT count(*) FROM t"), [(0,)])
        self.connection.append("t", {"i": [1]})

    def test_random_tables_come_back_as_they_went(self):
        pick = random.Random(7)
        texts = ["", "a", "grün €", "longer than twelve bytes, so that it lies in a buffer", "😀" * 5]
        makers = {
            pyarrow.bool_(): lambda: pick.random() < 0.5,
            pyarrow.int16(): lambda: pick.randint(-(2**15), 2**15 - 1),
            pyarrow.int64(): lambda: pick.randint(-(2**63), 2**63 - 1),
            pyarrow.float64(): lambda: pick.choice([0.0, -1e300, 0.1, float("inf")]),
            pyarrow.string(): lambda: pick.choice(texts),
            pyarrow.large_string(): lambda: pick.choice(texts),
            pyarrow.string_view(): lambda: pick.choice(texts),
            pyarrow.binary(): lambda: pick.randbytes(pick.randint(0, 40)),
            pyarrow.date32(): lambda: datetime.date.fromordinal(pick.randint(1, 3652059)),
            pyarrow.timestamp("us"): lambda: datetime.datetime(2024, 1, 1) + datetime.timedelta(microseconds=pick.randint(-(10**15), 10**15)),
            pyarrow.decimal128(20, 3): lambda: D(pick.randint(-(10**20) + 1, 10**20 - 1)).scaleb(-3),
            pyarrow.list_(pyarrow.int32()): lambda: [pick.choice([None, 1, -5]) for _ in range(pick.randint(0, 4))],
            pyarrow.list_(pyarrow.string()): lambda: [pick.choice([None, *texts, 'b "q" {x}\\']) for _ in range(pick.randint(0, 4))],
            pyarrow.dictionary(pyarrow.int8(), pyarrow.string()): lambda: pick.choice(texts),
        }
        for _ in range(20):
            rows = pick.choice([0, 1, 7, 1000, 9000])
            types = pick.choices(list(makers), k=pick.randint(1, 5))
            columns = {f"c{at}": pyarrow.array([None if pick.random() < 0.2 else makers[ty]() for _ in range(rows)], ty)
                       for at, ty in enumerate(types)}
            whole = pyarrow.table({"n": pyarrow.array(range(rows), pyarrow.int32()), **columns})
            # Pieces of several chunks: their vectors begin within buffers, and their bitmaps within bytes.
            parts = pyarrow.concat_tables([whole.slice(rows // 3), whole.slice(0, rows // 3)]).slice(pick.randint(0, 3))
            self.connection.register("t", parts)
            for text in ("SELECT * FROM t ORDER BY n", "SELECT * FROM t WHERE n >= 0"):
                found = self.connection.sql(text)
                expected = sorted(parts.to_pylist(), key=lambda row: row["n"])
                self.assertEqual(found.arrow().sort_by("n").to_pylist(), expected, types)
                self.assertEqual(sorted(found.fetchall()), [tuple(row.values()) for row in expected], types)

    def test_a_batch_may_not_ask_the_connection_that_loads_it(self):
        self.connection.execute("CREATE TABLE t (i BIGINT)")

        def batches(connection):
            for (number,) in connection.execute("SELECT i FROM generate_series(1, 3) i").fetchall():
                yield pyarrow.record_batch({"i": [number]})

        schema = pyarrow.schema({"i": pyarrow.int64()})
        with self.assertRaises(halcyon.Error) as caught:
            self.connection.append("t", pyarrow.RecordBatchReader.from_batches(schema, batches(self.connection)))
        self.assertIn("Use another connection", str(caught.exception))
        other = self.connection.connect()
        self.assertEqual(self.connection.append("t", pyarrow.RecordBatchReader.from_batches(schema, batches(other))), 3)
        # A cursor's rows are read without the connection.
        self.assertEqual(self.connection.append("t", self.connection.execute("SELECT i FROM generate_series(1, 50000) i")), 50000)

    def test_within_a_transaction_it_is_undone_with_it(self):
        connection = self.connection.connect(autocommit=False)
        connection.create_table("t", {"i": [1]})
        connection.register("r", {"i": [2]})
        self.assertEqual(connection.execute("SELECT t.i + r.i FROM t, r").fetchone(), (3,))
        connection.rollback()
        with self.assertRaises(halcyon.ProgrammingError):
            connection.execute("SELECT * FROM t")

    def test_variables_are_tables(self):
        frame = pandas.DataFrame({"i": [1, 2, 3]})
        Other = pyarrow.table({"i": [2, 3, 4]})
        self.assertEqual(self.rows("SELECT 1"), [(1,)])
        found = self.connection.sql("SELECT frame.i FROM frame JOIN Other USING (i) ORDER BY i")
        frame = frame[:1]
        self.assertEqual(found.fetchall(), [(2,), (3,)])
        self.assertEqual(self.connection.sql("SELECT count(*) FROM frame").fetchone(), (1,))
        self.assertEqual(halcyon.sql("SELECT sum(i) FROM Other").fetchone(), (D(9),))
        self.connection.sql("CREATE TABLE kept AS SELECT * FROM frame")
        self.assertEqual(self.rows("SELECT * FROM kept"), [(1,)])
        with self.assertRaises(halcyon.ProgrammingError):
            self.connection.sql("SELECT * FROM no_variable")
        with self.assertRaises(halcyon.ProgrammingError):
            # A cursor does not look for variables.
            self.connection.execute("SELECT * FROM frame")
        self.assertIsNotNone(Other)

    def test_files_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            table = pyarrow.table({"i": [1, 2], "t": ["a", "b"]})
            pyarrow.parquet.write_table(table, folder / "one.parquet")
            pyarrow.csv.write_csv(table, folder / "two.csv")
            self.assertEqual(self.connection.read_parquet(folder / "one.parquet").fetchall(), [(1, "a"), (2, "b")])
            self.assertEqual(self.connection.read_csv(str(folder / "two.csv"), "named").fetchall(), [(1, "a"), (2, "b")])
            self.assertEqual(self.rows("SELECT count(*) FROM one, named"), [(4,)])
            self.assertEqual(halcyon.read_csv(folder / "two.csv").fetchone(), (1, "a"))


if __name__ == "__main__":
    unittest.main()
