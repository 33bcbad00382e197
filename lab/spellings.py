#!/usr/bin/env python3
"""Times of the spellings in tests/data/spellings.sql through psycopg, beside PostgreSQL's.

    lab/spellings.py HALCYON POSTGRESQL [--warehouses 2] [--json]

Both are connection strings ("host=127.0.0.1 port=5433 user=halcyon dbname=halcyon"); the tables of TPC-C are made anew
in both. Every statement is prepared and run up to nine times; writes are rolled back. A line has the medians in
milliseconds of Halcyon and PostgreSQL, SLOW where Halcyon takes more than twice the group's best and 0.15 ms,
and DIFF where the answers differ; the last line has the counts. With --json the same as one object. Needs psycopg (tests/requirements.txt).
"""

import argparse
import json
import random
import re
import sys
import time
from pathlib import Path

import psycopg

STATEMENTS = Path(__file__).parent.parent / "tests/data/spellings.sql"

SCHEMA = """
DROP TABLE IF EXISTS order_line, new_order, orders, stock, item, customer, district, warehouse;
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name varchar(10), w_tax numeric(4,4), w_ytd numeric(12,2));
CREATE TABLE district (d_id int, d_w_id int, d_name varchar(10), d_tax numeric(4,4), d_ytd numeric(12,2),
    d_next_o_id int, PRIMARY KEY (d_w_id, d_id));
CREATE TABLE customer (c_id int, c_d_id int, c_w_id int, c_first varchar(16), c_middle char(2), c_last varchar(16),
    c_credit char(2), c_discount numeric(4,4), c_balance numeric(12,2), c_data varchar(500),
    PRIMARY KEY (c_w_id, c_d_id, c_id));
CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE TABLE item (i_id int PRIMARY KEY, i_im_id int, i_name varchar(24), i_price numeric(5,2), i_data varchar(50));
CREATE TABLE stock (s_i_id int, s_w_id int, s_quantity int, s_dist_01 char(24), s_data varchar(50),
    PRIMARY KEY (s_w_id, s_i_id));
CREATE TABLE orders (o_id int, o_d_id int, o_w_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int,
    o_ol_cnt int, PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
CREATE TABLE new_order (no_o_id int, no_d_id int, no_w_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE order_line (ol_o_id int, ol_d_id int, ol_w_id int, ol_number int, ol_i_id int, ol_supply_w_id int,
    ol_delivery_d timestamp, ol_quantity int, ol_amount numeric(6,2), ol_dist_info char(24),
    PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
"""

SYLLABLES = "BAR OUGHT ABLE PRI PRES ESE ANTI CALLY ATION EING".split()


def last_name(number):
    return SYLLABLES[number // 100] + SYLLABLES[number // 10 % 10] + SYLLABLES[number % 10]


def rows(warehouses):
    """Rows of TPC-C's tables by their names, the same in every run."""
    rng = random.Random(5)
    when = "2024-01-01 00:00:00"
    districts = [(w, d) for w in range(1, warehouses + 1) for d in range(1, 11)]
    yield "warehouse", [(w, f"w{w}", "0.1000", "300000.00") for w in range(1, warehouses + 1)]
    yield "district", [(d, w, f"d{d}", "0.0500", "30000.00", 3001) for w, d in districts]
    yield "customer", [
        (c, d, w, f"f{rng.randrange(9999):04}", "OE", last_name(c - 1 if c <= 1000 else rng.randrange(1000)),
         rng.choice(["GC"] * 9 + ["BC"]), f"{rng.uniform(0, 0.5):.4f}", "-10.00", "x" * 300)
        for w, d in districts for c in range(1, 3001)
    ]
    data = ["ORIGINAL stuff"] + ["plain stuff here"] * 9
    yield "item", [
        (i, rng.randrange(1, 10001), f"item{i}", f"{rng.uniform(1, 100):.2f}", rng.choice(data))
        for i in range(1, 100_001)
    ]
    yield "stock", [
        (i, w, rng.randrange(10, 101), "d" * 24, rng.choice(data))
        for w in range(1, warehouses + 1) for i in range(1, 100_001)
    ]
    orders, waiting, lines = [], [], []
    for w, d in districts:
        customers = list(range(1, 3001))
        rng.shuffle(customers)
        for o in range(1, 3001):
            delivered = o < 2101
            count = rng.randrange(5, 16)
            orders.append((o, d, w, customers[o - 1], when, rng.randrange(1, 11) if delivered else None, count))
            if not delivered:
                waiting.append((o, d, w))
            for number in range(1, count + 1):
                amount = "0.00" if delivered else f"{rng.uniform(0.01, 9999.99):.2f}"
                lines.append((o, d, w, number, rng.randrange(1, 100_001), w, when if delivered else None, 5, amount,
                              "i" * 24))
    yield "orders", orders
    yield "new_order", waiting
    yield "order_line", lines


def load(connection, tables):
    connection.autocommit = True
    for statement in filter(str.strip, SCHEMA.split(";")):
        connection.execute(statement)
    for name, content in tables:
        with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row in content:
                copy.write_row(row)
    connection.execute("VACUUM ANALYZE")
    connection.autocommit = False


def groups():
    """Names, values of the constants, and statements with psycopg's parameters."""
    found = []
    for line in STATEMENTS.read_text().splitlines():
        head = re.match(r"-- (?:write )?(\w+): (.*)", line)
        if head and "=" in head[2]:
            pairs = (pair.split("=") for pair in head[2].split(", "))
            values = {name: int(value) if value.isdigit() else value for name, value in pairs}
            found.append((head[1], values, []))
        elif line.endswith(";"):
            found[-1][2].append(re.sub(r"(?<!:):([a-z]\w*)", r"%(\1)s", line[:-1]))
    return found


def measured(connection, text, values):
    """Median in milliseconds and the answer, or None and the error."""
    times = []
    try:
        for _ in range(9):
            began = time.perf_counter()
            cursor = connection.execute(text, values, prepare=True)
            answer = cursor.fetchall() if text.startswith("SELECT") else cursor.rowcount
            times.append(time.perf_counter() - began)
            connection.rollback()
            if sum(times) > 1.5 and len(times) > 2:
                break
    except psycopg.Error as error:
        connection.rollback()
        return None, str(error).split("\n")[0]
    times = sorted(times[1:])
    return times[len(times) // 2] * 1e3, answer


def show(statements, counts):
    group = None
    for found in statements:
        if found["group"] != group:
            group = found["group"]
            print(f"== {group}: best {found['best_ms']:.3f} ms")
        marks = ["SLOW"] if found["slow"] else []
        if found["different"] is not None:
            marks.append(f"DIFF {found['different']}")
        times = (found["halcyon_ms"] or -1, found["postgresql_ms"] or -1)
        print(f"{times[0]:9.3f} {times[1]:9.3f} {' '.join(marks):5} {found['statement'][:120]}")
    print("{count} statements: {slow} slow, {slower} slower than PostgreSQL, {different} different".format(**counts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("halcyon")
    parser.add_argument("postgresql")
    parser.add_argument("--warehouses", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tables = list(rows(options.warehouses))
    servers = [psycopg.connect(options.halcyon), psycopg.connect(options.postgresql)]
    for server in servers:
        load(server, tables)
    statements = []
    for name, values, texts in groups():
        results = [[measured(server, text, values) for server in servers] for text in texts]
        best = min((own[0] for own, _ in results if own[0] is not None), default=0)
        for (own, other), text in zip(results, texts):
            statements.append({
                "group": name, "statement": text, "halcyon_ms": own[0], "postgresql_ms": other[0], "best_ms": best,
                "slow": own[0] is not None and own[0] > 2 * best + 0.15,
                "different": None if own[1] == other[1] else f"{own[1]!r:.80} / {other[1]!r:.80}",
            })
    slower = [s for s in statements if None not in (s["halcyon_ms"], s["postgresql_ms"])
              and s["halcyon_ms"] > s["postgresql_ms"]]
    counts = {
        "count": len(statements), "slow": sum(s["slow"] for s in statements), "slower": len(slower),
        "different": sum(s["different"] is not None for s in statements),
    }
    if options.json:
        print(json.dumps({"statements": statements, **counts}))
    else:
        show(statements, counts)
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
