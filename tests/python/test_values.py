"""Values of every type: as parameters, as rows, and what has no object."""

import datetime
import decimal
import random
import unittest
import uuid

import halcyon
from halcyon import _halcyon

UTC = datetime.timezone.utc
D = decimal.Decimal

# Values of each type, by the type's name: each comes back as it went.
VALUES = {
    "boolean": [True, False],
    "smallint": [0, -32768, 32767],
    "integer": [0, -(2**31), 2**31 - 1],
    "bigint": [0, -(2**63), 2**63 - 1],
    "real": [0.5, -1.5 * 2.0**90, float("inf")],
    "double precision": [0.1, -1e300, 5e-324, float("-inf")],
    "numeric(12,3)": [D("-123456.789"), D("0.001"), D("0.000"), D("999999999.999")],
    "numeric(38,0)": [D(10**38 - 1), D(-(10**38) + 1)],
    "text": ["", "grün €", "a'b\"c\\d\n", "{}", "😀"],
    "varchar(10)": ["abc"],
    "bytea": [b"", b"\x00\xff", bytes(range(256))],
    "date": [datetime.date(2024, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    "time": [datetime.time(), datetime.time(23, 59, 58, 123456)],
    "timestamp": [datetime.datetime(2024, 2, 29, 12, 34, 56, 789), datetime.datetime(1, 1, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)],
    "timestamptz": [datetime.datetime(2024, 2, 29, 12, 34, 56, 789, UTC)],
    "interval": [datetime.timedelta(days=3, hours=4, microseconds=5), datetime.timedelta(microseconds=-1), halcyon.Interval(14, -3, 7)],
    "uuid": [uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")],
    "json": [{"a": [1, None, "ü"]}, {}],
    "jsonb": [{"a": [1, None, "ü"]}, [], [1, "a", None], [[1], [2]], [{"a": 1}]],
    "text[]": [["a", None, 'b "q", {x}\\', "", "NULL"], []],
    "integer[]": [[1, None, -3], [], [None]],
    "bigint[]": [[1, 2**40]],
    "double precision[]": [[0.5, -1e300]],
    "numeric(9,2)[]": [[D("-1.25"), None]],
    "boolean[]": [[True, False, None]],
    "date[]": [[datetime.date(2024, 2, 29)]],
    "timestamptz[]": [[datetime.datetime(2024, 2, 29, 12, 34, 56, 789, UTC)]],
    "interval[]": [[datetime.timedelta(days=1), None]],
    "uuid[]": [[uuid.UUID(int=7), None]],
    "bytea[]": [[b"\x00\xff", None]],
    "inet": ["10.0.0.1/8"],
}


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.connection = halcyon.connect(autocommit=True)
        columns = ", ".join(f"c{at} {ty}" for at, ty in enumerate(VALUES))
        cls.connection.execute(f"CREATE TABLE t (id SERIAL PRIMARY KEY, {columns})")

    def test_each_comes_back_as_it_went(self):
        for at, (ty, values) in enumerate(VALUES.items()):
            for value in [*values, None]:
                insert = f"INSERT INTO t (c{at}) VALUES (%s) RETURNING id"
                row = self.connection.execute(insert, (value,)).fetchone()[0]
                # By a point query, and by one that is vectorised.
                for select in (f"SELECT c{at} FROM t WHERE id = %s", f"SELECT c{at} FROM t WHERE id + 0 = %s"):
                    found = self.connection.execute(select, (row,)).fetchone()[0]
                    self.assertEqual(found, value, f"{ty} by {select}")
                    self.assertIs(type(found), type(value), f"{ty} by {select}")

    def test_a_number_that_is_none_stays_none(self):
        found = self.connection.execute("SELECT CAST('NaN' AS DOUBLE PRECISION)").fetchone()[0]
        self.assertNotEqual(found, found)

    def test_a_moment_in_a_zone_is_the_same_in_utc(self):
        zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
        moment = datetime.datetime(2024, 1, 1, 2, 0, tzinfo=zone)
        found = self.connection.execute("SELECT %s", (moment,)).fetchone()[0]
        self.assertEqual(found, moment)
        self.assertEqual(found.utcoffset(), datetime.timedelta())

    def test_parameters_have_the_types_of_their_objects(self):
        for value, ty in [(1, "integer"), (2**40, "bigint"), (2**70, "numeric"), (1.5, "double precision"),
                          (True, "boolean"), (D("1.5"), "numeric"), (b"", "bytea"), ({}, "jsonb"), ([1], "integer[]"),
                          (datetime.date.today(), "date"), (uuid.uuid4(), "uuid"),
                          (datetime.timedelta(1), "interval")]:
            found = self.connection.execute("SELECT pg_typeof(%s)::text", (value,)).fetchone()[0]
            self.assertEqual(found, ty)

    def test_texts_are_what_the_statement_makes_of_them(self):
        self.connection.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
        self.connection.execute("CREATE TABLE m (m mood, d date)")
        self.connection.execute("INSERT INTO m VALUES (%s, %s)", ("happy", "2024-02-29"))
        row = self.connection.execute("SELECT m, d FROM m WHERE m = %s", ("happy",)).fetchone()
        self.assertEqual(row, ("happy", datetime.date(2024, 2, 29)))
        rows = self.connection.execute("SELECT 1 FROM m WHERE m::text = ANY(%s)", (["sad", "happy"],)).fetchall()
        self.assertEqual(rows, [(1,)])

    def test_scalars_of_numpy_are_the_numbers_that_they_hold(self):
        try:
            import numpy
        except ImportError as error:
            self.skipTest(str(error))
        for value, expected in [(numpy.int64(7), 7), (numpy.int8(-1), -1), (numpy.float32(0.5), 0.5), (numpy.bool_(True), True)]:
            self.assertEqual(self.connection.execute("SELECT %s", (value,)).fetchone(), (expected,))

    def test_what_has_no_type_or_no_object_is_refused(self):
        for value in (object(), 1j, {1}, [object()], {"a": object()}):
            with self.assertRaises((halcyon.ProgrammingError, TypeError), msg=repr(value)):
                self.connection.execute("SELECT %s", (value,))
        for value in (10**40, D("NaN"), D("1e39")):
            with self.assertRaises(halcyon.Error, msg=repr(value)):
                self.connection.execute("SELECT %s", (value,))
        for text in ("DATE '12024-01-01'", "TIMESTAMP '0044-03-15 00:00 BC'", "TIME '24:00'"):
            with self.assertRaises(halcyon.DataError, msg=text) as caught:
                self.connection.execute(f"SELECT {text}").fetchone()
            self.assertEqual(caught.exception.sqlstate, "22008")
            self.assertIn("no object in Python's datetime", str(caught.exception))

    def test_years_and_days_agree_with_pythons(self):
        dates = [datetime.date.fromordinal(random.randint(1, 3652059)) for _ in range(2000)]
        found = self.connection.execute("SELECT d FROM unnest(%s::date[]) WITH ORDINALITY AS t (d, n) ORDER BY n", (dates,))
        self.assertEqual([row[0] for row in found], dates)


class Constructors(unittest.TestCase):
    def test_ticks_are_local_time(self):
        ticks = 1_700_000_000
        moment = datetime.datetime.fromtimestamp(ticks)
        self.assertEqual(halcyon.TimestampFromTicks(ticks), moment)
        self.assertEqual(halcyon.DateFromTicks(ticks), moment.date())
        self.assertEqual(halcyon.TimeFromTicks(ticks), moment.time())

    def test_random_texts_do_not_break_placeholders(self):
        pieces = ["'", '"', "$", "$$", "$1", "%", "%%", "%s", "%(a)s", "?", ":a", "--", "\n", "/*", "*/", "\\", "é", "😀", " "]
        for _ in range(5000):
            _halcyon.placeholders("".join(random.choices(pieces, k=10)))


if __name__ == "__main__":
    unittest.main()
