#!/usr/bin/env python3
"""The ADBC driver beside DuckDB's in one process: rows out as Arrow, Arrow in, and single statements.

    lab/adbc_arrow.py [--rows 10000000] [--repeat 5] [--library target/release/libadbc_driver_halcyon.so]

Both are loaded by the same driver manager (adbc_driver_manager of PyPI), get the same table (a key, a BIGINT, a DOUBLE PRECISION, a text of up to
14 characters, a date) and run by turns, so that other work on the machine meets both. Every answer is compared between the two before its times
count; exit status 1 if one differs. Prints a line of JSON for each figure: median, least and greatest of --repeat rounds, in milliseconds (`unit`:
microseconds for single statements). DuckDB's driver is the library of the package `duckdb`. Needs tests/requirements.txt.

    cargo build --release --locked --package halcyon-adbc   # makes the library
"""

import argparse
import importlib.util
import os
import pathlib
import sys

import adbc_driver_manager.dbapi as dbapi
import python_arrow

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = "id, amount, ratio, name, day"


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--points", type=int, default=2000, help="single statements in a round")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--library", default=str(ROOT / "target/release/libadbc_driver_halcyon.so"))
    return parser.parse_args()


def connections(chosen):
    """Our connection and DuckDB's, with as many threads each."""
    ours = dbapi.connect(
        driver=chosen.library, entrypoint="AdbcDriverHalcyonInit", db_kwargs={"threads": str(chosen.threads)}, autocommit=True)
    library = importlib.util.find_spec("_duckdb") or importlib.util.find_spec("duckdb.duckdb")
    theirs = dbapi.connect(
        driver=library.origin, entrypoint="duckdb_adbc_init", db_kwargs={"path": ":memory:"}, autocommit=True)
    with theirs.cursor() as cursor:
        cursor.execute(f"SET threads = {chosen.threads}")
    return ours, theirs


def read(connection, sql, **kept):
    """All rows of a query as a table of pyarrow."""
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**kept)
        cursor.execute(sql)
        return cursor.fetch_arrow_table()


def ingest(connection, table, data):
    with connection.cursor() as cursor:
        return cursor.adbc_ingest(table, data, mode="replace")


def points(connection, sql, keys):
    with connection.cursor() as cursor:
        found = []
        for key in keys:
            cursor.execute(sql, (key,))
            found.append(cursor.fetchone())
        return found


def main():
    chosen = options()
    ours, theirs = connections(chosen)
    data = python_arrow.table(chosen.rows)
    report = python_arrow.Report("adbc_arrow")
    plain = python_arrow.plain
    arms = {"halcyon": ours, "duckdb": theirs}
    with ours, theirs:
        report.figures("ingest", chosen.rows, {
            name: lambda connection=connection: ingest(connection, "t", data) for name, connection in arms.items()
        }, chosen.repeat, lambda a, b: a == b == chosen.rows)
        select = f"SELECT {COLUMNS} FROM t"
        report.figures("arrow_out", chosen.rows, {
            "halcyon": lambda: read(ours, select),
            "halcyon, texts as views": lambda: read(ours, select, **{"halcyon.string_views": "true"}),
            "duckdb": lambda: read(theirs, select),
        }, chosen.repeat, lambda a, b: plain(a).equals(plain(b)) and plain(a).equals(plain(data)))
        fixed = "SELECT id, amount, ratio, day FROM t"
        report.figures("numbers_out", chosen.rows, {
            name: lambda connection=connection: read(connection, fixed) for name, connection in arms.items()
        }, chosen.repeat, lambda a, b: a.num_rows == b.num_rows and a.sort_by("id").column("amount").equals(b.sort_by("id").column("amount")))
        for connection in arms.values():
            with connection.cursor() as cursor:
                cursor.execute("CREATE TABLE small (id BIGINT PRIMARY KEY, name TEXT)")
            with connection.cursor() as cursor:
                cursor.adbc_ingest("small", data.select(["id", "name"]).slice(0, 100_000), mode="append")
        keys = [at * 7919 % min(chosen.rows, 100_000) for at in range(chosen.points)]
        report.figures("point", 100_000, {
            name: lambda connection=connection: points(connection, "SELECT name FROM small WHERE id = ?", keys)
            for name, connection in arms.items()
        }, chosen.repeat, lambda a, b: a == b, per=chosen.points, unit="us")
    return report.is_wrong


if __name__ == "__main__":
    sys.exit(main())
