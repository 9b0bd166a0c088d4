"""Small things that an operator types or sees: keys as they are shown, nothing at all, a reader that has gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from flintlog import Datastore, QueueStore, SessionStore, Topic


@pytest.fixture
def keys(tmp_path):
    with Datastore(tmp_path / "keys", snapshot=False) as store:
        with store.channel().session() as session:
            for key in (b"ada", b"abcd", b"\xab\xcd", b"\xff\x00"):
                session.put(1, key, key)
        store.switch_epoch()
    return tmp_path / "keys"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ada", ["616461"]),
        ('"ada"', ["616461"]),
        ("616461", ["616461"]),
        ("ff00", ["ff00"]),
        ("abcd", ["61626364", "abcd"]),  # can be both
        ("nobody", []),
    ],
)
def test_a_key_is_typed_as_it_is_shown(text, found, keys, typed):
    status, out, _ = typed("dump", keys, "--key", text, "--json")
    assert (status, [json.loads(line)["key"] for line in out.splitlines()]) == (0, found)


def test_the_key_of_a_record_is_a_number_or_what_is_shown(tmp_path, typed):
    with QueueStore(tmp_path / "queues") as store:
        for key in (-2, 10, 16):
            store.queue().add(b"x", key)
    for text, found in (
        ("-2", [-2]),
        ("fffffffffffffffe", [-2]),
        ("0000000000000010", [10, 16]),
        ("16", [16]),
    ):
        out = typed("dump", tmp_path / "queues", f"--key={text}", "--json")[1]
        assert [json.loads(line)["taskflux"]["key"] for line in out.splitlines()] == found


def test_the_id_of_a_session_is_two_numbers_or_what_is_shown(tmp_path, typed):
    with SessionStore(tmp_path / "waiting", topics=[Topic(1, delay=60)]) as store:
        store.put(1, b"x", now=1_700_000_000)
    rows = [json.loads(line) for line in typed("dump", tmp_path / "waiting", "--json")[1].splitlines()]
    (shown,) = {row["key"] for row in rows if row["operation"] == "session"}
    (session,) = [row for row in rows if row["operation"] == "session"]
    number = f"{session['mpy6a']['term']},{session['mpy6a']['index']}"
    assert typed("dump", tmp_path / "waiting", "--key", shown)[1]
    assert typed("dump", tmp_path / "waiting", "--key", shown) == typed(
        "dump", tmp_path / "waiting", "--key", number
    )


def test_where_nothing_is_shown_a_word_says_so_but_not_to_a_program(keys, typed):
    assert typed("dump", keys, "--key", "nobody") == (0, "", "flintlog: no entry matches\n")
    assert typed("dump", keys, "--key", "nobody", "--json") == (0, "", "")
    status, _, talk = typed("dump", keys, "--from", "5", "--to", "4")
    assert (status, "--from is behind --to" in talk) == (2, True)


def test_an_undo_without_a_repair_has_no_name_to_show(keys, typed):
    status, out, _ = typed("repair", keys, "--undo", "--json")
    assert (status, json.loads(out)["facts"]) == (3, {})


def test_nothing_was_changed_is_said_once(keys, tmp_path, typed):
    with (keys / "pwal_0000").open("r+b") as file:
        file.seek(9)
        file.write(b"\x7f")
    for words in (("backup", keys, tmp_path / "place"), ("export", keys, tmp_path / "lake")):
        status, _, talk = typed(*words)
        assert (status, talk.count("othing was changed")) == (3, 1), talk


def test_without_java_spark_is_refused_in_one_line(keys, tmp_path):
    """In a process of its own: this one may have a Spark session by now."""
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_GATEWAY_PORT"}
    done = subprocess.run(
        [sys.executable, "-m", "flintlog.cli.main", "verify", str(keys), "--engine", "spark"],
        env={**environment, "JAVA_HOME": "/nonexistent"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    talk = done.stderr
    assert (done.returncode, talk.count("\n"), "there is no Java" in talk) == (3, 1, True), talk
