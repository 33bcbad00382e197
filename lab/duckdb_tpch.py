#!/usr/bin/env python3
"""TPC-H: Halcyon's 22 answers against DuckDB's, on the same data, and the time of both.

    lab/duckdb_tpch.py [--sf 1] [--repeat 3] [--halcyon target/release/halcyon]

Halcyon generates the data, writes them as Parquet, answers the queries and writes its answers as
CSV (`halcyon lab tpch --export --write-results`, which starts `halcyon-lab` beside it). DuckDB loads the same Parquet files into tables
of its own and runs the same texts. Both run with --threads threads (default: all cores). Each
query's best of --repeat counts. Needs DuckDB's wheel (tests/requirements.txt). Exit status 1 if
an answer differs.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from decimal import Decimal

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUERIES = ROOT / "crates/lab/src/tpch/queries"
TABLES = ["region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem"]


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sf", type=float, default=1.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--halcyon", default=str(ROOT / "target/release/halcyon"))
    return parser.parse_args()


def run_halcyon(chosen, folder):
    """Best times in milliseconds by query; answers lie in `folder`/results."""
    command = [
        chosen.halcyon, "lab", "tpch", "--json", "--arms", "halcyon",
        "--sf", str(chosen.sf), "--repeat", str(chosen.repeat), "--threads", str(chosen.threads),
        "--export", str(folder / "data"), "--write-results", str(folder / "results"),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    arms = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [arm for arm in arms if arm["check"] != "ok"]
    for arm in wrong:
        print(f"halcyon: {arm['figures'].get('query', 'all')}: {arm['check']}", file=sys.stderr)
    if done.returncode not in (0, 1) or not arms:
        sys.exit(f"{command[0]} ended with status {done.returncode}")
    return {a["figures"]["query"]: a["figures"]["best_ms"] for a in arms if "query" in a["figures"]}


def run_duckdb(chosen, folder):
    """Best times and rows by query."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {chosen.threads}")
    for table in TABLES:
        file = folder / "data" / f"{table}.parquet"
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{file}')")
    times, answers = {}, {}
    for number in range(1, 23):
        text = (QUERIES / f"q{number:02}.sql").read_text()
        best = float("inf")
        for _ in range(chosen.repeat):
            start = time.perf_counter()
            rows = connection.execute(text).fetchall()
            best = min(best, (time.perf_counter() - start) * 1000)
        times[number], answers[number] = best, rows
    return times, answers


def as_text(value):
    """A value as Halcyon's CSV has it, numbers apart."""
    return "" if value is None else str(value)


def is_number(value):
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def same_number(theirs, ours):
    try:
        ours = float(ours)
    except ValueError:
        return False
    theirs = float(theirs)
    # Averages of decimals: each engine chooses a scale, so the last digit shown may differ.
    return abs(theirs - ours) <= max(1e-6 * max(abs(theirs), abs(ours)), 0.005)


def difference(theirs, file):
    """Where the answers differ first, or None. Rows are compared as a multiset: ties in ORDER BY
    may be broken either way."""
    if not file.exists():
        return "no answer"
    with file.open(newline="") as text:
        ours = list(csv.reader(text))[1:]
    if len(theirs) != len(ours):
        return f"{len(theirs)} rows and {len(ours)}"
    numeric = [
        any(is_number(row[at]) for row in theirs) for at in range(len(theirs[0]) if theirs else 0)
    ]

    def key(row):
        texts = [as_text(v) for v, n in zip(row, numeric) if not n]
        numbers = [round(float(v)) if v not in ("", None) else 0
                   for v, n in zip(row, numeric) if n]
        return texts, numbers

    for left, right in zip(sorted(theirs, key=key), sorted(ours, key=key)):
        for their, our, number in zip(left, right, numeric):
            same = same_number(their, our) if number and their is not None else as_text(their) == our
            if not same:
                return f"{left} and {right}"
    return None


def main():
    chosen = options()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ours = run_halcyon(chosen, folder)
        theirs, answers = run_duckdb(chosen, folder)
        failed = 0
        print(f"{'query':>5} {'halcyon ms':>11} {'duckdb ms':>11}  answer")
        for number in range(1, 23):
            found = difference(answers[number], folder / "results" / f"q{number:02}.csv")
            failed += found is not None
            mine = ours.get(number, float("nan"))
            print(f"{number:>5} {mine:>11.1f} {theirs[number]:>11.1f}  {found or 'same'}")
        print(f"total {sum(ours.values()):>11.1f} {sum(theirs.values()):>11.1f}")
        print(f"{22 - failed} passed, {failed} failed")
        sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
