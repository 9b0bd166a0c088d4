"""Directories of sessions: Spark says what the engine says, also of numbers that need 64 bits."""

from __future__ import annotations

import pytest
from tests.mpy6a.damaged import SECOND, but, in_record, logged, noted
from tests.mpy6a.recorded import WHOLE, lay_out
from tests.pipeline.in_process import details_in_process, entries_in_process, rows, state_in_process

from flintlog.core.dialect import EntryQuery

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    home = tmp_path_factory.mktemp("sessions")
    found = {name: str(lay_out(name, home)) for name in WHOLE}
    for name, make in (("note", noted), ("operations", logged)):
        make(home / name)
        found[name] = str(home / name)
    return found


@pytest.mark.parametrize("view", ["entries", "state"])
def test_both_views_of_every_directory_are_those_of_the_engine(load, directories, view):
    in_process = details_in_process if view == "entries" else state_in_process
    options = {"details": "true"} if view == "entries" else {}
    found = rows(load(*directories.values(), view=view, **options))
    for path in directories.values():
        assert [row for row in found if row["source"] == path] == in_process(path), path
    assert len(found) > 30


def test_numbers_of_64_bits_arrive_whole(load, directories):
    found = load(directories["s1_multi_delay"], view="state").where("id[0] = 18446744073709551615").collect()
    ((id_, attempts),) = [(row.id, row.attempts) for row in found]
    assert [*map(int, id_), int(attempts)] == [2**64 - 1] * 3


def test_a_range_and_an_earlier_state_are_those_of_the_engine(load, directories):
    path = directories["operations"]
    found = rows(load(path, **{"from": "1,28", "to": "1,29"}))
    assert found == entries_in_process(path, EntryQuery(first=(1, 28), last=(1, 29)))
    assert [row["operation"] for row in found] == ["new", "append"]
    assert rows(load(path, view="state", as_of="1,20")) == state_in_process(path, (1, 20))


def test_a_filter_on_the_position_holds_beside_a_range_of_two_parts(load, directories):
    path = directories["operations"]
    options = {"from": "1,20", "to": "1,30"}
    found = rows(load(path, **options, where="position >= 28 AND operation <> 'session'"))
    assert [(row["position"], row["operation"]) for row in found] == [
        (28, "new"),
        (29, "append"),
        (30, "finish"),
    ]
    assert [row["operation"] for row in rows(load(path, where="position = 28"))] == ["new"]


def test_damage_names_the_directory_and_the_place(load, tmp_path):
    root = tmp_path / "root"
    but(noted, in_record(SECOND, 1, 8, bytes(8)))(root)
    for options in ({}, {"view": "state"}):
        with pytest.raises(Exception, match="byte 37: the session's term is 0") as caught:
            load(root, **options).collect()
        assert str(root) in str(caught.value)
