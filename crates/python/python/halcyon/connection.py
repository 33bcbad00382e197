"""Connections and cursors of PEP 249, over databases in this process."""

from __future__ import annotations

import os
import re
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Union

from . import _halcyon, errors
from .awaiting import Turns
from .errors import InterfaceError, ProgrammingError
from .relation import Relation, arrow_of, need, pandas_of, polars_of
from .subscription import Stream, Subscription

# Rows that an iteration by asyncio reads at once.
_AHEAD = 256

Parameters = Union[Sequence[Any], Mapping[str, Any], None]

_open: weakref.WeakValueDictionary[str, _halcyon.Database] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def connect(
    database: str | os.PathLike[str] | None = None, *, autocommit: bool = False, role: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> Connection:
    """Opens a database of this process and returns a connection to it.

    ``database``: a folder, which is made if it is not there; without one, or ``":memory:"``, a new database in memory.
    Connections to one folder share one database. ``autocommit``: whether each statement is a transaction of its own;
    otherwise the first one begins a transaction that ``commit`` or ``rollback`` ends, as PEP 249 has it. ``role``: the
    role that the connection acts for, instead of the first superuser. ``config``: settings of the whole database
    (``{"memory_limit": "2GB", "threads": 4, "spill_folder": "/tmp/spill"}``).

    Raises OperationalError if another process has the folder open or it is damaged.
    """
    settings = [(str(name), _setting(value)) for name, value in (config or {}).items()]
    if database is None or os.fspath(database) == ":memory:":
        return Connection(_halcyon.Database.open(None, settings), autocommit, role)
    folder = os.path.realpath(os.fspath(database))
    with _opening:
        handle = _open.get(folder)
        if handle is None:
            handle = _halcyon.Database.open(folder, settings)
            _open[folder] = handle
        elif settings:
            raise InterfaceError(f"{folder} is open in this process already: its config cannot change")
    return Connection(handle, autocommit, role)


def _setting(value):
    if isinstance(value, bool):
        return "on" if value else "off"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _quoted(name):
    return '"' + name.replace('"', '""') + '"'


def _table(name):
    return ".".join(_quoted(part) for part in name.split("."))


def _statement(text, params):
    """The text in PostgreSQL's form, and the parameters in the order of $1, $2, …."""
    if params is None:
        return text, None
    rewritten, places, names = _halcyon.placeholders(text)
    if names is not None:
        if not isinstance(params, Mapping):
            raise ProgrammingError("the statement has named placeholders: parameters must be a mapping")
        try:
            return rewritten, [params[name] for name in names]
        except KeyError as missing:
            raise ProgrammingError(f"there is no parameter {missing}") from None
    if isinstance(params, Mapping):
        if params:
            raise ProgrammingError("the statement has no named placeholders for a mapping")
        params = ()
    if isinstance(params, (str, bytes)):
        raise ProgrammingError("parameters are a sequence, not a text: (value,)")
    params = list(params)
    if places is not None and len(places) != len(params):
        raise ProgrammingError(f"the statement has {len(places)} placeholders, {len(params)} parameters were given")
    return rewritten, params


def _arrow(data, what="data"):
    """An object with Arrow's PyCapsule interface."""
    if hasattr(data, "__arrow_c_stream__"):
        return data
    if isinstance(data, Mapping):
        return need("pyarrow", "a table of a dict").table(dict(data))
    if isinstance(data, list) and data and isinstance(data[0], Mapping):
        return need("pyarrow", "a table of a list of dicts").Table.from_pylist(data)
    raise ProgrammingError(f"{what} must have __arrow_c_stream__, or be a dict of columns or a list of dicts, "
                           f"not a {type(data).__name__}")


class Connection:
    """A connection. Threads may share it; their statements take turns."""

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, database: _halcyon.Database, autocommit: bool = False, role: str | None = None):
        self._database: _halcyon.Database | None = database
        self._role = role
        self._session = database.session(role)
        self._autocommit = bool(autocommit)
        self._classes: list[str] = []
        self._turns = Turns(self._session.cancel)
        # What refers to the database and ends with the connection: results that are read, subscriptions, streams.
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()

    # ------------------------------------------------------------ PEP 249

    def cursor(self) -> Cursor:
        """A new cursor."""
        self._require_open()
        return Cursor(self)

    def commit(self) -> None:
        """Commits the transaction; does nothing without one."""
        self._require_open()
        self._session.commit()

    def rollback(self) -> None:
        """Rolls the transaction back; does nothing without one."""
        self._require_open()
        self._session.rollback()

    def close(self) -> None:
        """Closes the connection, its subscriptions and streams: a transaction in progress is rolled back, and rows
        that were not read yet are lost. Closing again does nothing."""
        for user in list(self._open):
            user.close()
        self._turns.close()
        self._session.close()
        self._database = None

    @property
    def autocommit(self) -> bool:
        """Whether each statement is a transaction of its own. Cannot change within a transaction."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._require_open()
        if self._session.state() != "idle":
            raise ProgrammingError("autocommit cannot change within a transaction")
        self._autocommit = bool(value)

    def __enter__(self) -> Connection:
        self._require_open()
        return self

    def __exit__(self, kind: Any, *exc: Any) -> None:
        """Commits, or rolls back after an exception, and closes."""
        if self.closed:
            return
        try:
            if kind is None:
                self.commit()
            else:
                self.rollback()
        finally:
            self.close()

    # ------------------------------------------------------------ asyncio

    async def aexecute(self, sql: str, params: Parameters = None) -> Cursor:
        """Runs a statement with a new cursor, and returns the cursor: as execute(), while the loop runs on.

        The statements that are awaited on a connection run one after another. A task that is cancelled ends its
        statement (which counts as failed: within a transaction, roll back), and goes on once the statement has ended.
        """
        return await self.cursor().aexecute(sql, params)

    async def aexecutemany(self, sql: str, rows: Iterable[Parameters]) -> Cursor:
        """Runs a statement for many parameters with a new cursor, and returns the cursor: as executemany()."""
        return await self.cursor().aexecutemany(sql, rows)

    def asql(self, sql: str, params: Parameters = None) -> Coroutine[Any, Any, Relation | None]:
        """Runs statements and gives the last one's rows as a Relation: as sql()."""
        return self._turns.run(self._sql, sql, params, sys._getframe(1))

    async def acommit(self) -> None:
        """Commits the transaction; does nothing without one."""
        await self._turns.run(self.commit)

    async def arollback(self) -> None:
        """Rolls the transaction back; does nothing without one."""
        await self._turns.run(self.rollback)

    async def aclose(self) -> None:
        """Closes the connection, once the statements have ended that are awaited: as close()."""
        await self._turns.run(self.close)

    async def __aenter__(self) -> Connection:
        return self.__enter__()

    async def __aexit__(self, kind: Any, *exc: Any) -> None:
        """Commits, or rolls back after an exception, and closes."""
        await self._turns.run(self.__exit__, kind, *exc)

    # ------------------------------------------------------------ more

    @property
    def closed(self) -> bool:
        """Whether the connection was closed."""
        return self._session.closed

    @property
    def id(self) -> int:
        """Number of the session, as pg_backend_pid() gives it."""
        return self._session.id

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is in progress, also one that has failed."""
        return self._session.state() != "idle"

    def notices(self) -> list[tuple[str, str]]:
        """Notices and warnings since the last call: (SQLSTATE, message)."""
        return self._session.notices()

    def cancel(self) -> None:
        """Ends the statement that another thread runs on this connection, with QueryCanceled."""
        self._session.cancel()

    def connect(self, *, autocommit: bool | None = None, role: str | None = None) -> Connection:
        """Another connection to the same database, for another thread."""
        database = self._require_open()
        autocommit = self._autocommit if autocommit is None else autocommit
        return Connection(database, autocommit, self._role if role is None else role)

    def execute(self, sql: str, params: Parameters = None) -> Cursor:
        """Runs a statement with a new cursor, and returns the cursor."""
        return self.cursor().execute(sql, params)

    def executemany(self, sql: str, rows: Iterable[Parameters]) -> Cursor:
        """Runs a statement for many parameters with a new cursor, and returns the cursor."""
        return self.cursor().executemany(sql, rows)

    def sql(self, sql: str, params: Parameters = None) -> Relation | None:
        """Runs statements and returns the last one's rows as a Relation; None if it returns none.

        A name that is no table may be a variable of the caller with Arrow data (a data frame): it is there as a
        temporary table while the statement runs. Not within a transaction, where the database would have to forget
        the mistake.
        """
        return self._sql(sql, params, sys._getframe(1))

    def register(self, name: str, data: Any) -> int:
        """Makes a temporary table of Arrow data, in place of an earlier one. Returns the number of rows.

        ``data``: any object with ``__arrow_c_stream__`` (a data frame of pandas or polars, a table of pyarrow, a
        relation of DuckDB or of this package), a dict of columns, or a list of dicts. The rows are copied into the
        table; this connection alone sees it.
        """
        table = _quoted(name)
        return self._load(table, data, "CREATE TEMP TABLE", f"DROP TABLE IF EXISTS pg_temp.{table}")

    def unregister(self, name: str) -> None:
        """Drops a temporary table."""
        self._run(f"DROP TABLE IF EXISTS pg_temp.{_quoted(name)}", None)

    def create_table(self, name: str, data: Any, *, replace: bool = False) -> int:
        """Makes a table (``name`` or ``schema.name``) of Arrow data. Returns the number of rows."""
        table = _table(name)
        return self._load(table, data, "CREATE TABLE", f"DROP TABLE IF EXISTS {table}" if replace else None)

    def append(self, name: str, data: Any) -> int:
        """Adds Arrow data to a table, by the names of its columns. Returns the number of rows."""
        return self._load(_table(name), data, None, None)

    def read_parquet(self, source: Any, name: str | None = None) -> Relation:
        """Reads Parquet by pyarrow into a temporary table and returns its rows as a Relation.

        ``source``: a path or a file. ``name``: of the table; by default the file's, without its ending.
        """
        parquet = need("pyarrow.parquet", "read_parquet()")
        file = parquet.ParquetFile(source)
        pyarrow = need("pyarrow", "read_parquet()")
        reader = pyarrow.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        return self._read(source, name, reader)

    def read_csv(self, source: Any, name: str | None = None, **options: Any) -> Relation:
        """Reads CSV by pyarrow into a temporary table and returns its rows as a Relation.

        ``source`` and ``name`` as in read_parquet; ``options`` go to ``pyarrow.csv.open_csv``.
        """
        return self._read(source, name, need("pyarrow.csv", "read_csv()").open_csv(source, **options))

    def subscribe(self, view: str, position: int | None = None) -> Subscription:
        """Subscribes to a materialized view: its rows first, then the changes of each transaction."""
        return self._opened(Subscription(self._require_open().subscribe(view, position, self._role)))

    def stream(self, name: str) -> Stream:
        """A handle that gives a stream events without SQL. Each call is a transaction of its own."""
        return self._opened(Stream(self._require_open().stream(name, self._role)))

    def workload_class(self, name: str) -> AbstractContextManager[Connection]:
        """A context in which queries and writes have the limits of a workload class, too.

        Each gets the hint WITH HINT(WORKLOAD_CLASS("name")), which restricts a statement limit by limit. Statements
        of executemany, append and register do not. Raises ProgrammingError if there is no such class.
        """
        return _InClass(self, name)

    def transaction(self) -> _Transaction:
        """A context, for ``with`` or ``async with``, that is a transaction: commits at its end, rolls back after an
        exception. Within a transaction it is a savepoint."""
        return _Transaction(self)

    def checkpoint(self) -> None:
        """Writes a checkpoint now; does nothing for a database in memory."""
        self._require_open().checkpoint()

    def backup(self, folder: str | os.PathLike[str]) -> None:
        """Copies the database, as it is at one moment, into a new folder."""
        self._require_open().backup(os.fspath(folder))

    def __repr__(self):
        return f"<halcyon.Connection {self.id}{' closed' if self.closed else ''}>"

    # ------------------------------------------------------------ within the package

    def _require_open(self) -> _halcyon.Database:
        if self._database is None:
            raise InterfaceError("the connection is closed")
        return self._database

    def _opened(self, user):
        self._open.add(user)
        return user

    def _run(self, sql, params):
        self._require_open()
        text, values = _statement(sql, params)
        name = self._classes[-1] if self._classes else None
        result = self._session.run(text, values, not self._autocommit, name)
        return result if result.columns is None else self._opened(result)

    def _run_many(self, sql, rows):
        self._require_open()
        text, values = None, []
        for row in rows:
            rewritten, given = _statement(sql, row)
            text = rewritten
            values.append(given)
        return self._session.run_many(text, values, not self._autocommit) if values else 0

    def _load(self, table, data, create, drop):
        self._require_open()
        return self._session.load(table, _arrow(data), create, drop, not self._autocommit)

    def _read(self, source, name, reader):
        if name is None:
            name = os.path.basename(os.fspath(source)).split(".")[0]
        self.register(name, reader)
        return Relation(self._run(f"SELECT * FROM pg_temp.{_quoted(name)}", None))

    def _sql(self, sql, params, frame):
        scanned = []
        try:
            while True:
                try:
                    result = self._run(sql, params)
                    break
                except ProgrammingError as error:
                    name = None if len(scanned) > 100 else self._missing_relation(error)
                    found = _variable(frame, name)
                    if found is None or name in scanned:
                        raise
                    self.register(name, found)
                    scanned.append(name)
            if result.columns is None:
                return None
            return Relation(result)
        finally:
            for name in scanned:
                if self._session.state() != "failed":
                    self.unregister(name)

    def _missing_relation(self, error):
        """The name that a statement failed for, if nothing needs to be rolled back."""
        missing = re.fullmatch(r'relation "([^".]+)" does not exist', error.message)
        if error.sqlstate != "42P01" or missing is None or self._session.state() == "failed":
            return None
        return missing.group(1)


def _variable(frame, name):
    """A variable with Arrow data of the caller, whose name may have capitals."""
    if name is None:
        return None
    for names in (frame.f_locals, frame.f_globals):
        for own, value in names.items():
            if own == name or own.lower() == name:
                if hasattr(value, "__arrow_c_stream__"):
                    return value
    return None


class _InClass(AbstractContextManager["Connection"]):
    def __init__(self, connection: Connection, name: str):
        self._connection = connection
        self._name = name

    def __enter__(self):
        self._connection._require_open()
        known = "SELECT 1 FROM halcyon.workload_classes WHERE workload_class_name = $1"
        if not self._connection._session.run(known, [self._name], False).fetch():
            raise ProgrammingError(f'workload class "{self._name}" does not exist')
        self._connection._classes.append(self._name)
        return self._connection

    def __exit__(self, *exc):
        self._connection._classes.pop()


class _Transaction(AbstractContextManager["Connection"]):
    def __init__(self, connection: Connection):
        self._connection = connection
        self._savepoint: str | None = None

    def __enter__(self):
        if self._connection.in_transaction:
            self._savepoint = _quoted(f"halcyon_{id(self):x}")
            self._connection._run(f"SAVEPOINT {self._savepoint}", None)
        else:
            self._connection._run("BEGIN", None)
        return self._connection

    def __exit__(self, kind, *exc):
        connection, savepoint = self._connection, self._savepoint
        if savepoint is None:
            if kind is None:
                connection.commit()
            else:
                connection.rollback()
            return
        if kind is not None:
            connection._run(f"ROLLBACK TO SAVEPOINT {savepoint}", None)
        connection._run(f"RELEASE SAVEPOINT {savepoint}", None)

    async def __aenter__(self) -> Connection:
        return await self._connection._turns.run(self.__enter__)

    async def __aexit__(self, kind: Any, *exc: Any) -> None:
        await self._connection._turns.run(self.__exit__, kind, *exc)


class Cursor:
    """A cursor: one statement's rows at a time."""

    def __init__(self, connection: Connection):
        self._connection = connection
        self._result: _halcyon.Result | None = None
        self._description: list[tuple[Any, ...]] | None = None
        self._count = -1
        self._closed = False
        self._number: int | None = None
        # Rows that an iteration by asyncio has read ahead.
        self._ahead: list[tuple[Any, ...]] = []
        self.arraysize = 1

    # ------------------------------------------------------------ PEP 249

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """Seven values for each column: name, type (an object id, equal to a type object), None, bytes of a fixed
        width, digits, digits behind the point, None. None without rows."""
        return self._description

    @property
    def rowcount(self) -> int:
        """Number of rows that the last statement wrote; -1 for a query, whose rows are computed as they are read."""
        return self._count

    @property
    def rownumber(self) -> int | None:
        """Number of the next row, from 0; None without rows."""
        return self._number

    @property
    def connection(self) -> Connection:
        """The connection."""
        return self._connection

    @property
    def lastrowid(self) -> None:
        """None: rows have no ids of their own. Use RETURNING."""
        return None

    @property
    def statusmessage(self) -> str | None:
        """The command tag of the last statement."""
        return None if self._result is None else self._result.tag

    def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """Runs a statement, or several without parameters, of which the last one's rows can be fetched.

        Placeholders: ``%s`` with a sequence or ``%(name)s`` with a mapping; ``$1``, ``?``, ``:name`` and ``$name``
        are known, too. A text has one kind of them. Returns the cursor.
        """
        self._begin()
        self._take(self._connection._run(operation, parameters))
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Runs a statement for each of several parameters, all or none. Returns the cursor."""
        self._begin()
        self._count = self._connection._run_many(operation, seq_of_parameters)
        return self

    def callproc(self, procname: str, parameters: Sequence[Any] = ()) -> Sequence[Any]:
        """Calls a function, whose rows can be fetched. Returns the parameters, which functions do not change.

        ``procname``: ``name`` or ``schema.name``, which folds to lower case as in SQL unless it has other characters
        than letters, digits and underscores.
        """
        if isinstance(parameters, (str, bytes, Mapping)):
            raise ProgrammingError("the parameters of callproc are a sequence: (value,)")
        parts = procname.split(".")
        plain = all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part) for part in parts)
        name = procname if plain else _table(procname)
        places = ", ".join(f"${number}" for number in range(1, len(parameters) + 1))
        self.execute(f"SELECT * FROM {name}({places})", list(parameters))
        return parameters

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row as a tuple; None after the last."""
        rows = self._fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, ``arraysize`` of them without a size."""
        return self._fetch(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return self._fetch(None)

    def close(self) -> None:
        """Closes the cursor and ends its statement."""
        self._begin(closing=True)
        self._closed = True

    def setinputsizes(self, sizes: Any) -> None:
        """Does nothing: types follow from the parameters and the statement."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing: values have no limit."""

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    # ------------------------------------------------------------ asyncio

    async def aexecute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """Runs a statement while the loop runs on: see Connection.aexecute. Returns the cursor."""
        return await self._connection._turns.run(self.execute, operation, parameters)

    async def aexecutemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Runs a statement for each of several parameters, all or none. Returns the cursor."""
        return await self._connection._turns.run(self.executemany, operation, seq_of_parameters)

    async def afetchone(self) -> tuple[Any, ...] | None:
        """The next row as a tuple; None after the last."""
        return await self._connection._turns.run(self.fetchone)

    async def afetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, ``arraysize`` of them without a size."""
        return await self._connection._turns.run(self.fetchmany, size)

    async def afetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return await self._connection._turns.run(self.fetchall)

    async def aclose(self) -> None:
        """Closes the cursor and ends its statement."""
        await self._connection._turns.run(self.close)

    def __aiter__(self) -> AsyncIterator[tuple[Any, ...]]:
        return self

    async def __anext__(self) -> tuple[Any, ...]:
        if not self._ahead:
            # One change of threads for many rows.
            self._ahead = await self._connection._turns.run(self._read_ahead)
        if not self._ahead:
            raise StopAsyncIteration
        return self._fetch(1)[0]

    async def __aenter__(self) -> Cursor:
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.aclose()

    # ------------------------------------------------------------ Arrow

    def arrow(self, *, views: bool = False) -> Any:
        """The rows that are left as a pyarrow Table: see Relation.arrow."""
        return arrow_of(self._table(), views)

    def df(self) -> Any:
        """The rows that are left as a pandas DataFrame."""
        return pandas_of(self._table())

    def pl(self) -> Any:
        """The rows that are left as a polars DataFrame."""
        return polars_of(self._table())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows that are left, computed batch by batch as the other library asks for them."""
        self._refuse_ahead()
        return self._rows().__arrow_c_stream__(requested_schema)

    # ------------------------------------------------------------ within the package

    def _begin(self, closing=False):
        if self._closed:
            if closing:
                return
            raise InterfaceError("the cursor is closed")
        if not closing:
            self._connection._require_open()
        if self._result is not None:
            self._result.close()
        self._result = self._description = self._number = None
        self._ahead = []
        self._count = -1

    def _take(self, result):
        self._result = result
        columns = result.columns
        if columns is not None:
            self._number = 0
            self._description = [
                (name, oid, None, length, precision, scale, None)
                for name, oid, _, length, precision, scale in columns
            ]
        if result.count is not None:
            self._count = result.count

    def _rows(self) -> _halcyon.Result:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        if self._description is None or self._result is None:
            raise ProgrammingError("there are no rows: the last statement returned none, or none was run")
        self._connection._require_open()
        return self._result

    def _table(self):
        self._refuse_ahead()
        return self._rows().table()

    def _refuse_ahead(self):
        if self._ahead:
            raise ProgrammingError("`async for` has read rows ahead, which are objects: fetch them first")

    def _read_ahead(self):
        return self._rows().fetch(_AHEAD)

    def _fetch(self, most):
        result = self._rows()
        if self._ahead:
            count = len(self._ahead) if most is None else most
            rows, self._ahead = self._ahead[:count], self._ahead[count:]
            if most is None or len(rows) < most:
                rows += result.fetch(None if most is None else most - len(rows))
        else:
            rows = result.fetch(most)
        self._number += len(rows)
        return rows
