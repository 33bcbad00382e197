"""Runs SQLAlchemy's own suite for dialects; writes what became of each test into $HALCYON_RESULTS."""

import os
import re

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin import pytestplugin  # noqa: E402
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402,F401,F403

outcomes = {}


def pytest_configure(config):
    """Leaves out the extensions citext and hstore, which no test of the suite uses."""
    pytestplugin.pytest_configure(config)
    from sqlalchemy.dialects.postgresql import provision

    provision.post_configure_engine.for_db("postgresql")(lambda *_: None)


def pytest_runtest_logreport(report):
    """Keeps the worst outcome of a test's three phases, under a name without the server's version."""
    name = re.sub(r"_postgresql\+[^:]*", "", report.nodeid.split("::", 1)[1])
    if report.failed:
        lines = str(report.longrepr).splitlines()
        told = [line[1:].strip() for line in lines if line.startswith("E ")]
        why = " ".join(" ".join(told or lines[-1:]).split())
        outcomes[name] = ("failed", why[:400])
    elif report.skipped or report.when == "call":
        outcomes.setdefault(name, ("skipped" if report.skipped else "passed", ""))


def pytest_sessionfinish(session):
    pytestplugin.pytest_sessionfinish(session)
    driver = "asyncpg" if "asyncpg" in str(session.config.option.dburi) else "psycopg"
    with open(os.environ["HALCYON_RESULTS"], "a") as file:
        for name, (outcome, why) in outcomes.items():
            file.write(f"{outcome}\t{driver} {name}\t{why}\n")
