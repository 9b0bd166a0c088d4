"""Every damaged directory of every dialect: verify, repair, the state, and all of it taken back, byte for byte."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.every_directory import every_directory
from tests.golden_cases import snapshot_of

from flintlog.cli.main import main

VERDICTS = {0: "clean", 1: "repairable", 3: "corrupt", 4: "unsupported"}


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return every_directory(tmp_path_factory.mktemp("golden"))


def typed(capsys, *words):
    """Run a command with --json; its exit status and its objects."""
    capsys.readouterr()
    status = main([*words, "--json"])
    captured = capsys.readouterr()
    return status, [json.loads(line) for line in captured.out.splitlines()], captured.err


def files_of(root):
    """The files of a log, without what repairs keep."""
    return {
        name: content
        for name, content in snapshot_of(root).items()
        if content is not None and "kept" not in name.split("/")
    }


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["taskflux", "zmqraft", "mpy6a", "limestone"])
def test_a_repair_of_any_golden_directory_is_taken_back_to_the_byte(dialect, directories, tmp_path, capsys):
    repaired = refused = 0
    for case, source in directories.items():
        if not case.startswith(f"{dialect}/"):
            continue
        root = tmp_path / case
        shutil.copytree(source, root)
        before = files_of(root)
        status, [found], _ = typed(capsys, "verify", str(root))
        assert VERDICTS[status] == found["verdict"], case
        if status == 0:
            continue
        planned, plans, _ = typed(capsys, "repair", str(root))
        assert files_of(root) == before, case
        applied, [plan], talk = typed(capsys, "repair", str(root), "--apply")
        assert VERDICTS[applied] == plan.get("verdict", found["verdict"]), case
        if applied != 0:
            assert (plan["steps"], files_of(root)) == ([], before), case
            assert plan["refusal"] is None or "Nothing was changed" in talk, case
            refused += 1
            continue
        repaired += 1
        assert planned == status, case
        assert bool(plans[0]["lost"]) <= (found["verdict"] == "corrupt"), case
        after = files_of(root)
        assert typed(capsys, "verify", str(root))[0] in (0, 1), case  # of some repairs there is a second part
        assert typed(capsys, "state", str(root))[0] == 0 or typed(capsys, "verify", str(root))[0], case
        status, [undo], talk = typed(capsys, "repair", str(root), "--undo", "--dry-run")
        assert (status, undo["applied"], files_of(root)) == (0, False, after), (case, talk)
        assert {step["file"] for step in undo["steps"]} >= {
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        }, case
        status, [undo], talk = typed(capsys, "repair", str(root), "--undo")
        assert (status, undo["verb"], undo["applied"]) == (0, "undo", True), (case, talk)
        assert files_of(root) == before, case
        status, [again], _ = typed(capsys, "verify", str(root))
        assert (again["verdict"], again["findings"]) == (found["verdict"], found["findings"]), case
        assert typed(capsys, "repair", str(root), "--undo")[0] == 3, (
            case
        )  # there is nothing more to take back
    assert repaired > 3, (repaired, refused)


def damaged_of(directories, dialect, root, capsys):
    """A directory of the dialect with damage that a repair heals, and its files."""
    for case, source in directories.items():
        if case.startswith(f"{dialect}/"):
            shutil.copytree(source, root)
            if (
                typed(capsys, "repair", str(root))[0] in (1, 3)
                and typed(capsys, "repair", str(root))[1][0]["steps"]
            ):
                return files_of(root)
            shutil.rmtree(root)
    raise AssertionError(dialect)


DIALECTS = ["taskflux", "zmqraft", "mpy6a", "limestone"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_was_written_after_a_repair_is_not_taken_away(dialect, directories, tmp_path, capsys):
    root = tmp_path / "log"
    before = damaged_of(directories, dialect, root, capsys)
    assert main(["repair", str(root), "--apply"]) == 0
    later = {path: content for path, content in files_of(root).items() if content}
    name = max(later)
    with (root / name).open("ab") as file:
        file.write(b"later")
    status, [plan], talk = typed(capsys, "repair", str(root), "--undo")[0:3]
    assert (status, plan["applied"]) == (3, False)
    assert "was written to after the repair" in talk
    assert "Nothing was changed" in talk
    assert (root / name).read_bytes() == later[name] + b"later"
    assert typed(capsys, "repair", str(root), "--undo", "--force")[0] == 0
    assert {path: content for path, content in files_of(root).items() if path != name} == {
        path: content for path, content in before.items() if path != name
    }
    assert name not in before or files_of(root)[name] in (before[name], later[name] + b"later")


def folders_of(root):
    return {
        name
        for name, content in snapshot_of(root).items()
        if content is None and "kept" not in name.split("/")
    }


@pytest.mark.parametrize("dialect", DIALECTS)
def test_directories_that_a_repair_made_go_with_it_and_others_stay(dialect, directories, tmp_path, capsys):
    root = tmp_path / "log"
    damaged_of(directories, dialect, root, capsys)
    home = next((path.parent for path in root.rglob("tflux.*")), root)
    (home / "empty" / "too").mkdir(parents=True)
    before = folders_of(root)
    assert main(["repair", str(root), "--apply"]) == 0
    made = home / "made" / "by"
    made.mkdir(parents=True)  # as a step of a repair would
    assert main(["repair", str(root), "--undo"]) == 0
    assert folders_of(root) == before


@pytest.mark.parametrize("dialect", DIALECTS)
def test_repairs_are_taken_back_in_turn_by_name(dialect, directories, tmp_path, capsys):
    root = tmp_path / "log"
    before = damaged_of(directories, dialect, root, capsys)
    assert main(["repair", str(root), "--apply"]) == 0
    [kept] = root.rglob("kept/2*")
    assert typed(capsys, "repair", str(root), "--undo", "never")[0] == 2
    status, [plan], _ = typed(capsys, "repair", str(root), "--undo", kept.name)
    assert (status, plan["facts"]["repair"]) == (0, kept.name)
    assert files_of(root) == before
    status, [plan], talk = typed(capsys, "repair", str(root), "--undo", kept.name)
    assert status == 3
    assert "taken back already" in talk
    assert main(["repair", str(root), "--apply"]) == 0  # the same once more, in a place of its own
    assert len(list(kept.parent.glob("2*"))) == 2
    assert typed(capsys, "repair", str(root), "--undo")[0] == 0
    assert files_of(root) == before


def test_a_directory_that_was_never_repaired_has_nothing_to_take_back(directories, capsys):
    for dialect in DIALECTS:
        source = next(path for case, path in directories.items() if case.startswith(f"{dialect}/"))
        status, [plan], talk = typed(capsys, "repair", source, "--undo")
        assert (status, plan["steps"]) == (3, [])
        assert "there is no repair to take back" in talk


def test_a_record_that_leads_out_of_the_directory_is_refused(directories, tmp_path, capsys):
    root = tmp_path / "log"
    damaged_of(directories, "limestone", root, capsys)
    assert main(["repair", str(root), "--apply"]) == 0
    [record] = root.rglob("flintlog-repair.json")
    value = json.loads(record.read_text())
    for wrong in ({**value, "before": ["../outside"]}, {**value, "version": 9}, [], {**value, "after": 3}):
        record.write_text(json.dumps(wrong))
        capsys.readouterr()
        assert main(["repair", str(root), "--undo"]) == 3
        assert "not the record of a repair" in capsys.readouterr().err


def test_force_and_apply_stand_only_where_they_mean_something(directories, capsys):
    path = directories["zmqraft/d30_snap_beyond_log"]
    assert main(["repair", path, "--force"]) == 2
    assert main(["repair", path, "--apply", "--undo"]) == 2
