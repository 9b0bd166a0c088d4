"""Parquet files as a transaction of a Delta table, by delta-rs. A number makes each transaction happen once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flintlog.errors import UsageError
from flintlog.pipeline.target import Commit, DataFile

if TYPE_CHECKING:
    import pyarrow as pa

_APPLICATION = "flintlog-export"


def _library() -> Any:
    try:
        import deltalake
    except ImportError:
        raise UsageError("deltalake is not installed", advice="pip install deltalake") from None
    return deltalake


def last_transaction(path: str) -> int:
    """The number of the last commit that the table has; 0 when it has none, or when there is no table."""
    delta = _library()
    if not delta.DeltaTable.is_deltatable(path):
        return 0
    return delta.DeltaTable(path).transaction_version(_APPLICATION) or 0


def commit(path: str, schema: pa.Schema, made: Commit, *, replace: bool) -> None:
    """Add files that lie in the table's directory; with `replace` they take the place of all others."""
    delta = _library()
    from deltalake.transaction import AddAction

    table = delta.DeltaTable.create(path, schema, mode="ignore")
    adds = [AddAction(part.name, part.size, {}, 0, True, _statistics(part)) for part in made.parts]
    table.create_write_transaction(
        adds,
        mode="overwrite" if replace else "append",
        schema=schema,
        commit_properties=delta.CommitProperties(
            app_transactions=[delta.Transaction(_APPLICATION, made.number)]
        ),
    )


def _statistics(part: DataFile) -> str:
    return f'{{"numRecords": {part.rows}}}'
