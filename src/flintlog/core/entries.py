"""The one schema in which every dialect shows its entries: to `dump`, to Spark, to exports.

| column | meaning |
|---|---|
| dialect | `taskflux`, `zmqraft`, `mpy6a`, `limestone` |
| file | name of the file inside the log directory |
| offset, length | where the entry's bytes stand in that file, header and padding included |
| term | the Raft term, where the dialect has one |
| position | LSN, index or epoch: what orders the log |
| operation | what the entry does, in the dialect's words |
| stream | what it does it to: queue, topic, storage |
| key | the key as its bytes on disk |
| payload | the payload, or null when it was not asked for |

Behind these stands one struct column named like the dialect, with the dialect's own fields.
"""

from __future__ import annotations

import pyarrow as pa

COMMON_FIELDS: tuple[pa.Field, ...] = (
    pa.field("dialect", pa.string(), nullable=False),
    pa.field("file", pa.string(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("length", pa.int64(), nullable=False),
    pa.field("term", pa.int64()),
    pa.field("position", pa.int64(), nullable=False),
    pa.field("operation", pa.string(), nullable=False),
    pa.field("stream", pa.string()),
    pa.field("key", pa.binary()),
    pa.field("payload", pa.binary()),
)


def entry_schema(dialect: str, own: pa.StructType) -> pa.Schema:
    """The common columns and the dialect's own struct."""
    return pa.schema([*COMMON_FIELDS, pa.field(dialect, own)])
