"""The interface of PEP 249 over the ADBC driver of Halcyon, with Arrow's data both ways. Needs pyarrow."""

import typing

import adbc_driver_manager
import adbc_driver_manager.dbapi
from adbc_driver_manager.dbapi import *  # noqa: F403
from adbc_driver_manager.dbapi import Connection

import adbc_driver_halcyon


def connect(
    path: typing.Optional[str] = None,
    *,
    db_kwargs: typing.Optional[typing.Dict[str, str]] = None,
    conn_kwargs: typing.Optional[typing.Dict[str, str]] = None,
    autocommit: bool = False,
) -> Connection:
    """Connects to a database: in memory without a path, else the one of a folder.

    Args:
        path: The folder.
        db_kwargs: Options of the database (`adbc_driver_halcyon.DatabaseOptions`).
        conn_kwargs: Options of the connection.
        autocommit: Whether each statement commits.
    """
    database = adbc_driver_halcyon.connect(path, db_kwargs=db_kwargs)
    connection = None
    try:
        connection = adbc_driver_manager.AdbcConnection(database, **(conn_kwargs or {}))
        return Connection(database, connection, autocommit=autocommit)
    except Exception:
        if connection:
            connection.close()
        database.close()
        raise
