"""Replaying the recorded calls writes the bytes of the original, file for file."""

from __future__ import annotations

import gzip

import pytest
from tests.golden_cases import GOLDEN, materialise, snapshot_of
from tests.zmqraft.recorded import GOOD, Replay, digest, operations


@pytest.mark.parametrize("case", GOOD)
def test_the_same_calls_write_the_same_bytes(case, tmp_path):
    made = tmp_path / "made" / "dir"
    Replay(made).run(operations(case))
    for part in ("dir", "dir2"):
        if (GOLDEN / "zmqraft" / case / part).is_dir():
            original = materialise(case, tmp_path, part=part, dialect="zmqraft")
            written = snapshot_of(made.parent / part)
            rolled = {name: written.pop(name) for name in list(written) if name.startswith("raft.pers-")}
            assert written == snapshot_of(original)
            assert_rolled_as_recorded(case, rolled)


def assert_rolled_as_recorded(case, rolled):
    told = next((call for call in operations(case) if "rolledName" in call), None)
    if told is None:
        assert rolled == {}
        return
    ((name, content),) = rolled.items()
    assert (name, len(content), digest(content)) == (
        told["rolledName"],
        told["rolledSize"],
        told["rolledSha256"],
    )
    assert gzip.decompress((GOLDEN / "zmqraft" / case / "rolled.gz").read_bytes()) == content
