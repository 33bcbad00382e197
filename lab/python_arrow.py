#!/usr/bin/env python3
"""The Python package beside DuckDB's in one process: rows out as Arrow and as objects, Arrow in, and single statements.

    lab/python_arrow.py [--rows 2000000] [--repeat 7] [--library target/release/libhalcyon_python.so]

Both engines get the same table (a key, a BIGINT, a DOUBLE PRECISION, a text of up to 14 characters, a date) and run by turns, so that other work
on the machine meets both. Every answer is compared between the two before its times count; exit status 1 if one differs. Prints a line of JSON
for each figure: median, least and greatest of --repeat rounds, in milliseconds (`unit`: microseconds for single statements). `point` runs a
lookup by key on Python's main thread, `point_thread` on another one; sqlite3 of Python's library stands beside. Needs tests/requirements.txt.

    cargo build --release --locked --package halcyon-python   # makes the library
"""

import argparse
import importlib
import json
import os
import pathlib
import shutil
import sqlite3
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = "id, amount, ratio, name, day"


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--objects", type=int, default=200_000, help="rows that become Python's objects")
    parser.add_argument("--points", type=int, default=2000, help="single statements in a round")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--library", default=str(ROOT / "target/release/libhalcyon_python.so"))
    return parser.parse_args()


def package(library, folder):
    """Imports the package with a library that cargo has built."""
    shutil.copytree(ROOT / "crates/python/python/halcyon", folder / "halcyon")
    (folder / "halcyon/_halcyon.abi3.so").symlink_to(pathlib.Path(library).resolve())
    sys.path.insert(0, str(folder))
    return importlib.import_module("halcyon")


def table(rows):
    """The rows that both get, as a table of pyarrow."""
    import numpy
    import pyarrow

    random = numpy.random.default_rng(7)
    number = random.integers(0, 10_000_000, rows)
    return pyarrow.table({
        "id": pyarrow.array(numpy.arange(rows, dtype="int64")),
        "amount": pyarrow.array(number),
        "ratio": pyarrow.array(random.random(rows)),
        "name": pyarrow.array([f"name {value}" if value % 17 else None for value in number.tolist()]),
        "day": pyarrow.array(numpy.datetime64("2020-01-01") + (number % 2000).astype("timedelta64[D]"), pyarrow.date32()),
    })


def plain(found):
    """A table in types that both have, in the order of the key."""
    import pyarrow

    columns = [found.column(name).cast(ty) for name, ty in [
        ("id", "int64"), ("amount", "int64"), ("ratio", "float64"), ("name", "string"), ("day", "date32")]]
    return pyarrow.table(columns, names=COLUMNS.split(", ")).sort_by("id").combine_chunks()


def rounds(arms, repeat):
    """Milliseconds of each arm: the arms by turns, after one round that does not count."""
    times = {name: [] for name in arms}
    for at in range(repeat + 1):
        for name, work in arms.items():
            began = time.perf_counter()
            answer = work()
            took = (time.perf_counter() - began) * 1000
            del answer
            if at:
                times[name].append(took)
    return times


class Report:
    def __init__(self, experiment):
        self.experiment = experiment
        self.is_wrong = False

    def figures(self, what, rows, arms, repeat, check, per=1, unit="ms"):
        """Measures arms and prints their figures; `check` compares one answer of each."""
        answers = [work() for work in arms.values()]
        checked = all(check(answers[0], answer) for answer in answers[1:])
        del answers
        self.is_wrong |= not checked
        for name, times in rounds(arms, repeat).items():
            scaled = [took * (1000 if unit == "us" else 1) / per for took in times]
            print(json.dumps({
                "experiment": self.experiment, "what": what, "engine": name, "rows": rows, "unit": unit,
                "median": round(statistics.median(scaled), 3), "min": round(min(scaled), 3), "max": round(max(scaled), 3),
                "rounds": repeat, "check": "ok" if checked else "the answers differ"}), flush=True)


def main():
    chosen = options()
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        halcyon = package(chosen.library, pathlib.Path(folder))
        ours = halcyon.connect(autocommit=True, config={"threads": chosen.threads})
        theirs = duckdb.connect()
        theirs.execute(f"SET threads = {chosen.threads}")
        lite = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        data = table(chosen.rows)
        few = data[: chosen.objects]
        theirs.register("data", data)

        def load_ours():
            ours.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (id BIGINT PRIMARY KEY, amount BIGINT, ratio DOUBLE PRECISION, name TEXT, day DATE)")
            return ours.append("t", data)

        def load_theirs():
            theirs.execute("DROP TABLE IF EXISTS t")
            theirs.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, amount BIGINT, ratio DOUBLE, name TEXT, day DATE)")
            return theirs.execute("INSERT INTO t SELECT * FROM data").fetchone()[0]

        report = Report("python_arrow")
        same = lambda a, b: a == b  # noqa: E731
        report.figures("arrow_in_with_key", chosen.rows, {"halcyon": load_ours, "duckdb": load_theirs}, chosen.repeat, same)
        report.figures("arrow_in", chosen.rows, {
            "halcyon": lambda: ours.create_table("plain", data, replace=True),
            "duckdb": lambda: theirs.execute("CREATE OR REPLACE TABLE plain AS SELECT * FROM data").fetchone()[0],
        }, chosen.repeat, same)
        select = f"SELECT {COLUMNS} FROM t"
        report.figures("arrow_out", chosen.rows, {
            "halcyon": lambda: ours.sql(select).arrow(),
            "halcyon, texts as views": lambda: ours.sql(select).arrow(views=True),
            "duckdb": lambda: theirs.sql(select).to_arrow_table(),
        }, chosen.repeat, lambda a, b: plain(a).equals(plain(b)) and plain(a).equals(plain(data)))
        report.figures("pandas_out", chosen.rows, {
            "halcyon": lambda: ours.sql(select).df(),
            "duckdb": lambda: theirs.sql(select).df(),
        }, chosen.repeat, lambda a, b: a["amount"].sum() == b["amount"].sum() and a["name"].count() == b["name"].count())
        report.figures("polars_out", chosen.rows, {
            "halcyon": lambda: ours.sql(select).pl(),
            "duckdb": lambda: theirs.sql(select).pl(),
        }, chosen.repeat, lambda a, b: a.sort("id").equals(b.sort("id")))
        where = f"{select} WHERE id < {len(few)}"
        report.figures("objects_out", len(few), {
            "halcyon": lambda: ours.execute(where).fetchall(),
            "duckdb": lambda: theirs.execute(where).fetchall(),
        }, chosen.repeat, lambda a, b: sorted(a) == sorted(b))

        lite.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, amount INTEGER, ratio REAL, name TEXT, day TEXT)")
        lite.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [(*row[:4], str(row[4])) for row in zip(*few.to_pydict().values())])
        keys = [at * 7919 % len(few) for at in range(chosen.points)]
        point = "SELECT amount, name FROM t WHERE id = ?"
        arms = {
            "halcyon": lambda: [ours.execute(point, (key,)).fetchone() for key in keys],
            "duckdb": lambda: [theirs.execute(point, (key,)).fetchone() for key in keys],
            "sqlite3": lambda: [lite.execute(point, (key,)).fetchone() for key in keys],
        }
        report.figures("point", len(few), arms, chosen.repeat, same, per=chosen.points, unit="us")

        def elsewhere(work):
            def run():
                kept = []
                thread = threading.Thread(target=lambda: kept.append(work()))
                thread.start()
                thread.join()
                return kept[0]

            return run

        arms = {name: elsewhere(work) for name, work in arms.items()}
        report.figures("point_thread", len(few), arms, chosen.repeat, same, per=chosen.points, unit="us")
        return report.is_wrong


if __name__ == "__main__":
    sys.exit(main())
