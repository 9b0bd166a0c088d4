"""The examples of docs/spark.md run, and print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flintlog.core.dialect import dialect
from flintlog.core.entries import COMMON_FIELDS
from flintlog.pipeline import options

pytestmark = pytest.mark.spark

# What follows logs, exports and compares them is played by test_flow_docs.py.
PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text().split("\n## Streaming\n")[0]

DOCUMENTED = ("taskflux", "zmqraft", "mpy6a")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def section(title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]


def first_column(title):
    cells = re.findall(r"^\| (`.*?) \|", section(title), re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_the_examples_run_and_print_what_the_page_says(spark, tmp_path, capsys):
    (printed,) = blocks("text")
    # Spark's processes stay where they were started, so the directory is named in full.
    first, *others = [
        re.sub("""(["'])queues["']""", rf"\1{tmp_path}/queues\1", code) for code in blocks("python")
    ]
    scope = {"spark": spark}
    exec(first, scope)
    assert capsys.readouterr().out.strip() == printed.strip()
    try:
        for code in others:
            exec(code, scope)
    finally:
        spark.sql("DROP VIEW IF EXISTS stock")
    *_, row, _ = capsys.readouterr().out.strip().splitlines()
    assert row == "|       1|      add|[6D 69 6C 6B]|"


def test_the_tables_name_every_option_and_column():
    known = {*options._ANYWHERE, *sum(options._OF_VIEW.values(), ())} - {"path", "paths"}
    assert set(first_column("Options")) == known
    assert first_column("Columns of `entries`") == [
        "source",
        *(field.name for field in COMMON_FIELDS),
        *DOCUMENTED,
    ]
    for name in DOCUMENTED:
        assert first_column(f"Columns of `state`: {name}") == ["source", *dialect(name).state_schema().names]
