#!/usr/bin/env python3
"""What it costs a COPY that somebody looks at its progress: COPY of so many rows by turns without a reader of
pg_stat_progress_copy and with one that asks all the time (every 10 ms), as one JSON object per arm. A release binary:

    lab/progress_cost.py --bin target/release/halcyon --rows 1000000 --rounds 7

Needs psycopg (tests/requirements.txt). Each round begins with an empty table; the order of the arms alternates.
"""

import argparse
import json
import re
import statistics
import subprocess
import threading
import time

import psycopg


def copy(connection, rows):
    """Milliseconds of a COPY, data made beforehand."""
    connection.execute("TRUNCATE copied")
    began = time.perf_counter()
    with connection.cursor().copy("COPY copied FROM STDIN") as stream:
        for block in rows:
            stream.write(block)
    return (time.perf_counter() - began) * 1e3


class Reader(threading.Thread):
    """Asks for the progress of COPY until it is stopped; notes how often there was one."""

    def __init__(self, connection):
        super().__init__(daemon=True)
        self.connection, self.over, self.asked, self.seen = connection, threading.Event(), 0, 0
        self.start()

    def run(self):
        while not self.over.wait(0.01):
            found = self.connection.execute("SELECT tuples_processed FROM pg_stat_progress_copy").fetchall()
            self.asked += 1
            self.seen += bool(found)

    def stop(self):
        self.over.set()
        self.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="target/release/halcyon")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    lines = [f"{number}\tname {number % 97}\t{number % 1000}.25\n" for number in range(options.rows)]
    blocks = ["".join(lines[at:at + 2000]).encode() for at in range(0, len(lines), 2000)]
    server = subprocess.Popen([options.bin, "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        address = None
        while address is None:
            address = re.search(r"ready after .* at (\S+)", server.stdout.readline())
        host, port = address[1].split(":")
        connect = lambda: psycopg.connect(host=host, port=port, user="halcyon", dbname="halcyon", autocommit=True)
        with connect() as connection, connect() as other:
            connection.execute("CREATE TABLE copied (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC(9,2))")
            copy(connection, blocks)
            times, asked, seen = {False: [], True: []}, 0, 0
            for turn in range(options.rounds):
                for watched in (False, True) if turn % 2 else (True, False):
                    reader = Reader(other) if watched else None
                    times[watched].append(copy(connection, blocks))
                    if reader:
                        reader.stop()
                        asked, seen = asked + reader.asked, seen + reader.seen
            count = connection.execute("SELECT count(*) FROM copied").fetchone()[0]
    finally:
        server.terminate()
        server.wait()
    right = count == options.rows and seen > 0
    for watched, of in times.items():
        print(json.dumps({
            "experiment": "progress", "engine": "halcyon",
            "params": {"rows": options.rows, "rounds": options.rounds, "reader": watched},
            "figures": {"copy_ms_median": round(statistics.median(of), 1), "copy_ms_least": round(min(of), 1), "copy_ms_most": round(max(of), 1),
                        **({"asked": asked, "seen": seen} if watched else {})},
            "check": "ok" if right else f"{count} rows, progress seen {seen} times"}))
    raise SystemExit(not right)


main()
