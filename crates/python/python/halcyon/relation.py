"""Results for notebooks and for other libraries."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from . import _halcyon
from .errors import NotSupportedError

_SHOWN_ROWS = 20
_SHOWN_WIDTH = 60


def need(module: str, what: str) -> Any:
    """Imports a package that this one does not depend on."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise NotSupportedError(f"{what} needs the package {module.split('.')[0]}: pip install "
                                f"{module.split('.')[0]}") from error


def arrow_of(table: _halcyon.Table, views: bool) -> Any:
    """A pyarrow Table of the engine's table."""
    return need("pyarrow", "arrow()").table(table if views else table.without(calendar=False, views=True))


def pandas_of(table: _halcyon.Table) -> Any:
    """A pandas DataFrame of the engine's table."""
    need("pandas", "df()")
    return need("pyarrow", "df()").table(table.without(calendar=True, views=True)).to_pandas()


def polars_of(table: _halcyon.Table) -> Any:
    """A polars DataFrame of the engine's table."""
    return need("polars", "pl()").DataFrame(table.without(calendar=True, views=False))


class Relation:
    """The rows of a statement, which can be read as often as wanted.

    The statement has run when the relation exists. Its rows are computed by the first use that needs them, and stay
    in memory as Arrow's record batches, which other libraries share: pyarrow, pandas, polars and DuckDB take a relation
    wherever they take an object with ``__arrow_c_stream__``.
    """

    def __init__(self, result: _halcyon.Result):
        self._result = result
        self._table: _halcyon.Table | None = None

    def _all(self) -> _halcyon.Table:
        if self._table is None:
            self._table = self._result.table()
        return self._table

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [column[0] for column in self._result.columns or ()]

    @property
    def types(self) -> list[str]:
        """SQL types of the columns, as SQL spells them."""
        return [column[2] for column in self._result.columns or ()]

    def __len__(self) -> int:
        return len(self._all())

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self), len(self.columns)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples."""
        return self._all().rows()

    def fetchmany(self, size: int, start: int = 0) -> list[tuple[Any, ...]]:
        """Rows as tuples, from the row of a number (from 0) on."""
        return self._all().rows(start, size)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row as a tuple; None without rows."""
        rows = self._all().rows(0, 1)
        return rows[0] if rows else None

    def arrow(self, *, views: bool = False) -> Any:
        """The rows as a pyarrow Table, which shares their memory. Texts and bytes are copied into pyarrow's usual form,
        since much of pyarrow does not take views; with ``views`` they are shared, too."""
        return arrow_of(self._all(), views)

    def df(self) -> Any:
        """The rows as a pandas DataFrame."""
        return pandas_of(self._all())

    def pl(self) -> Any:
        """The rows as a polars DataFrame."""
        return polars_of(self._all())

    to_arrow_table = arrow
    to_df = df

    def __arrow_c_schema__(self) -> Any:
        return self._all().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._all().__arrow_c_stream__(requested_schema)

    def _cells(self):
        rows = self._all().rows(0, _SHOWN_ROWS)
        return [[_shown(value) for value in row] for row in rows]

    def _footer(self):
        count, width = self.shape
        shown = f", {_SHOWN_ROWS} shown" if count > _SHOWN_ROWS else ""
        return f"{count} row{'' if count == 1 else 's'}{shown}, {width} column{'' if width == 1 else 's'}"

    def __repr__(self) -> str:
        cells = self._cells()
        names, types = self.columns, self.types
        lines = [names, types, *cells]
        widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
        numeric = [ty.split("(")[0] in _NUMBERS for ty in types]

        def line(values, fill=" "):
            padded = (value.rjust(width, fill) if right else value.ljust(width, fill)
                      for value, width, right in zip(values, widths, numeric))
            return "│ " + " │ ".join(padded) + " │"

        def rule(left, middle, right):
            return left + middle.join("─" * (width + 2) for width in widths) + right

        if not names:
            return self._footer()
        body = [line(row) for row in cells]
        return "\n".join([rule("┌", "┬", "┐"), line(names), line(types), rule("├", "┼", "┤"), *body,
                          rule("└", "┴", "┘"), self._footer()])

    def show(self) -> None:
        """Prints the first rows."""
        print(self)

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{html.escape(name)}<br><small>{html.escape(ty)}</small></th>"
                        for name, ty in zip(self.columns, self.types))
        body = "".join("<tr>" + "".join(f"<td>{html.escape(value)}</td>" for value in row) + "</tr>"
                       for row in self._cells())
        return (f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
                f"<p>{self._footer()}</p>")


_NUMBERS = {"smallint", "integer", "bigint", "real", "double precision", "numeric"}


def _shown(value):
    if value is None:
        return "NULL"
    text = value if isinstance(value, str) else str(value)
    text = text.replace("\n", "↵")
    return text if len(text) <= _SHOWN_WIDTH else text[: _SHOWN_WIDTH - 1] + "…"
