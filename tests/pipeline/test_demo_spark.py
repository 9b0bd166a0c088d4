"""The main job in small: it ends well, loses nothing, and leaves a report with a picture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_the_demo_kills_recovers_compacts_and_reports(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--json"],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=f"{ROOT / 'src'}:{ROOT}"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert [log["dialect"] for log in report["logs"]] == ["taskflux", "zmqraft", "mpy6a", "limestone"]
    for log in report["logs"]:
        assert log["verdict"] == "clean"
        assert log["acknowledged"] > 0 and log["live"] > log["acknowledged"]
        assert log["exported"] == log["entries"] > 0
        assert 0 < log["bytes_after"] < log["bytes_before"]
    assert report["written"] == report["logs"][3]["live"]
    damage = report["damage"]
    assert damage["offset"] > 0 and damage["lost"] and damage["kept"] > 0 and damage["verdict"] == "clean"
    place = tmp_path / report["place"]
    page = (place / "report.html").read_text()
    assert page.count("<svg") == 2 and "none lost" in page and damage["file"] in page
    assert sorted(item.name for item in place.iterdir()) == [
        "damaged", "exported", "limestone", "mpy6a", "report.html", "taskflux", "written", "zmqraft",
    ]  # fmt: skip
