"""Arrow both ways by the driver: pyarrow, pandas, polars and DuckDB."""

import datetime
import decimal
import unittest

import duckdb
import pandas
import polars
import pyarrow
from adbc_driver_halcyon import dbapi

ROWS = {
    "id": pyarrow.array([1, 2, 3], pyarrow.int64()),
    "name": pyarrow.array(["tea", None, "a text of more than twelve bytes"]),
    "price": pyarrow.array([decimal.Decimal("4.20"), None, decimal.Decimal("-1.00")], pyarrow.decimal128(9, 2)),
    "day": pyarrow.array([datetime.date(2024, 2, 29), None, datetime.date(1969, 12, 31)]),
    "at": pyarrow.array([datetime.datetime(2024, 2, 29, 12), None, datetime.datetime(1, 1, 1)], pyarrow.timestamp("us")),
    "tags": pyarrow.array([["a", None], None, []], pyarrow.list_(pyarrow.string())),
    "raw": pyarrow.array([b"\0\xff", None, b""]),
}


class Frames(unittest.TestCase):
    def setUp(self):
        self.connection = dbapi.connect()
        self.cursor = self.connection.cursor()
        self.table = pyarrow.table(ROWS)

    def tearDown(self):
        self.cursor.close()
        self.connection.close()

    def read(self):
        self.cursor.execute("SELECT * FROM t ORDER BY id")
        return self.cursor.fetch_arrow_table()

    def plain(self, table):
        return table.replace_schema_metadata(None).cast(self.table.schema)

    def test_a_table_of_pyarrow_comes_back(self):
        self.assertEqual(self.cursor.adbc_ingest("t", self.table), 3)
        self.assertTrue(self.plain(self.read()).equals(self.table))

    def test_a_stream_of_batches(self):
        reader = pyarrow.RecordBatchReader.from_batches(self.table.schema, self.table.to_batches(max_chunksize=1))
        self.assertEqual(self.cursor.adbc_ingest("t", reader, mode="create_append"), 3)
        self.assertTrue(self.plain(self.read()).equals(self.table))

    def test_a_stream_that_fails_stores_nothing(self):
        def batches():
            yield self.table.to_batches()[0]
            raise ValueError("cut off")

        reader = pyarrow.RecordBatchReader.from_batches(self.table.schema, batches())
        with self.assertRaisesRegex(dbapi.Error, "cut off"):
            self.cursor.adbc_ingest("t", reader)
        self.connection.rollback()
        with self.assertRaises(dbapi.ProgrammingError):
            self.read()

    def test_pandas_both_ways(self):
        frame = pandas.DataFrame({"id": [1, 2], "name": ["a", "b"]})
        self.assertEqual(frame.to_sql("t", self.connection, index=False), 2)
        found = pandas.read_sql("SELECT * FROM t ORDER BY id", self.connection)
        self.assertEqual(found.to_dict("list"), {"id": [1, 2], "name": ["a", "b"]})

    def test_polars_both_ways(self):
        frame = polars.DataFrame({"id": [1, 2], "name": ["a", None], "tags": [["x"], []]})
        frame.write_database("t", self.connection, engine="adbc")
        found = polars.read_database("SELECT * FROM t ORDER BY id", self.connection)
        self.assertEqual(found.to_dict(as_series=False), frame.to_dict(as_series=False))

    def test_duckdb_reads_a_stream(self):
        self.cursor.adbc_ingest("t", self.table)
        self.cursor.execute("SELECT id, name FROM t")
        found = self.cursor.fetch_record_batch()
        self.assertEqual(duckdb.sql("SELECT sum(id), count(name) FROM found").fetchall(), [(6, 2)])
        self.assertEqual(self.cursor.adbc_ingest("u", duckdb.sql("SELECT 1 AS a, 'x' AS b").to_arrow_table()), 1)

    def test_types_of_pandas_with_nulls(self):
        self.cursor.execute("SELECT 1 AS a, NULL::timestamptz AS b, NULL::uuid AS c, INTERVAL '1 day' AS d, 't'::text AS e")
        frame = self.cursor.fetch_arrow_table().to_pandas()
        self.assertEqual(list(frame.columns), ["a", "b", "c", "d", "e"])


if __name__ == "__main__":
    unittest.main()
