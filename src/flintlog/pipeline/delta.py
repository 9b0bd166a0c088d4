"""Parquet files as a transaction of a Delta table, by delta-rs. Its number lets each transaction happen only once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flintlog.errors import UsageError
from flintlog.pipeline.paths import Storage
from flintlog.pipeline.target import Commit, DataFile

if TYPE_CHECKING:
    import pyarrow as pa

_APPLICATION = "flintlog-export"
# The names of S3 options in pyarrow, and in delta-rs.
_OPTIONS = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "region": "AWS_REGION",
}


class Table:
    """A Delta table at a path or an address."""

    def __init__(self, path: str, storage: Storage = ()) -> None:
        try:
            import deltalake
        except ImportError:
            raise UsageError("deltalake is not installed", advice="pip install deltalake") from None
        self._library: Any = deltalake
        self._path = path
        self._options = _options(dict(storage))

    def last_transaction(self) -> int:
        """The number of the last commit that the table has; 0 when it has none, or when there is no table."""
        table = self._library.DeltaTable
        if not table.is_deltatable(self._path, self._options):
            return 0
        return table(self._path, storage_options=self._options).transaction_version(_APPLICATION) or 0

    def commit(self, schema: pa.Schema, made: Commit, *, replace: bool) -> None:
        """Add files in the table's directory; with `replace` they replace all others."""
        from deltalake.transaction import AddAction

        delta = self._library
        table = delta.DeltaTable.create(self._path, schema, mode="ignore", storage_options=self._options)
        adds = [AddAction(part.name, part.size, {}, 0, True, _statistics(part)) for part in made.parts]
        table.create_write_transaction(
            adds,
            mode="overwrite" if replace else "append",
            schema=schema,
            commit_properties=delta.CommitProperties(
                app_transactions=[delta.Transaction(_APPLICATION, made.number)]
            ),
        )


def _options(storage: dict[str, str]) -> dict[str, str] | None:
    """The options of the file system as delta-rs wants them."""
    found = {_OPTIONS[name]: value for name, value in storage.items() if name in _OPTIONS}
    scheme = storage.get("scheme", "https")
    if "endpoint_override" in storage:
        found["AWS_ENDPOINT_URL"] = f"{scheme}://{storage['endpoint_override']}"
    if scheme == "http":
        found["AWS_ALLOW_HTTP"] = "true"
    return found or None


def _statistics(part: DataFile) -> str:
    return f'{{"numRecords": {part.rows}}}'
