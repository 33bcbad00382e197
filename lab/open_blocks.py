#!/usr/bin/env python3
"""Reads beside a transaction block that has changed their table and is now busy with, or waiting for, something else: each kind of
statement in which a block can stay for long, and four reads by other clients meanwhile, as one JSON object per kind with the
longest read in milliseconds. A release binary, and PostgreSQL beside it if --postgres names one:

    lab/open_blocks.py --bin target/release/halcyon [--rows 100000] [--postgres "host=127.0.0.1 user=postgres"]

Needs psycopg (tests/requirements.txt). A read that has not answered after 10 s, or with rows that are not those before the block, is
an error: exit status 1.
"""

import argparse
import json
import re
import subprocess
import sys
import threading
import time

import psycopg

UPDATE = "UPDATE a SET v = v + 1 WHERE id <= 10"
PAIRS = "FROM b x, b y WHERE x.v + y.v > 100"
# What the block does before, and where it stays; a function gets its connection.
KINDS = {
    "idle": (UPDATE, lambda block: time.sleep(60)),
    "pg_sleep": (UPDATE, "SELECT pg_sleep(60)"),
    "pg_sleep beside a look-up": (UPDATE, "SELECT v, pg_sleep(60) FROM b WHERE id = 3"),
    "UPDATE with pg_sleep": (UPDATE, "UPDATE b SET v = 1 WHERE id < 5 AND pg_sleep(60) IS NOT NULL"),
    "EXPLAIN ANALYZE": (UPDATE, "EXPLAIN ANALYZE SELECT pg_sleep(60)"),
    "query": (UPDATE, f"SELECT count(*) {PAIRS}"),
    "INSERT of a query": (UPDATE, f"INSERT INTO c SELECT x.id {PAIRS}"),
    "INSERT into the table itself": ("SELECT 1", f"INSERT INTO a SELECT x.id + 1000000, 1 {PAIRS}"),
    "CREATE TABLE AS": (UPDATE, f"CREATE TABLE made AS SELECT x.id {PAIRS}"),
    "COPY into another table": (UPDATE, lambda block: copies(block, "b")),
    "COPY into the table itself": ("SELECT 1", lambda block: copies(block, "a")),
    "rows that nobody reads": (UPDATE, lambda block: unread(block)),
}
READS = (
    "SELECT count(*) FROM a",
    "SELECT v FROM a WHERE id = 5",
    "SELECT sum(v) FROM a",
    "SELECT sum(a.v) FROM a JOIN b USING (id)",
)


def copies(block, table):
    with block.cursor().copy(f"COPY {table} (id, v) FROM STDIN") as stream:
        stream.write("3000000\t1\n")
        time.sleep(60)


def unread(block):
    block.pgconn.send_query(b"SELECT repeat('x', 1000), * FROM a")
    time.sleep(60)


class Block(threading.Thread):
    """A transaction block that stays in a statement until it is ended."""

    def __init__(self, connect, before, stays):
        super().__init__(daemon=True)
        self.connection, self.stays = connect(), stays
        self.connection.execute("BEGIN")
        self.connection.execute(before)
        self.pid = self.connection.info.backend_pid
        self.start()

    def run(self):
        try:
            self.stays(self.connection) if callable(self.stays) else self.connection.execute(self.stays)
        except (psycopg.Error, OSError):
            pass


def measure(connect, rows):
    """The longest of the reads beside each kind of block, in milliseconds, and whether all were right."""
    with connect() as setup:
        for table in "abc":
            setup.execute(f"DROP TABLE IF EXISTS {table}")
            setup.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, v INTEGER)")
        for table in "ab":
            setup.execute(f"INSERT INTO {table} SELECT i, 0 FROM generate_series(1, {rows}) AS g (i)")
        expected = [setup.execute(read).fetchall() for read in READS]
        for kind, (before, stays) in KINDS.items():
            block = Block(connect, before, stays)
            time.sleep(0.7)
            times, right = [], True
            for read, answer in zip(READS, expected):
                with connect() as reader:
                    reader.execute("SET statement_timeout = '10s'")
                    began = time.perf_counter()
                    try:
                        right &= reader.execute(read).fetchall() == answer
                    except psycopg.errors.QueryCanceled:
                        right = False
                    times.append((time.perf_counter() - began) * 1e3)
            setup.execute(f"SELECT pg_terminate_backend({block.pid})")
            yield kind, times, right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="target/release/halcyon")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--postgres", help="libpq's words for a PostgreSQL to measure beside")
    options = parser.parse_args()
    server = subprocess.Popen([options.bin, "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    failed = False
    try:
        address = None
        while address is None:
            address = re.search(r"ready after .* at (\S+)", server.stdout.readline())
        host, port = address[1].split(":")
        engines = {"halcyon": f"host={host} port={port} user=halcyon dbname=halcyon"}
        if options.postgres:
            engines["postgresql"] = options.postgres
        for engine, words in engines.items():
            connect = lambda words=words: psycopg.connect(words, autocommit=True)
            for kind, times, right in measure(connect, options.rows):
                failed |= not right
                figures = {"block": kind, "longest_ms": round(max(times), 1), "reads_ms": [round(time, 1) for time in times]}
                print(json.dumps({"experiment": "open_blocks", "engine": engine, "params": {"rows": options.rows},
                                  "figures": figures, "check": "ok" if right else "failed"}), flush=True)
    finally:
        server.terminate()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
