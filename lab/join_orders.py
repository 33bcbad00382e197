#!/usr/bin/env python3
"""Joins of many tables in whatever order a text names them: Halcyon beside DuckDB.

    lab/join_orders.py [--queries 60] [--spellings 3] [--scale 1] [--seed 1] [--halcyon target/release/halcyon]

The tables have the shape of those of the Join Order Benchmark (Leis et al. 2015): films with their cast, companies,
keywords and facts, each through a table between, with values as unevenly spread as there. Data and queries are made
by a seed: connected tables, four to eleven of them, conditions that keep many rows or few. Each query is written in
several ways (tables in a random order, as a list or with JOIN); Halcyon answers each over its wire, DuckDB the first
one. Printed per query: the quickest and the slowest spelling and DuckDB's time, best of three, in milliseconds.
Exit status 1 if an answer differs.
"""

import argparse
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import duckdb
import psycopg

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Table: (rows, columns). A column is (name, type, what its values are).
TABLES = {
    "kind_type": (7, [("kind", "TEXT", "kind")]),
    "info_type": (110, [("info", "TEXT", "word")]),
    "company_type": (4, [("kind", "TEXT", "kind")]),
    "role_type": (12, [("role", "TEXT", "kind")]),
    "keyword": (13_000, [("keyword", "TEXT", "word")]),
    "company_name": (23_000, [("name", "TEXT", "word"), ("country_code", "TEXT", "country")]),
    "name": (200_000, [("name", "TEXT", "word"), ("gender", "TEXT", "gender")]),
    "title": (150_000, [("title", "TEXT", "word"), ("kind_id", "INTEGER", "kind_type"),
                        ("production_year", "INTEGER", "year")]),
    "movie_companies": (250_000, [("movie_id", "INTEGER", "title"), ("company_id", "INTEGER", "company_name"),
                                  ("company_type_id", "INTEGER", "company_type"), ("note", "TEXT", "note")]),
    "movie_keyword": (400_000, [("movie_id", "INTEGER", "title"), ("keyword_id", "INTEGER", "keyword")]),
    "movie_info": (600_000, [("movie_id", "INTEGER", "title"), ("info_type_id", "INTEGER", "info_type"),
                             ("info", "TEXT", "word")]),
    "movie_info_idx": (120_000, [("movie_id", "INTEGER", "title"), ("info_type_id", "INTEGER", "info_type"),
                                 ("info", "TEXT", "number")]),
    "cast_info": (1_200_000, [("movie_id", "INTEGER", "title"), ("person_id", "INTEGER", "name"),
                              ("role_id", "INTEGER", "role_type"), ("nr_order", "INTEGER", "small")]),
    "aka_name": (80_000, [("person_id", "INTEGER", "name"), ("name", "TEXT", "word")]),
}

# What conditions a query may have, by table.
CONDITIONS = {
    "kind_type": ["{}.kind = 'kind 1'", "{}.kind IN ('kind 1', 'kind 2')"],
    "info_type": ["{}.id = 3", "{}.id IN (3, 8, 16)", "{}.info LIKE 'a%'"],
    "company_type": ["{}.kind = 'kind 2'"],
    "role_type": ["{}.role = 'kind 1'", "{}.role <> 'kind 3'"],
    "keyword": ["{}.keyword LIKE '%ar%'", "{}.id < 20", "{}.keyword = 'badeci'"],
    "company_name": ["{}.country_code = '[us]'", "{}.country_code = '[se]'", "{}.name LIKE 'b%'"],
    "name": ["{}.gender = 'f'", "{}.name LIKE 'be%'", "{}.id BETWEEN 1000 AND 1200"],
    "title": ["{}.production_year > 2010", "{}.production_year BETWEEN 1990 AND 1995", "{}.title LIKE '%co%'"],
    "movie_companies": ["{}.note LIKE '%(2008)%'", "{}.note IS NULL"],
    "movie_info": ["{}.info > 'u'", "{}.info LIKE 'ba%'"],
    "movie_info_idx": ["{}.info > '8.0'", "{}.info < '2.5'"],
    "cast_info": ["{}.nr_order = 1", "{}.nr_order < 4"],
    "aka_name": ["{}.name LIKE '%el%'"],
}
SYLLABLES = ["ba", "be", "bi", "co", "ci", "de", "da", "el", "ar", "or", "an", "in", "us", "tu", "ve"]


def word(rng):
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 5)))


def uneven(rng, rows):
    """A number from 1 to `rows`: small ones come often, as popular films and keywords do."""
    return 1 + int(rows * rng.random() ** 1.6)


def value(rng, kind, rows):
    if kind == "word":
        return word(rng)
    if kind == "country":
        return rng.choice(["[us]"] * 8 + ["[gb]"] * 3 + ["[de]", "[fr]", "[se]", "[jp]"])
    if kind == "gender":
        return rng.choice(["m", "m", "f", ""])
    if kind == "year":
        return 2020 - int(100 * rng.random() ** 3)
    if kind == "note":
        return rng.choice(["", "", f"({rng.randint(1990, 2015)}) (worldwide)", "(theatrical)"])
    if kind == "number":
        return f"{rng.uniform(1, 10):.1f}"
    if kind == "small":
        return 1 + int(50 * rng.random() ** 3)
    return uneven(rng, rows[kind])


def make(folder, seed, scale):
    """Writes each table as CSV; returns the statements that make them."""
    rng = random.Random(seed)
    large = 10_000
    rows = {name: int(count * scale) if count > large else count for name, (count, _) in TABLES.items()}
    made = []
    for name, (_, columns) in TABLES.items():
        with open(folder / f"{name}.csv", "w") as out:
            for number in range(1, rows[name] + 1):
                fields = [str(number)]
                for _, _, kind in columns:
                    fields.append(f"kind {number}" if kind == "kind" else str(value(rng, kind, rows)))
                out.write(",".join(fields) + "\n")
        listed = ", ".join(f"{column} {ty}" for column, ty, _ in columns)
        made.append(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, {listed})")
    return made


def query(rng):
    """Aliases with their tables, and the conditions between and on them."""
    count = rng.randint(4, 11)
    chosen = [("t", "title")]
    conditions = []
    names = set("t")
    while len(chosen) < count:
        alias, table = rng.choice(chosen)
        steps = [(column, kind, True) for column, _, kind in TABLES[table][1] if kind in TABLES]
        for other, (_, columns) in TABLES.items():
            steps += [(column, other, False) for column, _, kind in columns if kind == table]
        column, other, down = rng.choice(steps)
        new = "".join(part[0] for part in other.split("_"))
        while new in names:
            new += str(rng.randint(1, 9))
        # Two tables of many rows for each film, without a condition, give too many rows for any order.
        many = sum(TABLES[table][0] > 200_000 for _, table in chosen)
        if not down and many >= 2 and TABLES[other][0] > 200_000:
            continue
        names.add(new)
        chosen.append((new, other))
        if down:
            conditions.append(f"{alias}.{column} = {new}.id")
        else:
            conditions.append(f"{new}.{column} = {alias}.id")
    for alias, table in chosen:
        if table in CONDITIONS and rng.random() < 0.85:
            conditions.append(rng.choice(CONDITIONS[table]).format(alias))
    return chosen, conditions


def spelling(rng, chosen, conditions, number):
    tables, conditions = list(chosen), list(conditions)
    rng.shuffle(conditions)
    if number:
        rng.shuffle(tables)
    texts = [f"{table} {alias}" for alias, table in tables]
    wanted = "count(*), min(t.title), max(t.production_year)"
    if number % 2 == 0:
        return f"SELECT {wanted} FROM {', '.join(texts)} WHERE {' AND '.join(conditions)}"
    seen, joined, left = set(), [], conditions
    for (alias, _), text in zip(tables, texts):
        seen.add(alias)
        names = lambda condition: {word.split(".")[0] for word in condition.split() if "." in word and "'" not in word}
        here = [condition for condition in left if names(condition) <= seen]
        left = [condition for condition in left if condition not in here]
        joined.append((text, here))
    first, others = joined[0], joined[1:]
    where = first[1] + left
    text = f"SELECT {wanted} FROM {first[0]}"
    for table, here in others:
        text += f" JOIN {table} ON {' AND '.join(here)}" if here else f" CROSS JOIN {table}"
    return text + (f" WHERE {' AND '.join(where)}" if where else "")


def best(run, text, times):
    least, rows = float("inf"), None
    for _ in range(times):
        begun = time.perf_counter()
        rows = run(text)
        least = min(least, (time.perf_counter() - begun) * 1000)
        if least > 3000:
            break
    return least, [tuple(row) for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--spellings", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=5790)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--halcyon", default=str(ROOT / "target/release/halcyon"))
    options = parser.parse_args()
    server = subprocess.Popen(
        [options.halcyon, "serve", "--listen", f"127.0.0.1:{options.port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        sys.exit(compare(options))
    finally:
        server.terminate()
        server.wait()


def connected(port):
    for _ in range(100):
        try:
            return psycopg.connect(f"host=127.0.0.1 port={port} user=halcyon dbname=halcyon", autocommit=True)
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def compare(options):
    duck = duckdb.connect()
    duck.execute(f"SET threads = {options.threads}")
    ours = connected(options.port)
    ours.execute("SET statement_timeout = 20000")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for made, table in zip(make(folder, options.seed, options.scale), TABLES):
            file = folder / f"{table}.csv"
            duck.execute(made)
            duck.execute(f"COPY {table} FROM '{file}' (HEADER false, NULLSTR '')")
            ours.execute(made)
            with ours.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy:
                copy.write(file.read_bytes())
    rng = random.Random(options.seed)
    wrong, left_out, ratios, spreads = 0, 0, [], []
    print(f"{'query':>5} {'tables':>6} {'quickest':>9} {'slowest':>9} {'duckdb':>9}  answer")
    for number in range(options.queries):
        chosen, conditions = query(rng)
        texts = [spelling(rng, chosen, conditions, way) for way in range(options.spellings)]
        # So many rows that no order helps are no question of orders.
        stop = threading.Timer(1.0, duck.interrupt)
        stop.start()
        try:
            duck_ms, expected = best(lambda text: duck.execute(text).fetchall(), texts[0], 3)
        except duckdb.InterruptException:
            left_out += 1
            continue
        finally:
            stop.cancel()
        measured = [best(lambda text: ours.execute(text).fetchall(), text, 3) for text in texts]
        same = all(rows == expected for _, rows in measured)
        wrong += not same
        times = [ms for ms, _ in measured]
        ratios.append(max(times) / duck_ms)
        spreads.append(max(times) / min(times))
        print(f"{number:>5} {len(chosen):>6} {min(times):>9.1f} {max(times):>9.1f} {duck_ms:>9.1f}  "
              f"{'same' if same else 'DIFFERENT'}", flush=True)
        if not same or ratios[-1] > 4 or spreads[-1] > 2:
            print("      " + texts[times.index(max(times))])
    print(f"slowest spelling / quickest: median {statistics.median(spreads):.2f}, "
          f"within 2: {sum(spread <= 2 for spread in spreads)} of {len(spreads)}")
    print(f"slowest spelling / DuckDB: median {statistics.median(ratios):.2f}, "
          f"within 2: {sum(ratio <= 2 for ratio in ratios)} of {len(ratios)}, worst {max(ratios):.1f}")
    print(f"{len(ratios) - wrong} passed, {wrong} failed, {left_out} left out, which DuckDB takes a second for")
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
