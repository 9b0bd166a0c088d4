"""Random histories of a peer against a plain model, with a restart anywhere."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.crash.zmqraft_peer import (
    ROOT,
    Append,
    Applied,
    Install,
    Peer,
    Remember,
    Truncate,
    after,
    opened,
    shown,
)
from tests.independent.views import files_on, peer_in, peer_of

from flintlog.dialects.zmqraft.layout import Entry
from flintlog.disk import Disk
from flintlog.testing import MemoryKernel

DATA = st.binary(max_size=60)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(DATA, min_size=1, max_size=6)),
        st.tuples(st.just("truncate"), st.integers(0, 20)),
        st.tuples(st.just("remember"), st.text(max_size=8)),
        st.tuples(st.just("applied"), st.integers(0, 99)),
        st.tuples(st.just("snapshot"), st.integers(0, 20)),
        st.tuples(st.just("receive"), st.integers(-3, 12)),
        st.tuples(st.just("restart"), st.none()),
    ),
    max_size=25,
)


class Life:
    """One peer and what it should hold."""

    def __init__(self, capacity, data_size_max):
        self.disk = Disk(MemoryKernel())
        self.options = {"capacity": capacity, "data_size_max": data_size_max}
        self.store = opened(self.disk, **self.options)
        self.peer = Peer()

    def took(self, *steps):
        for step in steps:
            self.peer = after(self.peer, step)

    def append(self, datas):
        term = max(self.peer.term, 1)
        self.store.append([Entry(term, data) for data in datas])
        self.took(*(Append(term, data) for data in datas))

    def truncate(self, back):
        index = max(self.peer.last + 1 - back, self.peer.snapshot[0] + 1)
        self.store.truncate(index)
        self.took(Truncate(index))

    def remember(self, vote):
        term = self.peer.term + 1
        self.store.set_hard_state(term=term, vote=vote)
        self.took(Remember(term, vote))

    def applied(self, index):
        index = min(index, self.peer.last)
        self.store.set_hard_state(applied=index)
        self.took(Applied(index))

    def snapshot(self, back):
        index = max(self.peer.last - back, self.peer.snapshot[0])
        term = self.store.term_of(index)
        self.store.snapshot(index, b"state at %d" % index)
        self.took(Install(index, term, b"state at %d" % index))

    def receive(self, ahead):
        index = max(self.peer.last + ahead, self.peer.snapshot[0])
        term = self.peer.term + 5
        self.store.install_snapshot(index, term, b"from afar")
        self.took(Install(index, term, b"from afar"))

    def restart(self, _):
        before = peer_of(self.store)
        self.store.close()
        assert peer_in(files_on(self.disk, ROOT)) == before
        self.store = opened(self.disk, **self.options)
        assert peer_in(files_on(self.disk, ROOT)) == before


def test_a_peer_holds_what_a_plain_model_holds(part):
    @settings(max_examples=300 // part(4)[1], deadline=None, derandomize=True)
    @given(STEPS, st.sampled_from([1, 2, 4, 16]), st.sampled_from([90, 200, 1 << 20]))
    def run(steps, capacity, data_size_max):
        life = Life(capacity, data_size_max)
        for name, argument in steps:
            getattr(life, name)(argument)
            assert shown(life.store) == life.peer
        assert peer_in(files_on(life.disk, ROOT)) == peer_of(life.store)
        life.restart(None)
        assert shown(life.store) == life.peer
        assert life.store.last_index == life.peer.last
        life.store.close()

    run()
