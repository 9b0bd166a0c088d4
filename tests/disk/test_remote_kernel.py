"""Remote files: read through the same door, in ranges, with errors that name the address; never written."""

from __future__ import annotations

import errno

import pytest
from pyarrow import fs
from tests.core.test_entry_splits import keys, peer, queues, sessions

from flintlog.core.dialect import EntryQuery, detect
from flintlog.core.entries import plan_entries, read_entries
from flintlog.core.log import Log
from flintlog.disk import Disk
from flintlog.disk.remote import RemoteKernel
from flintlog.errors import DiskError, FlintlogError, NotALogError, UsageError
from flintlog.pipeline.paths import expand, local_path, locate


class Counting(RemoteKernel):
    """Counts the bytes that are fetched."""

    fetched = 0

    def pread(self, handle, size, offset):
        data = super().pread(handle, size, offset)
        self.fetched += len(data)
        return data


@pytest.fixture
def kernel():
    return Counting(fs.LocalFileSystem(), "far:/")


def test_files_are_read_and_names_are_listed(tmp_path, kernel):
    (tmp_path / "inner").mkdir()
    (tmp_path / "one").write_bytes(bytes(range(200)))
    disk, root = Disk(kernel), f"far:/{tmp_path}"
    assert disk.list(root) == ["inner", "one"]
    assert (disk.stat(f"{root}/one").size, disk.is_directory(f"{root}/inner")) == (200, True)
    assert disk.stat(f"{root}/two") is None
    assert disk.list(f"{root}/none") == []
    with disk.open(f"{root}/one") as file:
        assert file.pread(10, 195) == bytes(range(195, 200))
        assert (file.pread(5, 500), file.size()) == (b"", 200)
        assert bytes(file.view()) == bytes(range(200))
        part = file.view(begin=50, end=60)
        assert (len(part), bytes(part[50:60]), part.readonly) == (200, bytes(range(50, 60)), True)
        assert bytes(part[:50]) == bytes(50)


def test_errors_name_the_address_and_nothing_is_written(tmp_path, kernel):
    disk, root = Disk(kernel), f"far:/{tmp_path}"
    with pytest.raises(DiskError, match=f"far:/{tmp_path}/none: open failed") as caught:
        disk.open(f"{root}/none")
    assert caught.value.errno == errno.ENOENT
    (tmp_path / "one").touch()
    for attempt in (
        lambda: disk.open(f"{root}/one", "write"),
        lambda: disk.open(f"{root}/new", "create"),
        lambda: disk.make_directory(f"{root}/inner"),
        lambda: disk.unlink(f"{root}/one"),
        lambda: disk.rename(f"{root}/one", f"{root}/two"),
        lambda: disk.link(f"{root}/one", f"{root}/two"),
    ):
        with pytest.raises(DiskError, match="a remote file system is only read") as caught:
            attempt()
        assert caught.value.errno == errno.EROFS
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("make", [queues, peer, sessions, keys])
def test_a_piece_of_a_remote_file_fetches_no_more_than_it_needs(make, tmp_path, kernel):
    make(tmp_path)
    remote, path = Disk(kernel), f"far:/{tmp_path}"
    query = EntryQuery(split_bytes=40_000)
    spoken = detect(remote, path)
    local = [
        batch.to_pylist()
        for split in Log(spoken, Disk(), str(tmp_path)).splits(query)
        for batch in Log(spoken, Disk(), str(tmp_path)).read_split(split, query)
    ]
    splits = plan_entries(Log(spoken, remote, path), query)
    largest = max(
        (split.file for split in splits), key=lambda name: sum(split.file == name for split in splits)
    )
    pieces = [split for split in splits if split.file == largest]
    head = pieces[0].end + (1 << 16) if make is peer else 0  # the offset table of an index file
    found = []
    for split in splits:
        kernel.fetched = 0
        found += [batch.to_pylist() for batch in read_entries(Log(spoken, remote, path), split, query)]
        if split in pieces[1:-1]:
            assert kernel.fetched < split.end - split.start + head + 10_000
    assert found == local
    assert len(pieces) > 8


@pytest.mark.parametrize("make", [queues, peer, sessions, keys])
def test_state_and_findings_of_a_remote_directory_are_those_of_a_local_one(make, tmp_path, kernel):
    make(tmp_path)
    remote, path = Disk(kernel), f"far:/{tmp_path}"
    spoken = detect(remote, path)
    for disk, place in ((remote, path),):
        states = [batch.to_pylist() for batch in Log(spoken, disk, place).state()]
        assert states == [batch.to_pylist() for batch in Log(spoken, Disk(), str(tmp_path)).state()]
        assert Log(spoken, disk, place).inspect().files == Log(spoken, Disk(), str(tmp_path)).inspect().files


# Addresses


def test_an_address_of_fsspec_is_opened_and_matched(tmp_path):
    import fsspec

    memory = fsspec.filesystem("memory")
    queues(tmp_path)
    for name in ("replica-1", "replica-2", "other"):
        memory.put(f"{tmp_path}/data", f"/logs/{name}/data", recursive=True)
    found = expand(["memory://logs/replica-*"])
    assert found == {"memory://logs/replica-1": True, "memory://logs/replica-2": True}
    for address in found:
        disk, path = locate(address)
        assert detect(disk, path).name == "taskflux"
    with pytest.raises(NotALogError, match=r"memory://logs/none-\*: no directory has such a name"):
        expand(["memory://logs/none-*"])


def test_a_server_that_does_not_answer_is_told_with_the_address():
    storage = {
        "endpoint_override": "127.0.0.1:9",
        "scheme": "http",
        "access_key": "test",
        "secret_key": "test",
        "region": "us-east-1",
    }
    disk, path = locate("s3://bucket/log", tuple(storage.items()))
    with pytest.raises(DiskError, match=r"^s3://bucket/log: stat failed: .*Could not connect") as caught:
        detect(disk, path)
    assert "Check the address, the network and the credentials" in str(caught.value)


def test_what_cannot_be_opened_is_told():
    with pytest.raises(UsageError, match="Protocol not known: nosuch"):
        locate("nosuch://host/log")
    with pytest.raises(FlintlogError, match=r"s3://bucket cannot be opened: .*regiun"):
        locate("s3://bucket/log", (("regiun", "x"),))
    with pytest.raises(UsageError, match="'s3://bucket/log' is not a local directory"):
        local_path("s3://bucket/log")
