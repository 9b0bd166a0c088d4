"""The examples of docs/spark.md on streams, exports and replicas run, and print what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from flintlog.core.follow import Limits
from flintlog.core.log import open_log
from flintlog.pipeline.stream_options import STREAM_OPTIONS

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text().split("\n## Streaming\n")[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.long
def test_the_examples_run_and_print_what_the_page_says(spark, tmp_path, capsys):
    scope, shown = {"spark": spark}, []
    for kind, code in BLOCK.findall(PAGE):
        if kind == "python":
            # Spark's processes stay where they were started, so the directories are named in full.
            exec(re.sub(r'"((?:orders|lake|node\d)\b[^"]*)"', rf'"{tmp_path}/\1"', code), scope)
            shown = [line.rstrip() for line in capsys.readouterr().out.strip().splitlines()]
        elif kind == "text":
            assert shown == code.strip().splitlines()
        elif kind == "json":
            orders = json.loads(code)["sources"]["orders"]
            follower = open_log(f"{tmp_path}/orders").follower()
            assert follower.advance({}, Limits(), "fail") == orders


def test_the_table_names_every_option_of_a_stream():
    table = PAGE.split("| option of a stream |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(STREAM_OPTIONS)
