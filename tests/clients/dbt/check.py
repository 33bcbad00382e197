"""What dbt does to a database: seeds, models of every kind, snapshots, tests, documentation.

One process runs all commands; every check is a command, and the first node that fails is told.
"""

import os
import pathlib
import shutil
import tempfile

folder = pathlib.Path(tempfile.mkdtemp(prefix="dbt-"))
os.environ.update(DBT_SEND_ANONYMOUS_USAGE_STATS="false", DBT_PROFILES_DIR=str(folder), DBT_LOG_PATH=str(folder / "logs"),
                  DBT_TARGET_PATH=str(folder / "target"))

import psycopg2
from dbt.cli.main import dbtRunner

from checks import DATABASE, HOST, PORT, USER, check, run

shutil.copytree(pathlib.Path(__file__).parent / "project", folder / "project")
(folder / "profiles.yml").write_text(f"""
shop:
  target: dev
  outputs:
    dev: {{type: postgres, host: {HOST}, port: {PORT}, user: {USER}, password: x, dbname: {DATABASE}, schema: shop, threads: 2}}
""")
RUNNER = dbtRunner()


def dbt(*arguments):
    """Runs a command; fails with what the first node that failed said."""
    done = RUNNER.invoke([*arguments, "--project-dir", str(folder / "project"), "--quiet", "--log-level", "none", "--no-use-colors"])
    if done.exception:
        raise done.exception
    bad = [node for node in getattr(done.result, "results", None) or [] if node.status not in ("success", "pass")]
    if bad:
        raise AssertionError(f"{len(bad)} nodes failed; {bad[0].node.name}: {bad[0].message}")
    assert done.success, done.result
    return done.result


def query(text):
    connection = psycopg2.connect(host=HOST, port=PORT, user=USER, dbname=DATABASE)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall() if cursor.description else None
    finally:
        connection.close()


@check
def debug():
    assert RUNNER.invoke(["debug", "--project-dir", str(folder / "project"), "--quiet"]).success


@check
def seeds():
    dbt("seed")
    dbt("seed")
    dbt("seed", "--full-refresh")
    assert query("SELECT count(*), max(bought) FROM shop.purchases")[0][0] == 4


@check
def a_view():
    dbt("run", "--select", "customers_view")
    dbt("run", "--select", "customers_view")


@check
def a_table():
    dbt("run", "--select", "totals")
    dbt("run", "--select", "totals")
    assert query("SELECT count(*) FROM shop.totals") == [(2,)]


@check
def a_table_with_a_contract():
    dbt("run", "--select", "contracted")
    dbt("run", "--select", "contracted")


@check
def an_incremental_model_by_append():
    dbt("run", "--select", "appended")
    dbt("run", "--select", "appended")
    assert query("SELECT count(*) FROM shop.appended") == [(4,)]


@check
def an_incremental_model_by_deletion_and_insertion():
    dbt("run", "--select", "replaced")
    dbt("run", "--select", "replaced")
    assert query("SELECT count(*) FROM shop.replaced") == [(4,)]


@check
def an_incremental_model_by_merge():
    dbt("run", "--select", "merged")
    dbt("run", "--select", "merged")
    assert query("SELECT count(*) FROM shop.merged") == [(4,)]


@check
def a_materialized_view():
    dbt("run", "--select", "kept")
    dbt("run", "--select", "kept")


@check
def a_snapshot():
    dbt("snapshot")
    query("UPDATE shop.customers SET name = 'Ann 2' WHERE id = 1")
    dbt("snapshot")
    assert query("SELECT count(*), count(dbt_valid_to) FROM shop.customers_history") == [(3, 1)]


@check
def tests():
    dbt("test")


@check
def tests_that_store_what_fails():
    dbt("test", "--store-failures")


@check
def documentation():
    catalog = dbt("docs", "generate")
    names = {node.metadata.name for node in catalog.nodes.values()}
    assert {"customers", "purchases", "totals"} <= names, names


@check
def the_catalog_of_sources_and_freshness():
    dbt("source", "freshness")


@check
def show_and_an_operation():
    dbt("show", "--inline", "select * from {{ ref('customers') }}", "--limit", "1")
    dbt("run-operation", "schemas")


@check
def everything_by_build():
    dbt("build", "--full-refresh")


run()
