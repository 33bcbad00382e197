"""ADBC driver of Halcyon, an in-memory SQL database that is part of the program.

``adbc_driver_halcyon.dbapi`` is the interface of PEP 249 with Arrow; this module has the driver's own, for programs that
work with `adbc_driver_manager`.
"""

import enum
import pathlib
import typing

import adbc_driver_manager

__all__ = ["ConnectionOptions", "DatabaseOptions", "StatementOptions", "connect", "driver_path"]
__version__ = "0.1.0"


class DatabaseOptions(enum.Enum):
    """Options of a database. Any other is a setting of the whole database, as ``ALTER SYSTEM`` knows them."""

    #: Folder of the database; without one, or with ``:memory:``, it lives in memory.
    PATH = "path"
    #: The same as ``file:`` or ``halcyon:`` with a path.
    URI = "uri"
    #: Role of the sessions; the first superuser without one.
    USERNAME = "username"
    #: Threads that work on statements.
    THREADS = "threads"
    #: Folder for what does not fit in memory.
    SPILL_FOLDER = "spill_folder"


class ConnectionOptions(enum.Enum):
    """Options of a connection, besides the standard's. ``halcyon.setting.NAME`` is a setting as SET knows it."""

    #: ``true``: texts and bytes of results are Arrow's views, which share the engine's memory.
    STRING_VIEWS = "halcyon.string_views"
    #: Number of the session, as ``pg_backend_pid()`` gives it. Read only.
    SESSION_ID = "halcyon.session_id"


class StatementOptions(enum.Enum):
    """Options of a statement, besides the standard's."""

    #: As of a connection.
    STRING_VIEWS = "halcyon.string_views"


def driver_path() -> str:
    """Path of the driver's library, which driver managers of other languages load, too."""
    here = pathlib.Path(__file__).resolve().parent
    return str(here / "libadbc_driver_halcyon.so")


def connect(
    path: typing.Optional[str] = None,
    db_kwargs: typing.Optional[typing.Dict[str, str]] = None,
) -> adbc_driver_manager.AdbcDatabase:
    """Opens a database: in memory without a path, else the one of a folder, which is made if it is missing.

    A folder that is open in this process already is shared. ``db_kwargs``: further options of the database.
    """
    options = dict(db_kwargs or {})
    if path is not None:
        options[DatabaseOptions.PATH.value] = path
    return adbc_driver_manager.AdbcDatabase(driver=driver_path(), entrypoint="AdbcDriverHalcyonInit", **options)
