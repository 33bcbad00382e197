"""What programs do through ADBC's driver, which reads by binary COPY and looks types up by themselves."""

import adbc_driver_postgresql.dbapi as adbc
import pandas
import pyarrow

from checks import DATABASE, HOST, PORT, USER, check, run

URI = f"postgresql://{USER}@{HOST}:{PORT}/{DATABASE}"
TABLE = pyarrow.table({"a": [1, 2, 3], "b": ["x", "y", None], "c": [1.5, 2.5, None]})


def fetched(connection, text, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return cursor.fetch_arrow_table().to_pydict()


@check
def a_query():
    with adbc.connect(URI, autocommit=True) as connection:
        rows = fetched(connection, "SELECT 1 AS a, 'x' AS b, 1.5::float8 AS c, true AS d")
        assert rows == {"a": [1], "b": ["x"], "c": [1.5], "d": [True]}, rows


@check
def ingestion_makes_fills_and_appends():
    with adbc.connect(URI, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("ingested", TABLE, mode="create")
        cursor.adbc_ingest("ingested", TABLE, mode="append")
        rows = fetched(connection, "SELECT count(*) AS n, sum(c) AS s FROM ingested")
        assert rows == {"n": [6], "s": [8.0]}, rows


@check
def parameters():
    with adbc.connect(URI, autocommit=True) as connection:
        rows = fetched(connection, "SELECT DISTINCT b FROM ingested WHERE a = $1", (2,))
        assert rows == {"b": ["y"]}, rows


@check
def a_transaction():
    with adbc.connect(URI) as connection:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM ingested")
        connection.rollback()
        assert fetched(connection, "SELECT count(*) AS n FROM ingested") == {"n": [6]}


@check
def the_schema_of_a_table():
    with adbc.connect(URI, autocommit=True) as connection:
        assert connection.adbc_get_table_schema("ingested").names == ["a", "b", "c"]


@check
def pandas_writes_and_reads():
    with adbc.connect(URI, autocommit=True) as connection:
        frame = pandas.DataFrame({"x": [1, 2], "y": ["a", "b"]})
        frame.to_sql("framed", connection, if_exists="replace", index=False)
        seen = pandas.read_sql("SELECT * FROM framed ORDER BY x", connection)
        assert seen.to_dict("list") == frame.to_dict("list"), seen


run()
