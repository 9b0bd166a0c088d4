"""Every file of a directory spoiled in every way: verify, reading, opening and repair say the same of it.

*clean* and *repairable* give the state as it was. *corrupt* is refused by every reader. A repair leads to a directory
that is clean and opens, invents nothing, names what it gives up, and can be taken back to the byte.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.golden_cases import snapshot_of
from tests.limestone.spoiled import State, laid_out, spoilings

from flintlog.core.log import Log
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.store import Datastore
from flintlog.disk import Disk
from flintlog.errors import FlintlogError

LOG = r"pwal_000\d(\.\d+\.\d)?"
# What the format cannot see (docs/formats/limestone.md): the end of a log, a whole log, which of two logs this is, and
# whether a rotated log that is compacted is the one that had the name.
UNSEEN = re.compile(
    rf"{LOG} (emptied|zeroed|halved|removed|copied over {LOG})"
    r"|cmpct_\d+ copied over (cmpct_\d+|pwal_000\d\.\d+\.\d)"
)


def state(path: Path) -> State | str:
    try:
        rows = [row for batch in Log(DIALECT, Disk(), str(path)).state() for row in batch.to_pylist()]
    except FlintlogError as error:
        return error.code
    return {(int(row["storage_id"]), row["key"]): row["value"] for row in rows}


def opened(path: Path) -> State | str:
    try:
        with Datastore(path) as store:
            return {(entry.storage, entry.key): entry.value for entry in store.snapshot.scan()}
    except FlintlogError as error:
        return error.code


def verified(path: Path) -> tuple[str, set[str]]:
    seen = Log(DIALECT, Disk(), str(path)).verify()
    return seen.verdict, {item.code for item in seen.findings if item.severity != "note"}


def files_of(path: Path) -> dict[str, bytes]:
    found = snapshot_of(path).items()
    return {name: raw for name, raw in found if raw is not None and not name.startswith("kept/")}


def written() -> set[tuple[tuple[int, bytes], bytes]]:
    """Everything that was ever put."""
    keys = {((which, b"key %d" % number), b"x" * 40) for which in (0, 1) for number in range(6)}
    last = {((which, b"last"), b"%d" % number) for which in (0, 1) for number in range(6)}
    return keys | last | {((which, b"old"), b"1") for which in (0, 1)}


def agreed(root: Path, truth: State, other: Path) -> str | None:
    """What is wrong with what the verbs say of a directory; `other` is a place for a copy."""
    shutil.copytree(root, other)
    verdict, codes = verified(root)
    seen = state(root), opened(other)
    if verdict in ("clean", "repairable") and "epoch-missing" not in codes and seen != (truth, truth):
        return f"{verdict}, and the state is another one: {seen}"
    refused = all(isinstance(each, str) for each in seen)
    if verdict in ("corrupt", "unsupported") and codes != {"blob-missing"} and not refused:
        return f"{verdict}, and it opens: {seen}"
    return repaired(root, truth)


def repaired(root: Path, truth: State) -> str | None:
    """What is wrong with what repair does to a directory."""
    plan = Log(DIALECT, Disk(), str(root)).plan_repair()
    if plan.refusal is not None or not plan.steps:
        return None
    before = files_of(root)
    plan.apply()
    verdict, codes = verified(root)
    seen = state(root)
    if verdict != "clean" and codes != {"blob-missing"}:
        return f"not repaired: {verdict}, {codes}"
    if isinstance(seen, str) or not set(seen.items()) <= written():
        return f"repaired to {seen}"
    if seen != truth and not plan.lost:
        return f"a loss that is not named: {seen}"
    Log(DIALECT, Disk(), str(root)).plan_undo().apply()
    return None if files_of(root) == before else "the undo leaves other bytes"


@pytest.mark.long
@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_the_verbs_agree_on_every_spoiled_file(edition, tmp_path):
    source = tmp_path / "source"
    truth = laid_out(source, edition)
    wrong, count = {}, 0
    for name, act in spoilings(source):
        if UNSEEN.fullmatch(name):
            continue
        root = tmp_path / "log"
        shutil.copytree(source, root)
        act(root)
        count += 1
        if (fault := agreed(root, truth, tmp_path / "other")) is not None:
            wrong[name] = fault
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / "other")
    assert wrong == {}
    assert count > 150
