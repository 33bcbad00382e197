"""Exchange with DuckDB: its IMPORT DATABASE on our EXPORT DATABASE, and ours on its.

Prints `ok NAME` or `FAILED NAME: reason` per check; exit status 1 if one failed. The server must see
the same files as this script.
"""

import os
import pathlib
import sys
import tempfile

import duckdb
import psycopg

SHOP = """
CREATE SCHEMA shop;
CREATE TABLE shop.customer (id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL DEFAULT 'nobody', CHECK (name <> ''));
CREATE TABLE shop.sale (id BIGSERIAL, customer INT REFERENCES shop.customer ON DELETE CASCADE,
    amount NUMERIC(9,2) UNIQUE, at TIMESTAMPTZ DEFAULT now());
INSERT INTO shop.customer (name) VALUES ('a'), ('b'), (DEFAULT);
INSERT INTO shop.sale (customer, amount, at) VALUES (1, 1, NULL), (2, 2, '2020-01-01');
CREATE TABLE worker (id INT PRIMARY KEY, boss INT REFERENCES worker);
INSERT INTO worker VALUES (2, NULL), (1, 2);
CREATE TABLE child (id INT PRIMARY KEY, customer INT REFERENCES shop.customer,
    worker INT REFERENCES worker);
INSERT INTO child VALUES (1, 3, 1);
CREATE TABLE "Odd ""name""/x" ("select" INT, "B c" TEXT);
INSERT INTO "Odd ""name""/x" VALUES (1, 'x');
CREATE UNIQUE INDEX by_name ON shop.customer (name DESC, id);
CREATE VIEW shop.big AS SELECT amount FROM shop.sale WHERE amount > 1;
CREATE VIEW over AS SELECT * FROM shop.big;
CREATE TABLE types (a BOOLEAN, b SMALLINT, c INTEGER, d BIGINT, e REAL, f DOUBLE PRECISION,
    g DECIMAL(38,4), h CHAR(3), i VARCHAR(9), j TEXT, k BYTEA, l DATE, m TIME, n TIMESTAMP,
    o TIMESTAMPTZ, p INTERVAL, q UUID);
INSERT INTO types VALUES (true, -1, 2147483647, -9223372036854775808, 'NaN', '-Infinity',
    -12345678901234567890.1234, 'ab', 'ü', 'text that does not fit into a view', '\\x00ff10',
    '1969-12-31', '23:59:59.999999', '2000-01-01 00:00:00.000001', '1900-01-01 00:00+02',
    '1 year -3 days 00:00:01.5', '00112233-4455-6677-8899-aabbccddeeff');
INSERT INTO types (p) VALUES ('-1 years -2 mons +3 days -04:05:06.000007');
"""

# The same questions to both; casts keep them clear of what the drivers make of types.
QUESTIONS = [
    "SELECT count(*), sum(id) FROM shop.customer",
    "SELECT id, customer, amount FROM shop.sale ORDER BY id",
    "SELECT amount FROM public.over",
    "SELECT id, boss FROM public.worker ORDER BY id",
    "SELECT id, customer, worker FROM public.child",
    'SELECT "select", "B c" FROM public."Odd ""name""/x"',
    "SELECT a, b, c, d, f, g, i, j, l, m, n, CAST(q AS text) FROM public.types ORDER BY a",
    "SELECT extract(year FROM o), extract(hour FROM m) FROM public.types ORDER BY a",
    "SELECT extract(year FROM p), extract(month FROM p), extract(day FROM p), "
    "extract(microsecond FROM p) FROM public.types ORDER BY a",
]

failed = False


def check(name, found, expected):
    global failed
    if found == expected:
        print(f"ok {name}")
    else:
        failed = True
        print(f"FAILED {name}: {found}, not {expected}")


def rows(answer):
    # NaN is not itself.
    return [tuple(str(value) if isinstance(value, float) else value for value in row)
            for row in answer]


def ours_by_duckdb(ours, folder):
    to = folder / "ours"
    ours.execute(f"EXPORT DATABASE TO '{to}'")
    theirs = duckdb.connect()
    theirs.execute("SET TimeZone = 'UTC'")
    theirs.execute(f"IMPORT DATABASE '{to}'")
    for question in QUESTIONS:
        expected = rows(ours.execute(question).fetchall())
        check(question[:60], rows(theirs.execute(question).fetchall()), expected)
    for text in ["INSERT INTO shop.customer VALUES (9, '')", "INSERT INTO shop.sale (id, amount) VALUES (9, 1)",
                 "INSERT INTO public.worker VALUES (1, 1)"]:
        try:
            theirs.execute(text)
            check(f"refused: {text}", "taken", "an error")
        except duckdb.ConstraintException:
            check(f"refused: {text}", 0, 0)


def theirs_by_us(ours, folder):
    to = folder / "theirs"
    theirs = duckdb.connect()
    theirs.execute("""
        CREATE SCHEMA ducks;
        CREATE TABLE ducks.pond (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, area DECIMAL(9,2));
        CREATE TABLE ducks.duck (id BIGINT, pond INTEGER REFERENCES ducks.pond (id), seen TIMESTAMP,
            tag UUID, CHECK (id > 0));
        INSERT INTO ducks.pond SELECT n, 'pond ' || n, n / 4 FROM range(5000) t(n);
        INSERT INTO ducks.duck SELECT n + 1, n % 5000, TIMESTAMP '2020-01-01' + INTERVAL 1 HOUR * n,
            '00112233-4455-6677-8899-aabbccddeeff' FROM range(20000) t(n)
    """)
    theirs.execute(f"EXPORT DATABASE '{to}' (FORMAT parquet)")
    ours.execute(f"IMPORT DATABASE FROM '{to}'")
    for question in [
        "SELECT count(*), min(name), sum(area) FROM ducks.pond",
        "SELECT count(*), max(seen), min(CAST(tag AS text)) FROM ducks.duck",
    ]:
        check(question[:60], ours.execute(question).fetchall(), theirs.execute(question).fetchall())
    try:
        ours.execute("INSERT INTO ducks.duck (id, pond) VALUES (1, -1)")
        check("their foreign key", "taken", "an error")
    except psycopg.errors.ForeignKeyViolation:
        check("their foreign key", 0, 0)


def main():
    with tempfile.TemporaryDirectory() as folder:
        address = f"host={os.environ['HOST']} port={os.environ['PORT']} user=halcyon dbname=halcyon"
        with psycopg.connect(address, autocommit=True) as ours:
            for statement in SHOP.split(";\n"):
                if statement.strip():
                    ours.execute(statement)
            ours_by_duckdb(ours, pathlib.Path(folder))
            theirs_by_us(ours, pathlib.Path(folder))
    sys.exit(failed)


main()
