"""What the explorer answers is what the verbs print with --json: on good directories and on damaged ones."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.backup_logs import LOGS
from tests.damaged_directories import flip, segmented, segments
from tests.every_directory import every_directory
from tests.golden_cases import snapshot_of
from tests.web.explorer import serving

from flintlog import QueueStore
from flintlog.cli.main import main
from flintlog.web import paging

DIALECTS = ("taskflux", "zmqraft", "mpy6a", "limestone")
STATUSES = {200, 400, 404, 409, 503}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A log of each dialect."""
    home = tmp_path_factory.mktemp("shown")
    for dialect in DIALECTS:
        log = LOGS[dialect](home / dialect)
        for _ in range(40):
            log.add()
        log.close()
    return home


@pytest.fixture(scope="module")
def client(home):
    with serving(*(home / dialect for dialect in DIALECTS)) as client:
        yield client


def printed(capsys, *words):
    capsys.readouterr()
    main([*map(str, words), "--json"])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_directories_have_names(client, home):
    found = client.get("/api/directories").json["directories"]
    assert [(one["name"], one["path"], one["dialect"]) for one in found] == [
        (name, str(home / name), name) for name in DIALECTS
    ]
    assert [one["stream"] for one in found] == ["queue", None, "topic", "storage"]
    assert all(one["operations"] for one in found)


def test_directories_of_the_same_name_get_numbers(home, tmp_path):
    shutil.copytree(home / "taskflux", tmp_path / "taskflux")
    with serving(home / "taskflux", tmp_path / "taskflux") as client:
        names = [one["name"] for one in client.get("/api/directories").json["directories"]]
        assert names == ["taskflux", "taskflux-2"]
        assert client.ask("taskflux-2", "inspect").json["path"].startswith(str(tmp_path))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_inspect_repair_and_verify_say_what_the_verbs_print(dialect, client, home, capsys):
    assert [client.ask(dialect, "inspect").json] == printed(capsys, "inspect", home / dialect)
    plan = client.ask(dialect, "repair").json
    (expected,) = printed(capsys, "repair", home / dialect)
    assert {name: plan[name] for name in expected} == expected
    assert "nothing to do" in plan["text"] and plan["command"] is None
    client.act(dialect, "verify", "run")
    while (job := client.ask(dialect, "verify").json)["status"] == "running":
        pass
    assert job["status"] == "done"
    assert [job["inventory"]] == printed(capsys, "verify", home / dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("limit", [1, 7, 500])
def test_pages_of_entries_are_the_dump(dialect, limit, client, home, capsys):
    rows = client.rows(dialect, "entries", "after", limit=limit)
    assert rows == printed(capsys, "dump", home / dialect)
    assert client.rows(dialect, "entries", "after", limit=limit, reverse=1) == printed(
        capsys, "dump", home / dialect, "--reverse"
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_filters_are_those_of_dump(dialect, client, home, capsys):
    rows = printed(capsys, "dump", home / dialect)
    row = rows[len(rows) // 2]
    position = f"{row['term']},{row['position']}" if dialect == "mpy6a" else str(row["position"])
    for given, words in (
        ({"from": position}, ["--from", position]),
        ({"to": position}, ["--to", position]),
        ({"operation": row["operation"]}, ["--operation", row["operation"]]),
        ({"decode": "text"}, ["--decode", "text"]),
        ({"payload": "0"}, ["--no-payload"]),
    ):
        expected = printed(capsys, "dump", home / dialect, *words)
        assert client.rows(dialect, "entries", "after", limit=9, **given) == expected, given
    reply = client.ask(dialect, "entries", operation=["nothing", "of-these"])
    assert (reply.status, reply.error["code"]) == (400, "usage")
    reply = client.ask(dialect, "entries", stream="1", limit=500)
    if dialect == "zmqraft":
        assert (reply.status, reply.error["code"]) == (400, "usage")
    else:
        assert reply.json["rows"] == printed(capsys, "dump", home / dialect, "--stream", "1")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("limit", [3, 500])
def test_pages_of_the_state_are_the_state(dialect, limit, client, home, capsys):
    expected = printed(capsys, "state", home / dialect)
    assert client.rows(dialect, "state", "start", limit=limit) == expected
    position = "1,5" if dialect == "mpy6a" else "5"
    words = ["state", home / dialect, "--as-of", position]
    reply = client.ask(dialect, "state", as_of=position, limit=500)
    if reply.status == 200:
        assert reply.json["rows"] == printed(capsys, *words)
    else:
        assert main([*map(str, words)]) == 3 and reply.status == 409


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_bytes_of_an_entry_are_explained_as_by_dump_hex(dialect, client, home, capsys):
    fields = printed(capsys, "dump", home / dialect, "--hex")
    for row in printed(capsys, "dump", home / dialect)[::9]:
        reply = client.ask(
            dialect, "bytes", file=row["file"], offset=row["offset"], length=row["length"]
        ).json
        place = next((home / dialect).rglob(row["file"].rpartition("/")[2]))
        end = row["offset"] + row["length"]
        assert reply["bytes"] == place.read_bytes()[row["offset"] : end].hex()
        assert reply["size"] == place.stat().st_size
        expected = [
            one for one in fields if one["file"] == row["file"] and row["offset"] <= one["offset"] < end
        ]
        found = [{name: one[name] for name in expected[0]} for one in reply["fields"]]
        assert expected and all(one in found for one in expected)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_bytes_of_every_file_are_explained(dialect, client, home, capsys):
    fields = printed(capsys, "dump", home / dialect, "--hex")
    for file in client.ask(dialect, "inspect").json["files"]:
        reply = client.ask(dialect, "bytes", file=file["name"], offset=0, length=400).json
        expected = [one for one in fields if one["file"] == file["name"] and one["offset"] < 400]
        found = [{name: one[name] for name in expected[0]} for one in reply["fields"]] if expected else []
        assert reply["error"] is None and bool(expected) == bool(file["size"])
        assert [one for one in found if one["offset"] < 400] == expected


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_map_counts_no_more_than_there_is(dialect, client, home):
    sizes = {file["name"]: file["size"] for file in client.ask(dialect, "inspect").json["files"]}
    parts = client.ask(dialect, "map").json["parts"]
    assert sum(part["live"] for part in parts) > 0
    assert {part["name"] for part in parts} & set(sizes)


def test_golden_directories_are_shown_without_a_fault_and_without_a_change(tmp_path, part):
    begin, step = part(6)
    found = dict(sorted(every_directory(tmp_path).items())[begin::step])
    before = snapshot_of(tmp_path)
    with serving(*found.values()) as client:
        names = {one["path"]: one["name"] for one in client.get("/api/directories").json["directories"]}
        damaged = explained = 0
        for case, path in found.items():
            name = names[path]
            for view in ("map", "entries", "state", "repair", "inspect"):
                reply = client.ask(name, view)
                assert reply.status in STATUSES, (case, view, reply.body)
                assert reply.status == 200 or reply.error["code"], case
            for finding in reply.json.get("findings", [])[:1]:
                reply = client.ask(name, "bytes", file=finding["file"] or "", offset=finding["offset"] or 0)
                assert reply.status in STATUSES, (case, reply.body)
                damaged += 1
                explained += reply.status == 200 and bool(reply.json["fields"])
        assert damaged > 40 // step and explained > 20 // step
    assert snapshot_of(tmp_path) == before


def test_entries_end_with_the_error_that_dump_ends_with(tmp_path, capsys):
    segmented(tmp_path / "log")
    flip(segments(tmp_path / "log")[1], 30)
    with serving(tmp_path / "log") as client:
        page = client.ask("log", "entries").json
        assert page["rows"] == printed(capsys, "dump", tmp_path / "log")
        assert page["rows"] and page["next"] is None
        assert page["error"]["code"].startswith("record-") and page["error"]["offset"] is not None
        state = client.ask("log", "state")
        assert (state.status, state.error["code"]) == (409, page["error"]["code"])
        assert "repair" in state.error["advice"]
        plan = client.ask("log", "repair").json
        assert plan["lost"] and plan["command"] == f"flintlog repair {tmp_path / 'log'} --apply"
        file = page["error"]["file"].partition("/data/")[2]
        fields = client.ask("log", "bytes", file=file, offset=page["error"]["offset"]).json["fields"]
        assert [one["name"] for one in fields][-1] == "damage"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "position", ["-5", "9223372036854775808", "9" * 25, "1," + "9" * 25, "0", "1,2,3", "-1,-1"]
)
def test_positions_that_cannot_be_are_no_fault(dialect, position, client):
    for view, word in (("entries", "from"), ("entries", "to"), ("state", "as_of")):
        reply = client.ask(dialect, view, **{word: position})
        assert reply.status in STATUSES, (view, word, reply.body)


def test_what_is_long_is_cut_and_said_so(tmp_path):
    with QueueStore(tmp_path / "log") as store:
        for _ in range(4):
            store.queue().add(b"x" * 100_000)
    with serving(tmp_path / "log") as client:
        for view in ("entries", "state"):
            row = client.ask("log", view).json["rows"][0]
            assert row["payload"] == b"x".hex() * 4096
            assert row["cut"] == {"payload": 100_000}
        (page,) = client.pages("log", "entries", "after", decode="text", reverse=1)
        assert all(len(row["decoded"]) < 20_000 for row in page["rows"])


def test_a_page_of_long_rows_ends_early_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(paging, "PAGE_LETTERS_MAX", 20_000)
    with QueueStore(tmp_path / "log") as store:
        store.queue().add_many([b"y" * 5000] * 30)
    with serving(tmp_path / "log") as client:
        pages = list(client.pages("log", "entries", "after", limit=500))
        assert len(pages) > 1 and sum(len(page["rows"]) for page in pages) == 30
        pages = list(client.pages("log", "state", "start", limit=500))
        assert len(pages) > 1 and sum(len(page["rows"]) for page in pages) == 30
        assert client.ask("log", "entries", limit=10**15).status == 200


def test_a_search_that_finds_nothing_stops_and_goes_on(home, client, monkeypatch):
    monkeypatch.setattr(paging, "SEARCH_BYTES_MAX", 300)
    pages = list(client.pages("taskflux", "entries", "after", key="123456"))
    assert len(pages) > 3 and not any(page["rows"] for page in pages)
    assert all(page["searched_bytes"] for page in pages)
    assert len(client.rows("taskflux", "entries", "after", limit=500)) == 40


def test_a_decoder_that_fails_is_counted(tmp_path):
    with QueueStore(tmp_path / "log") as store:
        store.queue().add_many([b'{"a": 1}', b"no json", b"NaN", b"[" * 100_000, b'"' + b"z" * 50_000 + b'"'])
    with serving(tmp_path / "log") as client:
        page = client.ask("log", "entries", decode="json").json
        decoded = [row["decoded"] for row in page["rows"] if row["operation"] == "add"]
        assert decoded[:4] == [{"a": 1}, None, None, None]
        assert decoded[4].endswith("...") and len(decoded[4]) < 20_000
        assert page["undecoded"] == 3
