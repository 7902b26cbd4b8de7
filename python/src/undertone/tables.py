"""Results as tables: rows of named columns, for pandas, Arrow and notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .rest.types import Unset

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from .rest.models import Dataset, Measurement

__all__ = ["Table"]


class Table(Sequence[Mapping[str, Any]]):
    """Rows with the same columns, in order. A row is a mapping from column to value; an absent value is `None`."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            if len(row) != len(columns):
                raise ValueError(f"a row has {len(row)} values for {len(columns)} columns")
        self.columns = tuple(columns)
        self._rows = [tuple(None if isinstance(value, Unset) else value for value in row) for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Table(self.columns, self._rows[index])
        return dict(zip(self.columns, self._rows[index], strict=True))

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self._rows)

    def column(self, name: str) -> list[Any]:
        """Returns the values of a column.

        Raises:
            KeyError: There is no such column.
        """
        if name not in self.columns:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(self.columns)}")
        position = self.columns.index(name)
        return [row[position] for row in self._rows]

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a `pandas.DataFrame`; needs `pip install "undertone[pandas]"`."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError('to_pandas needs pandas: pip install "undertone[pandas]"') from error
        return pandas.DataFrame(self._rows, columns=list(self.columns))

    def to_arrow(self) -> pyarrow.Table:
        """Returns a `pyarrow.Table`; needs `pip install "undertone[arrow]"`."""
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError('to_arrow needs pyarrow: pip install "undertone[arrow]"') from error
        return pyarrow.table({name: self.column(name) for name in self.columns})

    def __str__(self) -> str:
        lines = [self.columns, *([format_value(value) for value in row] for row in self._rows)]
        widths = [max(len(line[position]) for line in lines) for position in range(len(self.columns))]
        return "\n".join("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(format_value(value))}</td>" for value in row) + "</tr>" for row in self._rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def format_value(value: Any) -> str:
    """Returns a value as text for display: four significant digits, a dash for an absent one."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def tabulate_measurements(measurements: Sequence[Measurement]) -> Table:
    """Returns measurements on public test sets, oldest first."""
    columns = ("series", "round", "test", "frames", "accuracy", "loss")
    return Table(columns, [(one.series, one.round_, one.test, one.frames, one.accuracy, one.loss) for one in measurements])


def tabulate_budgets(datasets: Sequence[Dataset]) -> Table:
    """Returns the lifetime accounts of datasets. Each epsilon holds at the delta of its row."""
    columns = ("dataset", "unit", "adjacency", "limit", "delta", "spent", "committed")
    rows = [
        (dataset.name, str(account.unit), str(account.adjacency), account.epsilon, account.delta, account.spent, account.committed)
        for dataset in datasets
        for account in dataset.accounts
    ]
    return Table(columns, rows)
