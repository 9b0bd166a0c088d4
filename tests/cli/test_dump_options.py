"""`dump` from the end, by the dialects' own words, and with decoded payloads."""

from __future__ import annotations

import json
import sys

import msgpack
import pytest
from tests.every_directory import every_directory

from flintlog import QueueStore
from flintlog.cli import dump as module
from flintlog.cli.main import main
from flintlog.core.log import Log


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return every_directory(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def typed(capsys):
    def run(*words):
        capsys.readouterr()
        status = main([*map(str, words)])
        captured = capsys.readouterr()
        return status, [json.loads(line) for line in captured.out.splitlines()], captured.err

    return run


@pytest.fixture
def queues(tmp_path):
    with QueueStore(tmp_path / "log", soft_limit=300, hard_limit=600, snapshot_threshold=99) as store:
        store.create("orders")
        for number in range(30):
            store.queue("orders").add(json.dumps({"n": number}).encode(), number)
        store.queue().add(msgpack.packb({b"k": [1, None]}), 1)
        store.queue().add(b"\xff\xfe", 1)
    return tmp_path / "log"


@pytest.mark.parametrize("dialect", ["taskflux", "zmqraft", "mpy6a", "limestone"])
def test_backwards_is_forwards_turned_round(dialect, directories, typed):
    seen = 0
    for case, path in directories.items():
        if not case.startswith(dialect):
            continue
        status, forwards, _ = typed("dump", path, "--json", "--no-payload")
        if status or not forwards:
            continue
        assert typed("dump", path, "--json", "--no-payload", "--reverse")[1] == forwards[::-1], case
        assert (
            typed("dump", path, "--json", "--no-payload", "--reverse", "--limit", 2)[1] == forwards[::-1][:2]
        )
        seen += 1
        if seen == 5:
            break
    assert seen == 5


def test_the_last_entries_are_found_without_reading_the_others(queues, typed, monkeypatch):
    read = []
    whole = Log.read_split

    def spy(self, split, query):
        read.append(split)
        return whole(self, split, query)

    monkeypatch.setattr(Log, "read_split", spy)
    monkeypatch.setattr(module, "REVERSE_SPLIT_BYTES", 200)
    status, [last], _ = typed("dump", queues, "--json", "--reverse", "--limit", 1)
    assert (status, last["payload"]) == (0, "fffe")
    assert len(read) == 1
    assert typed("dump", queues, "--json", "--limit", 100)[0] == 0
    assert len(read) > 3


def test_streams_go_by_the_names_of_the_dialects(queues, typed):
    rows = typed("dump", queues, "--json", "--stream", "orders")[1]
    assert len(rows) == 31
    for word in ("--queue", "--stream"):
        assert typed("dump", queues, "--json", word, "orders")[1] == rows
    added = typed("dump", queues, "--json", "--queue", "orders", "--kind", rows[-1]["operation"])[1]
    assert added == rows[1:]


def test_payloads_are_decoded_and_what_cannot_be_is_counted(queues, typed):
    def decoded(name, queue):
        status, rows, talk = typed(
            "dump", queues, "--json", "--decode", name, "--queue", queue, "--kind", "add"
        )
        assert status == 0
        return [row["decoded"] for row in rows], talk

    assert decoded("json", "orders") == ([{"n": number} for number in range(30)], "")
    assert decoded("text", "orders")[0][3] == '{"n": 3}'
    assert decoded("hex", "") == ([msgpack.packb({b"k": [1, None]}).hex(), "fffe"], "")
    values, talk = decoded("msgpack", "")
    assert values[0] == {"b'k'": [1, None]}
    assert "1 payloads are not msgpack" in talk


def test_a_package_brings_its_own_decoder(queues, typed, tmp_path, monkeypatch):
    site = tmp_path / "site"
    told = site / "shop-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(
        "[flintlog.decoders]\norders = shop_wire:decode\nbroken = shop_wire:gone\n"
    )
    (site / "shop_wire.py").write_text(
        "def decode(raw):\n    return {'length': len(raw), 'first': raw[:1]}\n"
    )
    monkeypatch.syspath_prepend(str(site))
    status, rows, _ = typed("dump", queues, "--json", "--decode", "orders", "--reverse", "--limit", 1)
    assert (status, rows[0]["decoded"]) == (0, {"length": 2, "first": "ff"})
    status, _, talk = typed("dump", queues, "--decode", "broken")
    assert (status, "cannot be loaded" in talk) == (2, True)
    status, _, talk = typed("dump", queues, "--decode", "unknown")
    assert (status, "text, json, msgpack, hex, broken, orders" in talk) == (2, True)
    sys.modules.pop("shop_wire", None)


@pytest.mark.parametrize(
    "words", [["--hex", "--reverse"], ["--hex", "--decode", "text"], ["--decode", "text", "--no-payload"]]
)
def test_options_that_contradict_each_other_are_refused(words, queues, typed):
    assert typed("dump", queues, *words)[0] == 2


def test_a_table_shows_the_decoded_payload(queues, capsys):
    assert main(["dump", str(queues), "--decode", "json", "--limit", "2"]) == 0
    assert "decoded" in capsys.readouterr().out


# Files


def test_a_file_narrows_bytes_and_entries(queues, typed):
    everything = typed("dump", queues, "--hex", "--json")[1]
    names = list(dict.fromkeys(field["file"] for field in everything))
    assert names[-1] == "tflux.metadata" and len(names) > 3
    for chosen in (["tflux.metadata"], [names[1], names[0]]):
        words = [word for name in chosen for word in ("--file", name)]
        status, fields, _ = typed("dump", queues, "--hex", "--json", *words, "--file", chosen[0])
        assert (status, fields) == (0, [field for field in everything if field["file"] in chosen])
    rows = typed("dump", queues, "--json")[1]
    inside = [row for row in rows if row["file"] == names[1]]
    assert inside and typed("dump", queues, "--json", "--file", names[1])[1] == inside
    assert typed("dump", queues, "--json", "--file", names[1], "--reverse")[1] == inside[::-1]
    assert typed("dump", queues, "--json", "--file", "tflux.metadata")[:2] == (0, [])


def test_a_filter_shows_the_bytes_of_its_entries_only(queues, typed):
    entry = typed("dump", queues, "--json", "--from", 5, "--to", 5)[1][0]
    fields = typed("dump", queues, "--hex", "--json", "--from", 5, "--to", 5)[1]
    assert {field["file"] for field in fields} == {entry["file"]}
    assert "tflux.metadata" not in {
        field["file"] for field in typed("dump", queues, "--hex", "--json", "--limit", 99)[1]
    }
    second = typed("dump", queues, "--json", "--limit", 99)[1][7]["file"]
    fields = typed("dump", queues, "--hex", "--json", "--file", second, "--limit", 1)[1]
    (row,) = typed("dump", queues, "--json", "--file", second, "--limit", 1)[1]
    assert {field["file"] for field in fields} == {second}
    assert (
        max(field["offset"] + len(field["bytes"]) // 2 for field in fields) == row["offset"] + row["length"]
    )


@pytest.mark.parametrize("name", ["tflux.metadatas", "../secret", "foreign.txt", ""])
@pytest.mark.parametrize("words", [["--hex"], []])
def test_a_name_that_is_no_file_of_the_log_is_refused(name, words, queues, typed):
    (queues / "foreign.txt").write_text("mine")
    (queues.parent / "secret").write_text("mine")
    status, rows, talk = typed("dump", queues, "--json", *words, "--file", name)
    assert (status, rows) == (2, [])
    assert f"there is no file {name!r}" in talk and "tflux.metadata" in talk


def test_a_blob_is_a_file_too(directories, typed):
    path = directories["limestone/c07_offline_compaction/dir"]
    status, fields, _ = typed("dump", path, "--hex", "--json", "--file", "blob/dir_01/0000000000000001.blob")
    assert status == 0
    assert [(field["name"], bytes.fromhex(field["bytes"])) for field in fields] == [("blob", b"blobdata")]


def test_bytes_are_shown_where_entries_cannot_be_read(directories, typed):
    """A directory that no store opens, because its manifest tells a version that nobody knows."""
    path = directories["limestone/c37_manifest_future/dir"]
    assert typed("dump", path, "--json")[0] == 4
    status, fields, _ = typed("dump", path, "--hex", "--json")
    assert status == 0
    assert {"limestone-manifest.json", "epoch"} <= {field["file"] for field in fields}
