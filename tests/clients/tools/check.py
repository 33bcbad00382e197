"""What graphical tools ask of the catalogs: every text of queries.sql must be taken, and give the columns that
PostgreSQL 15 gives, by name and type.

A line `-- TOOL: what` begins a query, `-- TOOL: what [rows]` one whose rows must be PostgreSQL's too. {item} stands
for the table's OID, {shop} for the schema's. `check.py --record` asks another server and writes expected.json.
"""

import decimal
import json
import pathlib
import re
import sys

import psycopg

import checks

# Types that clients show alike: what PostgreSQL says, and what may stand for it.
ALIKE = {"name": "text", "varchar": "text", "pg_node_tree": "text", "xid": "int8", "_aclitem": "_text", "anyarray": "text", "_varchar": "_text"}
HERE = pathlib.Path(__file__).parent
EXPECTED = HERE / "expected.json"


def connect():
    return psycopg.connect(host=checks.HOST, port=checks.PORT, user=checks.USER, dbname=checks.DATABASE, autocommit=True)


def queries():
    name, lines = None, []
    for line in (HERE / "queries.sql").read_text().splitlines() + ["-- end: end"]:
        if re.match(r"-- \w[\w ]*: ", line):
            if name:
                yield name, "\n".join(lines).strip()
            name, lines = line[3:], []
        elif name:
            lines.append(line)


def shown(value):
    """A value as a text; numbers without the zeros at their end."""
    if isinstance(value, (float, decimal.Decimal)):
        return f"{decimal.Decimal(str(value)).normalize():f}"
    return None if value is None else str(value)


def ask(connection, names, text):
    """The columns of the last statement's result by name and type, and its rows as texts."""
    for key, oid in names.items():
        text = text.replace("{" + key + "}", str(oid))
    # Like the tools' own drivers: what holds one statement goes through the extended protocol.
    single = ";" not in text.rstrip(";")
    cursor = connection.execute(text.rstrip(";"), prepare=single) if single else psycopg.ClientCursor(connection).execute(text)
    while cursor.nextset():
        pass
    if cursor.description is None:
        return [], []
    columns = [(column.name, column.type_code) for column in cursor.description]
    rows = cursor.fetchall() if cursor.pgresult.ntuples >= 0 else []
    return columns, [[shown(value) for value in row] for row in rows]


def kinds(connection, columns):
    known = dict(connection.execute("SELECT oid::bigint, typname::text FROM pg_type").fetchall())
    return [[name, "of the schema" if oid >= 16384 else known.get(oid, str(oid))] for name, oid in columns]


def main():
    record = "--record" in sys.argv
    expected = {} if record else json.loads(EXPECTED.read_text())
    connection = connect()
    psycopg.ClientCursor(connection).execute((HERE / "schema.sql").read_text())
    names = {}
    for key, text in {"item": "'shop.item'::regclass", "customer": "'shop.customer'::regclass", "dear": "'shop.dear'::regclass",
                      "number": "'shop.number'::regclass", "price": "'shop.item_by_price'::regclass", "shop": "'shop'::regnamespace",
                      "database": "(SELECT oid FROM pg_database WHERE datname = current_database())"}.items():
        try:
            names[key] = connection.execute(f"SELECT {text}::oid::bigint").fetchone()[0]
        except psycopg.Error as error:
            print(f"FAILED the OID of {key}: {error}")
    failed = 0
    for name, text in queries():
        try:
            columns, rows = ask(connection, names, text)
            columns = kinds(connection, columns)
        except Exception as error:  # every failure is reported, none ends the run
            if connection.closed:
                connection = connect()
            failed += 1
            print(f"FAILED {name}: {' '.join(str(error).split())[:250]}", flush=True)
            continue
        if record:
            expected[name] = {"columns": columns} | ({"rows": rows} if name.endswith("[rows]") else {})
            continue
        wanted, seen, faults = expected[name], dict(columns), []
        for column, kind in wanted["columns"]:
            if column not in seen:
                faults.append(f"no column {column}")
            elif ALIKE.get(seen[column], seen[column]) != ALIKE.get(kind, kind):
                faults.append(f"{column} is {seen[column]}, not {kind}")
        if not faults and "rows" in wanted and rows != wanted["rows"]:
            faults.append(f"{rows} instead of {wanted['rows']}")
        failed += bool(faults)
        print(f"FAILED {name}: {'; '.join(faults)[:1000]}" if faults else f"ok {name}", flush=True)
    if record:
        EXPECTED.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(what, ensure_ascii=False)}" for name, what in expected.items()) + "\n}\n")
    sys.exit(1 if failed else 0)


main()
