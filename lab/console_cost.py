#!/usr/bin/env python3
"""What looking costs: a server with many connections, of which some send so many statements a second, by turns with no viewer of the console, one
and ten (each on another page, fed once a second), and the same with a scrape of /metrics each second. And, in rounds of their own, how
many statements clients without a pause get answered beside no viewer and beside ten. One JSON object per arm. A release binary:

    lab/console_cost.py --bin target/release/halcyon --connections 1000 --rate 200 --seconds 10 --rounds 5

Needs psycopg (tests/requirements.txt). Statements are look-ups by key, updates by key and short groupings over 100,000 rows by turns; each
answer is checked, and each viewer must have got its events.
"""

import argparse
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time

import psycopg

ROWS = 100_000
PAGES = ["overview", "sessions", "views", "statements", "memory", "workload", "machine", "overview", "sessions", "statements"]
TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(process):
    """Processor time of a process, all its threads, so far."""
    with open(f"/proc/{process}/stat") as stat:
        words = stat.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / TICK


def machine_seconds():
    """Processor time of the whole machine so far: busy."""
    with open("/proc/stat") as stat:
        words = [int(word) for word in stat.readline().split()[1:9]]
    return (sum(words) - words[3] - words[4]) / TICK


class Viewer(threading.Thread):
    """A page that somebody looks at: reads the events of a panel until it is stopped, and counts them."""

    def __init__(self, host, port, panel):
        super().__init__(daemon=True)
        self.over, self.events, self.failed = False, 0, None
        self.connection = http.client.HTTPConnection(host, port, timeout=30)
        self.connection.request("POST", "/api/login", json.dumps({"role": "halcyon", "password": ""}),
                                {"content-type": "application/json", "origin": f"http://{host}:{port}"})
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"login: {answer.status} {body[:200]}")
        cookie = answer.getheader("set-cookie").split(";")[0]
        self.connection.request("GET", f"/api/live/{panel}", headers={"cookie": cookie})
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise SystemExit(f"{panel}: {self.answer.status} {self.answer.read()[:200]}")
        self.socket = self.connection.sock
        self.start()

    def run(self):
        try:
            while not self.over:
                line = self.answer.readline()
                if not line:
                    break
                self.events += line.startswith(b"data:")
        except (OSError, ValueError, AttributeError) as failed:
            self.failed = None if self.over else failed

    def stop(self):
        self.over = True
        self.join(3)
        self.connection.close()


class Scraper(threading.Thread):
    """Asks for /metrics once a second."""

    def __init__(self, host, port):
        super().__init__(daemon=True)
        self.host, self.port, self.over, self.events, self.bytes = host, port, threading.Event(), 0, 0
        self.start()

    def run(self):
        while not self.over.wait(1.0):
            connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            if answer.status == 200 and body.rstrip().endswith(b"# EOF"):
                self.events, self.bytes = self.events + 1, len(body)

    def stop(self):
        self.over.set()
        self.join(3)


class Client(threading.Thread):
    """Sends statements over some of the connections by turns: at a rate (its times count from the intended moment), or without a pause."""

    def __init__(self, connections, seed, rate, until):
        super().__init__(daemon=True)
        self.connections, self.random, self.rate, self.until = connections, random.Random(seed), rate, until
        self.times, self.done, self.wrong = [], 0, 0
        self.start()

    def statement(self):
        connection = self.connections[self.done % len(self.connections)]
        key, kind = self.random.randrange(ROWS), self.done % 10
        if kind < 7:
            rows = connection.execute("SELECT id, name FROM looked WHERE id = %s", (key,)).fetchall()
            self.wrong += rows != [(key, f"name {key % 97}")]
        elif kind < 9:
            self.wrong += connection.execute("UPDATE looked SET seen = seen + 1 WHERE id = %s", (key,)).rowcount != 1
        else:
            rows = connection.execute("SELECT kind, count(*) FROM looked WHERE id < 5000 GROUP BY kind").fetchall()
            self.wrong += sum(count for _, count in rows) != 5000
        self.done += 1

    def run(self):
        begun = time.perf_counter()
        while time.perf_counter() < self.until:
            if self.rate:
                intended = begun + self.done / self.rate
                time.sleep(max(0.0, intended - time.perf_counter()))
            else:
                intended = time.perf_counter()
            self.statement()
            self.times.append((time.perf_counter() - intended) * 1e3)


def run(server, web, groups, viewers, scrape, rate, seconds):
    """One arm for some seconds: shares of a core, times of statements and what the viewers got."""
    looking = [Viewer(*web, PAGES[at % len(PAGES)]) for at in range(viewers)]
    if scrape:
        looking.append(Scraper(*web))
    time.sleep(0.5)
    before, machine, ours = processor_seconds(server), machine_seconds(), time.process_time()
    began = time.perf_counter()
    clients = [Client(group, seed, rate / len(groups) if rate else 0, began + seconds) for seed, group in enumerate(groups)]
    if not clients:
        time.sleep(seconds)
    for client in clients:
        client.join()
    lasted = time.perf_counter() - began
    used = processor_seconds(server) - before
    foreign = machine_seconds() - machine - used - (time.process_time() - ours)
    for looker in looking:
        looker.stop()
    times = sorted(sum((client.times for client in clients), []))
    done = sum(client.done for client in clients)
    return {
        "processor_percent": 100 * used / lasted,
        "statements_per_s": done / lasted,
        "p50_ms": times[len(times) // 2] if times else 0.0,
        "p99_ms": times[len(times) * 99 // 100] if times else 0.0,
        "foreign_cores": foreign / lasted,
        "microseconds_per_statement": 1e6 * used / done if done else 0.0,
        "wrong": sum(client.wrong for client in clients)
        + sum(looker.events < 0.6 * seconds or getattr(looker, "failed", None) is not None for looker in looking),
    }


def report(arm, rounds, params):
    figures = {}
    for name in rounds[0]:
        if name != "wrong":
            values = [of[name] for of in rounds]
            figures[name] = round(statistics.median(values), 3)
            figures[f"{name}_spread"] = [round(min(values), 3), round(max(values), 3)]
    wrong = sum(of["wrong"] for of in rounds)
    print(json.dumps({"experiment": "console", "engine": "halcyon", "params": {**params, "arm": arm}, "figures": figures,
                      "check": "ok" if not wrong else f"{wrong} wrong"}), flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="target/release/halcyon")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    server = subprocess.Popen([options.bin, "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                               "--connections", str(options.connections + 50)], stdout=subprocess.PIPE, text=True)
    wrong = 0
    try:
        address = web = None
        while address is None or web is None:
            line = server.stdout.readline()
            if not line:
                raise SystemExit("the server did not start")
            address = address or re.search(r"ready after .* at (\S+)", line)
            web = web or re.search(r"http://([^\s/]+)", line)
        host, port = address[1].split(":")
        threading.Thread(target=lambda: [None for _ in server.stdout], daemon=True).start()
        web = (web[1].split(":")[0], int(web[1].split(":")[1]))
        connect = lambda: psycopg.connect(host=host, port=port, user="halcyon", dbname="halcyon", autocommit=True, sslmode="disable")
        connections = [connect() for _ in range(options.connections)]
        connections[0].execute("CREATE TABLE looked (id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, seen INTEGER)")
        connections[0].execute("INSERT INTO looked SELECT n, 'name ' || n % 97, n % 13, 0 FROM generate_series(0, {}) AS g(n)".format(ROWS - 1))
        connections[0].execute("CREATE MATERIALIZED VIEW by_kind AS SELECT kind, count(*) AS rows, sum(seen) AS seen FROM looked GROUP BY kind")
        groups = [connections[at::4] for at in range(4)]
        arms = {"nobody": (0, False), "one viewer": (1, False), "ten viewers": (10, False), "scrape": (0, True), "nobody again": (0, False)}
        params = {"connections": options.connections, "seconds": options.seconds, "rounds": options.rounds}
        for title, rate, names in (("paced", options.rate, list(arms)), ("unpaced", 0, ["nobody", "ten viewers", "nobody again"])):
            rounds = {name: [] for name in names}
            for turn in range(options.rounds):
                for name in names[turn % len(names):] + names[: turn % len(names)]:
                    viewers, scrape = arms[name]
                    rounds[name].append(run(server.pid, web, groups, viewers, scrape, rate, options.seconds))
            for name, of in rounds.items():
                wrong += report(f"{title}, {name}", of, {**params, "rate": rate or None})
        seen = connections[0].execute("SELECT (SELECT sum(seen) FROM by_kind) = (SELECT sum(seen) FROM looked)").fetchone()[0]
        wrong += not seen
    finally:
        server.terminate()
        server.wait()
    sys.exit(bool(wrong))


main()
