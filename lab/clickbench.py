#!/usr/bin/env python3
"""ClickBench: its 43 queries on Halcyon and DuckDB, over generated rows, with the answers and times of both.

    lab/clickbench.py --definition DIR [--rows 1000000] [--threads 2] [--only 1,5,9] [--halcyon target/release/halcyon]

DIR has `create.sql` and `queries.sql` of the folder `postgresql` of https://github.com/ClickHouse/ClickBench. They are
not kept here, since their licence (CC BY-NC-SA 4.0) is not Halcyon's. The rows are generated, not the published ones:
`clickbench_data.py` says what they follow. Halcyon is loaded by COPY over its wire and answers the texts as they come
through psycopg; DuckDB (in process, in memory) has the same rows and runs the same texts. Both get --threads threads.
A time is the best of --repeat, from sending the text to having all rows as Python's values.

Compared is what a text determines: rows as multisets where it has no LIMIT; with ORDER BY and LIMIT the keys, in order,
and that each row is one of those with its keys; with LIMIT alone the number of rows, and that each is one of the whole
answer. A line has both times in milliseconds, their ratio and `same` or what differs; the last lines have the sums.
With --json each query is one object for each engine. Needs tests/requirements.txt and numpy. Exit status 1 if an answer
differs or a query is refused.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from decimal import Decimal

import duckdb
import psycopg

import clickbench_data

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMN = re.compile(r"^\s+(\w+)\s+(\w+(?:\(\d+\))?)\s+NOT NULL", re.MULTILINE)
TAIL = re.compile(r"(?: ORDER BY (?P<keys>.*?))?(?: LIMIT (?P<limit>\d+))?(?: OFFSET (?P<offset>\d+))?$")


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--definition", type=pathlib.Path, default=ROOT / "target/clickbench")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", type=lambda text: [int(number) for number in text.split(",")], default=[])
    parser.add_argument("--parquet", type=pathlib.Path, help="keeps the rows in this file; taken as it is if it exists")
    parser.add_argument("--port", type=int, default=5791)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--halcyon", default=str(ROOT / "target/release/halcyon"))
    return parser.parse_args()


def definition(folder):
    """Names and types of the table's columns, and the queries."""
    try:
        table, queries = (folder / "create.sql").read_text(), (folder / "queries.sql").read_text()
    except FileNotFoundError as missing:
        sys.exit(f"{missing.filename} is missing: see the head of {__file__}")
    columns = [(name, kind.upper()) for name, kind in COLUMN.findall(table)]
    return columns, [line.strip().rstrip(";") for line in queries.splitlines() if line.strip()]


def connected(port):
    for _ in range(100):
        try:
            return psycopg.connect(f"host=127.0.0.1 port={port} user=halcyon dbname=halcyon", autocommit=True)
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def load(chosen, columns, folder, duck, ours):
    """The same rows into both. The file for Halcyon is CSV, in which an empty text is no NULL."""
    file = chosen.parquet or folder / "hits.parquet"
    if not file.exists():
        clickbench_data.write(file, chosen.rows, chosen.seed, columns)
    create = f"CREATE TABLE hits ({', '.join(f'{name} {kind} NOT NULL' for name, kind in columns)})"
    duck.execute(create)
    duck.execute(f"INSERT INTO hits SELECT * FROM read_parquet('{file}')")
    ours.execute(create)
    rows = folder / "hits.csv"
    duck.execute(f"COPY (SELECT * FROM read_parquet('{file}')) TO '{rows}' (HEADER false, NULLSTR '\\N')")
    begun = time.perf_counter()
    with ours.cursor().copy("COPY hits FROM STDIN (FORMAT csv, NULL '\\N')") as copy, rows.open("rb") as read:
        while block := read.read(1 << 20):
            copy.write(block)
    print(f"loaded in {time.perf_counter() - begun:.1f} s", file=sys.stderr)
    rows.unlink()


def best(run, text, times):
    least, rows = math.inf, None
    for _ in range(times):
        begun = time.perf_counter()
        rows = run(text)
        least = min(least, (time.perf_counter() - begun) * 1000)
    return least, rows


def key_list(keys):
    """The texts of ORDER BY's keys, split at commas outside parentheses, and their directions."""
    return [re.fullmatch(r"(.*?)( DESC| ASC)?", key.strip()).groups(default="")
            for key in re.split(r",(?![^(]*\))", keys)]


def whole_answer(duck, text):
    """All that may be in the answer: (rows, the keys of each, first place wanted), rows in the order of the keys.

    Without ORDER BY every row has the same keys, none. Rows are there as far as the last that ties with a wanted one.
    """
    tail = TAIL.search(text)
    plain = text[:tail.start()]
    limit, offset = (int(tail[name] or 0) for name in ("limit", "offset"))
    if not tail["keys"]:
        rows = duck.execute(plain).fetchall()
        return rows, [()] * len(rows), offset, limit
    keys = key_list(tail["keys"])
    more = "".join(f", {key} AS key_{at}" for at, (key, _) in enumerate(keys))
    order = ", ".join(f"key_{at}{way}" for at, (_, way) in enumerate(keys))
    wanted = f"QUALIFY rank() OVER (ORDER BY {order}) <= {offset + limit}" if tail["limit"] else ""
    with_keys = re.sub(" FROM hits", f"{more} FROM hits", plain, count=1)
    found = duck.execute(f"SELECT * FROM ({with_keys}) {wanted} ORDER BY {order}").fetchall()
    count = len(keys)
    return [row[:-count] for row in found], [row[-count:] for row in found], offset, limit


def exact(value):
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


def near(left, right):
    return left == right or (None not in (left, right) and math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9))


class Group:
    """The rows that tie, as a multiset. Columns of floating numbers are compared as near, all others as equal."""

    def __init__(self, floating):
        self.floating, self.rows = floating, collections.defaultdict(list)

    def parts(self, row):
        return (tuple(exact(value) for at, value in enumerate(row) if at not in self.floating),
                [None if row[at] is None else float(row[at]) for at in self.floating])

    def put(self, row):
        equal, numbers = self.parts(row)
        self.rows[equal].append(numbers)

    def take(self, row):
        equal, numbers = self.parts(row)
        candidates = self.rows.get(equal, [])
        for at, others in enumerate(candidates):
            if all(near(left, right) for left, right in zip(numbers, others)):
                return candidates.pop(at)
        return None


def difference(duck, text, theirs, ours):
    """What is wrong with our rows, or None."""
    if len(theirs) != len(ours):
        return f"{len(ours)} rows for {len(theirs)}"
    rows, keys, offset, _ = whole_answer(duck, text)
    floating = [at for at in range(len(rows[0]) if rows else 0) if any(isinstance(row[at], float) for row in rows)]
    groups = {}
    for row, key in zip(rows, keys):
        groups.setdefault(key, Group(floating)).put(row)
    for place, row in enumerate(ours):
        if groups[keys[offset + place]].take(row) is None:
            return f"row {place} has no match: {row}"[:160]
    return None


def answered(ours, text, times):
    """Time and rows of Halcyon, or the error with which it refuses the text."""
    try:
        return *best(lambda text: ours.execute(text).fetchall(), text, times), None
    except psycopg.Error as refused:
        return math.nan, [], f"refused: {refused.sqlstate}: {str(refused).splitlines()[0]}"


def report(chosen, number, ours_ms, duck_ms, found):
    if not chosen.json:
        print(f"{number:>5} {ours_ms:>10.1f} {duck_ms:>10.1f} {ours_ms / duck_ms:>6.2f}  {found or 'same'}", flush=True)
        return
    params = {"rows": chosen.rows, "threads": chosen.threads, "repeat": chosen.repeat, "query": number}
    for engine, ms, check in [("halcyon", ours_ms, found or "ok"), ("duckdb", duck_ms, "ok")]:
        figures = {} if math.isnan(ms) else {"best_ms": round(ms, 3)}
        print(json.dumps({"experiment": "clickbench", "engine": engine, "params": params, "figures": figures,
                          "check": check}), flush=True)


def compare(chosen, columns, queries, folder):
    duck, ours = duckdb.connect(), connected(chosen.port)
    duck.execute(f"SET threads = {chosen.threads}")
    load(chosen, columns, folder, duck, ours)
    ours.execute("SET statement_timeout = 60000")
    ours.execute(f"SET halcyon.threads = {chosen.threads}")
    wrong, sums, ratios = 0, [0.0, 0.0], []
    if not chosen.json:
        print(f"{'query':>5} {'halcyon ms':>10} {'duckdb ms':>10} {'ratio':>6}  answer")
    for number, text in enumerate(queries, 1):
        if chosen.only and number not in chosen.only:
            continue
        duck_ms, theirs = best(lambda text: duck.execute(text).fetchall(), text, chosen.repeat)
        ours_ms, rows, found = answered(ours, text, chosen.repeat)
        found = found or difference(duck, text, theirs, rows)
        wrong += found is not None
        report(chosen, number, ours_ms, duck_ms, found)
        if not math.isnan(ours_ms):
            sums = [sums[0] + ours_ms, sums[1] + duck_ms]
            ratios.append(ours_ms / duck_ms)
    if not chosen.json and ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"  sum {sums[0]:>10.1f} {sums[1]:>10.1f} {sums[0] / sums[1]:>6.2f}  geometric mean {mean:.2f}, "
              f"over 1.5: {sum(ratio > 1.5 for ratio in ratios)}")
        print(f"{len(ratios) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


def main():
    chosen = options()
    columns, queries = definition(chosen.definition)
    server = subprocess.Popen(
        [chosen.halcyon, "serve", "--listen", f"127.0.0.1:{chosen.port}", "--workers", str(chosen.threads)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with tempfile.TemporaryDirectory() as folder:
            sys.exit(compare(chosen, columns, queries, pathlib.Path(folder)))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
