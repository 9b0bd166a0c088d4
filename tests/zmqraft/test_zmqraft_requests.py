"""Request ids: the newest entry with one is found, whatever was appended, rolled back or pruned meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintlog.dialects.zmqraft.layout import NO_REQUEST, Entry
from flintlog.dialects.zmqraft.store import RaftStore, request_index
from flintlog.dialects.zmqraft.store.request_index import RequestIndex
from flintlog.disk import Disk
from flintlog.errors import UsageError
from flintlog.testing import MemoryKernel

IDS = [NO_REQUEST, *(b"request %04d" % number for number in range(6)), b"\0" * 11 + b"\1", b"\1" + b"\0" * 11]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.sampled_from(IDS), max_size=9)),
        st.tuples(st.just("truncate"), st.integers(0, 12)),
        st.tuples(st.just("snapshot"), st.integers(0, 12)),
        st.tuples(st.just("install"), st.integers(1, 9)),
        st.tuples(st.just("ask"), st.sampled_from(IDS)),
    ),
    max_size=30,
)


def play(store, steps):
    """Runs the steps beside a plain dictionary of index to request id; yields what is asked, found and right."""
    held: dict[int, bytes] = {}
    for name, argument in steps:
        last, first = store.last_index, store.first_index
        if name == "append":
            store.append([Entry(1, b"data", 0, request_id) for request_id in argument])
            held |= {last + 1 + at: request_id for at, request_id in enumerate(argument)}
        elif name == "truncate":
            index = max(last + 1 - argument, first)
            store.truncate(index)
            held = {at: request_id for at, request_id in held.items() if at < index}
        elif name == "snapshot" and last >= first:
            index = max(last - argument, first)
            store.snapshot(index, b"")
            held = {at: request_id for at, request_id in held.items() if at > index}
        elif name == "install":
            store.install_snapshot(last + argument, 2, b"")
            held = {}
        for asked in [argument] if name == "ask" else []:
            right = max((at for at, held_id in held.items() if held_id == asked), default=None)
            yield asked, store.find_request(asked), None if asked == NO_REQUEST else right


@settings(max_examples=300, deadline=None, derandomize=True)
@given(STEPS, st.sampled_from([1, 4, 16]), st.sampled_from([0, 5, 1000]))
def test_what_is_found_is_what_a_dictionary_says(steps, capacity, fingerprints_max):
    steps = [*steps, *(("ask", request_id) for request_id in IDS)]
    with RaftStore("/peer", capacity=capacity, disk=Disk(MemoryKernel())) as store:
        store.log._requests = RequestIndex(fingerprints_max)
        for asked, found, right in play(store, steps):
            assert found == right, asked


def test_ids_that_share_a_fingerprint_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(request_index, "_FACTORS", np.zeros(3, np.uint64))
    with RaftStore(tmp_path, capacity=8) as store:
        store.append([Entry(1, b"", 0, b"request %04d" % (number % 5)) for number in range(20)])
        found = [store.find_request(b"request %04d" % number) for number in range(6)]
        assert found == [16, 17, 18, 19, 20, None]


def test_a_lookup_after_the_first_reads_only_what_came_since(tmp_path):
    class Counting(MemoryKernel):
        read = 0

        def pread(self, handle, size, offset):
            data = super().pread(handle, size, offset)
            self.read += len(data)
            return data

        def map(self, handle, size):
            self.read += size
            return super().map(handle, size)

    kernel = Counting()
    with RaftStore("/peer", capacity=16, disk=Disk(kernel)) as store:
        store.append([Entry(1, bytes(1000), 0, b"request %04d" % number) for number in range(60)])
        assert store.find_request(b"request 9999") is None
        kernel.read = 0
        assert store.find_request(b"request 9999") is None
        assert kernel.read == 0
        store.append([Entry(1, b"small", 0, b"request 9999")])
        assert store.find_request(b"request 9999") == 61
        assert 0 < kernel.read < 100


@pytest.mark.parametrize("request_id", [b"", b"short", b"thirteen byte"])
def test_what_is_no_request_id_is_wrong_usage(request_id, tmp_path):
    with RaftStore(tmp_path) as store, pytest.raises(UsageError, match="12 bytes"):
        store.find_request(request_id)
