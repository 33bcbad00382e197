"""Halcyon, an in-memory SQL database, within this process.

>>> import halcyon
>>> halcyon.sql("SELECT 6 * 7 AS answer").fetchall()
[(42,)]
"""

from __future__ import annotations

import sys as _sys
import threading as _threading
from typing import Any as _Any

from .connection import Connection, Cursor, Parameters, connect
from .errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    QueryCanceled,
    Warning,
)
from .relation import Relation
from .subscription import Changes, Delta, Stream, Subscription
from .types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    DBAPIType,
    Interval,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

__version__ = "0.1.0"

apilevel = "2.0"
threadsafety = 2
paramstyle = "pyformat"

_default: Connection | None = None
_making = _threading.Lock()


def default_connection() -> Connection:
    """The connection of this module's functions: to a database in memory, each statement a transaction of its own."""
    global _default
    with _making:
        if _default is None or _default.closed:
            _default = connect(autocommit=True)
        return _default


def sql(sql: str, params: Parameters = None) -> Relation | None:
    """Runs statements on the default connection: see Connection.sql."""
    return default_connection()._sql(sql, params, _sys._getframe(1))


def execute(sql: str, params: Parameters = None) -> Cursor:
    """Runs a statement on the default connection, and returns a cursor."""
    return default_connection().execute(sql, params)


def register(name: str, data: _Any) -> int:
    """Makes a temporary table of Arrow data on the default connection: see Connection.register."""
    return default_connection().register(name, data)


def read_parquet(source: _Any, name: str | None = None) -> Relation:
    """Reads Parquet into a temporary table on the default connection: see Connection.read_parquet."""
    return default_connection().read_parquet(source, name)


def read_csv(source: _Any, name: str | None = None, **options: _Any) -> Relation:
    """Reads CSV into a temporary table on the default connection: see Connection.read_csv."""
    return default_connection().read_csv(source, name, **options)
