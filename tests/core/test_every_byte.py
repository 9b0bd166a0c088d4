"""Without a query every byte of every file that a dialect knows is in exactly one field, also in damaged files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.backup_logs import LOGS
from tests.every_directory import every_directory

from flintlog.core.dialect import detect
from flintlog.core.explained import PIECE_BYTES, UNEXPLAINED
from flintlog.disk import Disk

DISK = Disk()
DIALECTS = ["taskflux", "zmqraft", "mpy6a", "limestone"]


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return every_directory(tmp_path_factory.mktemp("golden"))


def known_files(path):
    """Every file of the directory that is not foreign, by the name that the inventory gives it."""
    found = detect(DISK, path).inspect(DISK, path)
    foreign = {finding.file.rstrip("/") for finding in found.findings if finding.code == "foreign"}
    home = Path(found.path)
    names = [file.relative_to(home).as_posix() for file in home.rglob("*") if file.is_file()]
    inside = [name for name in names if not any((name + "/").startswith(f"{one}/") for one in foreign)]
    listed = [file.name for file in found.files if file.role != "foreign" and (home / file.name).is_file()]
    return {name: (home / name).read_bytes() for name in inside}, listed


def check(path, case):
    """No gap, no overlap, the right bytes, in the order of the inventory. The fields."""
    files, listed = known_files(path)
    fields = list(detect(DISK, path).explain(DISK, path))
    ends = dict.fromkeys(files, 0)
    order = []
    for field in fields:
        if field.file not in order:
            order.append(field.file)
        assert field.file == order[-1], (case, field)
        assert field.offset == ends[field.file], (case, field)
        ends[field.file] += len(field.data)
        assert files[field.file][field.offset : ends[field.file]] == field.data, (case, field)
        assert len(field.data) <= PIECE_BYTES
        assert field.meaning != UNEXPLAINED, (case, field)
    sizes = {name: len(raw) for name, raw in files.items()}
    assert ends == sizes, case
    assert [name for name in order if name in listed] == [name for name in listed if sizes[name]], case
    return fields


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_byte_of_every_golden_directory_is_explained(dialect, directories):
    seen = 0
    for case, path in directories.items():
        if case.startswith(f"{dialect}/"):
            seen += bool(check(path, case))
    assert seen > 10


@pytest.mark.parametrize("dialect", [*DIALECTS, "mpy6a-strict"])
def test_every_byte_of_what_the_stores_write_is_explained(dialect, tmp_path):
    home = tmp_path / "log"
    log = LOGS[dialect](home)
    for _ in range(20):
        log.add()
    log.close()
    fields = check(str(home), dialect)
    assert not [field for field in fields if field.name in ("damage", "torn", "rest", "leftover")]
