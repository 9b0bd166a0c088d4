"""The journal of the PySyncObj example keeps what PySyncObj's own keeps, and brings it back after a restart."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest
from pysyncobj.journal import MemoryJournal

from flintlog.errors import RefusedError

EXAMPLE = Path(__file__).parents[1] / "examples" / "pysyncobj_journal.py"


@pytest.fixture(scope="module")
def journal_class():
    spec = importlib.util.spec_from_file_location("pysyncobj_journal", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.StoreJournal


def add(journals, count, term):
    for journal in journals:
        for _ in range(count):
            index = journal[-1][1] + 1 if len(journal) else 1
            journal.add(b"command %d" % index, index, term)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(12))
def test_it_holds_what_the_journal_in_memory_holds_after_any_calls(journal_class, tmp_path, seed):
    choice = random.Random(seed)
    ours, theirs = journal_class(str(tmp_path)), MemoryJournal()
    add([ours, theirs], 1, 0)
    for term in range(1, 60):
        what = choice.randrange(6)
        place = choice.randrange(1, len(theirs) + 1)
        if what == 0:
            for journal in (ours, theirs):
                journal.deleteEntriesFrom(place)
        elif what == 1 and len(theirs) > 2:
            for journal in (ours, theirs):
                journal.deleteEntriesTo(min(place, len(journal) - 2))
        elif what == 2 and term % 7 == 0:  # as after receiving a dump: two entries, and the journal goes on
            ahead = theirs[-1][1] + choice.randrange(1, 50)
            for journal in (ours, theirs):
                journal.clear()
                journal.add(b"before the dump", ahead, term)
        elif what == 3:
            ours._destroy()
            ours = journal_class(str(tmp_path))
        else:
            add([ours, theirs], choice.randrange(1, 5), term)
        assert ours[:] == theirs[:]
        assert len(ours) == len(theirs)
    ours._destroy()
    again = journal_class(str(tmp_path))
    assert again[:] == theirs[:]
    again._destroy()


def test_a_dump_at_an_index_that_the_journal_holds_replaces_what_follows(journal_class, tmp_path):
    journal = journal_class(str(tmp_path))
    add([journal], 10, 1)
    journal.clear()
    journal.add(b"five", 5, 1)
    journal.add(b"six", 6, 1)
    assert journal[:] == [(b"five", 5, 1), (b"six", 6, 1)]
    journal._destroy()


def test_a_crash_between_clearing_and_going_on_leaves_a_journal_that_takes_the_dump(journal_class, tmp_path):
    journal = journal_class(str(tmp_path))
    add([journal], 10, 1)
    journal.deleteEntriesTo(5)
    journal.clear()
    journal._destroy()
    journal = journal_class(str(tmp_path))
    assert len(journal) == 0
    journal.add(b"no-op", 1, 0)
    with pytest.raises(RefusedError, match="behind"):
        journal.add(b"would not be on disk", 2, 1)
    journal.clear()
    journal.add(b"twenty", 20, 2)
    journal._destroy()
    journal = journal_class(str(tmp_path))
    assert journal[:] == [(b"twenty", 20, 2)]
    journal._destroy()


def test_term_vote_and_commit_index_come_back(journal_class, tmp_path):
    journal = journal_class(str(tmp_path))
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.getRaftCommitIndex()) == (
        0,
        None,
        1,
    )
    journal.setCurrentTerm(4, None)
    journal.setCurrentTerm(4, "127.0.0.1:1")
    with pytest.raises(RefusedError, match="voted for"):
        journal.setCurrentTerm(4, "127.0.0.1:2")
    for index in range(1, 9):
        journal.add(b"command", index, 4)
    journal.setRaftCommitIndex(7)
    journal.onOneSecondTimer()
    journal._destroy()
    again = journal_class(str(tmp_path))
    assert (again.getCurrentTerm(), again.getVotedForNodeId(), again.getRaftCommitIndex()) == (
        4,
        "127.0.0.1:1",
        7,
    )
    again._destroy()
