"""Exceptions of PEP 249, with what PostgreSQL's drivers tell of an error."""

from typing import Optional

__all__ = [
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "QueryCanceled",
    "Warning",
]


class Warning(Exception):  # noqa: A001 (PEP 249 names it)
    """Something that the database only warns of."""


class Error(Exception):
    """Any error of the database or of this package.

    ``sqlstate`` is the five characters that programs decide by, None if the error is the package's own; ``detail``,
    ``hint``, ``position`` (a character of the statement, from 1), ``context``, ``table``, ``column`` and ``constraint``
    are None where the database says nothing.
    """

    sqlstate: Optional[str] = None
    message: str = ""
    detail: Optional[str] = None
    hint: Optional[str] = None
    position: Optional[int] = None
    context: Optional[str] = None
    table: Optional[str] = None
    column: Optional[str] = None
    constraint: Optional[str] = None


class InterfaceError(Error):
    """This package was used in a wrong way, as a cursor that is closed."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value: out of range, malformed, division by zero."""


class OperationalError(DatabaseError):
    """The database's operation: a lock, memory, the disk, a file, a cancelled statement."""


class QueryCanceled(OperationalError):
    """The statement was cancelled, or its time was over (57014)."""


class IntegrityError(DatabaseError):
    """A constraint was violated."""


class InternalError(DatabaseError):
    """A transaction in a wrong state, or a defect of the database."""


class ProgrammingError(DatabaseError):
    """The statement: its syntax, a name that does not exist, a type that does not fit, a right that is missing."""


class NotSupportedError(DatabaseError):
    """The database does not offer it."""


# By the first two characters of the SQLSTATE, as PostgreSQL's drivers have it.
_CLASSES = {
    "02": ProgrammingError,
    "07": ProgrammingError,
    "08": OperationalError,
    "0A": NotSupportedError,
    "20": ProgrammingError,
    "21": ProgrammingError,
    "22": DataError,
    "23": IntegrityError,
    "24": InternalError,
    "25": InternalError,
    "26": ProgrammingError,
    "28": OperationalError,
    "2D": InternalError,
    "34": OperationalError,
    "3D": ProgrammingError,
    "3F": ProgrammingError,
    "40": OperationalError,
    "42": ProgrammingError,
    "44": IntegrityError,
    "53": OperationalError,
    "54": OperationalError,
    "55": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
    "XX": InternalError,
}


def of_fields(sqlstate, message, detail, hint, position, context, table, column, constraint):
    """The exception for an error of the engine, which calls this."""
    kind = QueryCanceled if sqlstate == "57014" else _CLASSES.get(sqlstate[:2], DatabaseError)
    if sqlstate == "08P01":
        # The number of parameters.
        kind = ProgrammingError
    if sqlstate == "55000" and message.endswith(" is closed"):
        kind = InterfaceError
    lines = [message]
    if detail:
        lines.append(f"DETAIL:  {detail}")
    if hint:
        lines.append(f"HINT:  {hint}")
    error = kind("\n".join(lines))
    error.sqlstate = sqlstate
    error.message = message
    error.detail = detail
    error.hint = hint
    error.position = position
    error.context = context
    error.table = table
    error.column = column
    error.constraint = constraint
    return error


def out_of_range(text, type_name):
    """The exception for a value that Python's datetime has no object for; the engine calls this."""
    return of_fields(
        "22008", f"{type_name} {text} has no object in Python's datetime", None,
        "Read it as text (CAST(… AS TEXT)), or the result as Arrow.", None, None, None, None, None,
    )


def cannot_adapt(value):
    """The exception for a parameter of a class that no type of SQL is for; the engine calls this."""
    error = ProgrammingError(f"a parameter cannot be a {type(value).__name__}")
    error.message = str(error)
    return error
