"""What the property tests feed: values of the fields of a table."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from flintlog.core.fields import UINT64_MAX, Field, Table

DATA = st.binary(max_size=200)


def values(table: Table, given: Mapping[str, st.SearchStrategy]) -> st.SearchStrategy:
    """What a table makes of any values; `given` has those of some fields, by name."""
    chosen = [given[field.name] if field.name in given else any_value(field) for field in table.asked]
    return st.tuples(*chosen) if table.make is None else st.builds(table.make, *chosen)


def any_value(field: Field) -> st.SearchStrategy:
    if field.kind == "uvarint":
        return st.integers(0, UINT64_MAX)
    if field.size is None:
        return DATA
    if field.is_bytes:
        return st.binary(min_size=field.size, max_size=field.size)
    bits = 8 * field.size
    return (
        st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        if field.kind[0] == "i"
        else st.integers(0, (1 << bits) - 1)
    )
