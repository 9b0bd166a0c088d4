"""Ctrl-C, once and twice, in a transaction that is final and in one that is not."""

from __future__ import annotations

import signal

import pytest

from flintlog.disk import FINISHED, NOTHING_CHANGED, WHOLE, Disk, transaction


def press() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    return tmp_path


def write(disk: Disk, path) -> None:
    disk.publish(str(path), [b"new"], scratch=f"{path.parent}/scratch.new")


def test_before_it_is_final_it_is_taken_back(place):
    with pytest.raises(KeyboardInterrupt, match=NOTHING_CHANGED), transaction(Disk()) as disk:
        write(disk, place / "first")
        press()
    assert [path.name for path in place.iterdir()] == ["old"]


def test_when_it_is_final_it_is_finished(place):
    with pytest.raises(KeyboardInterrupt, match=FINISHED), transaction(Disk()) as disk:
        write(disk, place / "old")
        press()
        write(disk, place / "second")
    assert (place / "second").read_bytes() == (place / "old").read_bytes() == b"new"


def test_the_second_one_stops_at_once(place):
    with pytest.raises(KeyboardInterrupt, match=WHOLE), transaction(Disk()) as disk:
        write(disk, place / "old")
        press()
        press()
        write(disk, place / "second")
    assert not (place / "second").exists()


def test_the_way_back_is_not_interrupted(place, monkeypatch):
    unlink = Disk.unlink
    monkeypatch.setattr(Disk, "unlink", lambda disk, path: (press(), unlink(disk, path)))
    with pytest.raises(KeyboardInterrupt, match=NOTHING_CHANGED), transaction(Disk()) as disk:
        write(disk, place / "first")
        press()
    assert [path.name for path in place.iterdir()] == ["old"]


def test_who_ignores_the_signal_is_not_interrupted(place):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with transaction(Disk()) as disk:
            write(disk, place / "old")
            press()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_afterwards_the_signal_means_what_it_meant():
    before = signal.getsignal(signal.SIGINT)
    with transaction(Disk()):
        pass
    assert signal.getsignal(signal.SIGINT) == before
