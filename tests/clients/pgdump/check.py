"""pg_dump of a schema from Halcyon, restored by psql into PostgreSQL and into Halcyon, and pg_dump of
PostgreSQL restored into Halcyon."""

import os
import pathlib
import subprocess
import tempfile

import pgserver
import psycopg

from checks import DATABASE, HOST, PORT, USER, check, run

HERE = pathlib.Path(__file__).parent
PROGRAMS = pathlib.Path(pgserver.__file__).parent / "pginstall" / "bin"
FOLDER = tempfile.mkdtemp()
os.chmod(FOLDER, 0o777)
POSTGRESQL = pgserver.get_server(f"{FOLDER}/data")

HALCYON = f"host={HOST} port={PORT} user={USER} dbname={DATABASE}"
OTHER = f"host={FOLDER}/data user={USER} dbname={DATABASE}"

FACTS = [
    """SELECT table_schema, table_name, column_name, ordinal_position, data_type, is_nullable,
       is_identity, identity_generation, is_generated, character_maximum_length, numeric_precision, numeric_scale
       FROM information_schema.columns WHERE table_schema IN ('shop', 'public') ORDER BY 1, 2, 4""",
    """SELECT c.relname, k.conname, k.contype, k.condeferrable, k.condeferred, k.confupdtype, k.confdeltype
       FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
       WHERE c.relnamespace IN ('shop'::regnamespace, 'public'::regnamespace) ORDER BY 1, 2""",
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname IN ('shop', 'public') ORDER BY 1",
    "SELECT schemaname, viewname FROM pg_views WHERE schemaname IN ('shop', 'public') ORDER BY 1, 2",
    """SELECT schemaname, sequencename, start_value, min_value, max_value, increment_by, cycle, last_value
       FROM pg_sequences ORDER BY 1, 2""",
    """SELECT c.relname, d.objsubid, d.description FROM pg_description d JOIN pg_class c ON c.oid = d.objoid
       WHERE d.classoid = 'pg_class'::regclass
       AND c.relnamespace IN ('shop'::regnamespace, 'public'::regnamespace) ORDER BY 1, 2""",
    "SELECT * FROM shop.customer ORDER BY id",
    "SELECT * FROM shop.sale ORDER BY id",
    'SELECT * FROM "Odd ""name""" ORDER BY 1',
    "SELECT * FROM worker ORDER BY 1",
    "SELECT * FROM shop.poll ORDER BY m, id",
    "INSERT INTO shop.poll (id) VALUES (9) RETURNING *",
    "SELECT * FROM shop.line ORDER BY 1",
    "INSERT INTO shop.line VALUES (4, 2) RETURNING total",
    "SELECT * FROM a_view_of_a_view",
    "INSERT INTO shop.sale (customer) VALUES (1) RETURNING id, weight",
    "INSERT INTO shop.customer DEFAULT VALUES RETURNING id, name",
    "SELECT nextval('counter'), nextval('fresh')",
]


def psql(place, *arguments, **options):
    command = [PROGRAMS / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", place, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr, done.stderr


def dumped(place, *arguments):
    command = [PROGRAMS / "pg_dump", *arguments, place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    # The servers' versions stand in comments.
    return "\n".join(line for line in done.stdout.split("\n") if not line.startswith("--"))


def clear():
    psql(HALCYON, "-c", '''
        DROP SCHEMA IF EXISTS shop CASCADE; DROP VIEW IF EXISTS a_view_of_a_view;
        DROP TABLE IF EXISTS "Odd ""name""", worker; DROP SEQUENCE IF EXISTS counter, fresh''')


def fresh_postgresql():
    server = f"host={FOLDER}/data user=postgres dbname=postgres"
    for command in [f"DROP DATABASE IF EXISTS {DATABASE}", f"DROP ROLE IF EXISTS {USER}",
                    f"CREATE ROLE {USER} SUPERUSER LOGIN", f"CREATE DATABASE {DATABASE} OWNER {USER}"]:
        psql(server, "-c", command)


def facts(place):
    """What a database says, each list of rows after its question; all changes are undone."""
    found = []
    with psycopg.connect(place) as connection:
        connection.execute("SET timezone TO 'UTC'")
        for question in FACTS:
            found.append((question, connection.execute(question).fetchall()))
        connection.rollback()
    return found


def same(one, other):
    for (question, left), (_, right) in zip(one, other, strict=True):
        # NaN equals nothing.
        assert repr(left) == repr(right), f"{question}: {left} {right}"


@check
def what_halcyon_dumps_is_restored_by_postgresql():
    clear()
    psql(HALCYON, "-f", str(HERE / "schema.sql"))
    dump = dumped(HALCYON, "-N", "halcyon")
    before = facts(HALCYON)
    fresh_postgresql()
    psql(OTHER, "-1", "-f", "-", input=dump)
    same(before, facts(OTHER))


@check
def what_halcyon_dumps_is_restored_by_halcyon():
    clear()
    psql(HALCYON, "-f", str(HERE / "schema.sql"))
    dump = dumped(HALCYON, "-N", "halcyon")
    before = facts(HALCYON)
    clear()
    psql(HALCYON, "-1", "-f", "-", input=dump)
    same(before, facts(HALCYON))
    clear()
    psql(HALCYON, "-f", "-", input=dump)
    assert dumped(HALCYON, "-N", "halcyon") == dump


@check
def what_postgresql_dumps_is_restored_by_halcyon():
    fresh_postgresql()
    psql(OTHER, "-f", str(HERE / "schema.sql"))
    dump = dumped(OTHER)
    before = facts(OTHER)
    clear()
    psql(HALCYON, "-1", "-f", "-", input=dump)
    same(before, facts(HALCYON))


@check
def rows_dumped_as_statements_are_restored():
    psql(HALCYON, "-c", "DELETE FROM shop.sale")
    dump = dumped(HALCYON, "-N", "halcyon", "--column-inserts")
    clear()
    psql(HALCYON, "-f", "-", input=dump)
    with psycopg.connect(HALCYON) as connection:
        names = connection.execute("SELECT name FROM shop.customer ORDER BY id").fetchall()
    assert names == [("a",), ("b",), ("tab\there\\ and\nthere",)], names
    clear()


try:
    run()
finally:
    POSTGRESQL.cleanup()
