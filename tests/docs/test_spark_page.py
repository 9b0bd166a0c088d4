"""The examples of docs/spark.md run, and print what the page says."""

from __future__ import annotations

import re

import pytest
from scripts.pages.page_blocks import ROOT, blocks

from flintlog.core.dialect import dialect, dialect_names
from flintlog.core.entries import COMMON_FIELDS
from flintlog.pipeline import options, views

pytestmark = pytest.mark.spark

# What follows logs, exports and compares them is played by test_spark_flows_page.py.
PAGE = ROOT / "docs" / "spark.md"
# The directories of the examples. Spark's processes stay where they were started, so they are named in full.
NAMES = re.compile(r"""(["'])((?:queues|spool|sessions|accounts|peer-[12*])(?:/[\w/]+)?)\1""")


def section(title):
    return re.search(
        rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )[1]


def first_column(title):
    cells = re.findall(r"^\| (`.*?) \|", section(title), re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def played(spark, home, capsys):
    """Each block of Python with what it printed."""
    scope = {"spark": spark}
    flows = PAGE.read_text().split("\n## Streaming\n")[1]
    for block in blocks(PAGE):
        if block.language == "python" and block.text not in flows:
            capsys.readouterr()
            exec(NAMES.sub(rf"\1{home}/\2\1", block.text), scope)
            yield block, capsys.readouterr().out.strip()


@pytest.mark.long
def test_the_examples_run_and_print_what_the_page_says(spark, tmp_path, capsys):
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        compared = 0
        for block, printed in played(spark, tmp_path, capsys):
            if block.output is not None:
                assert printed.splitlines() == block.output.strip().splitlines()
                compared += 1
        assert compared > 8
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        for view in ("stock", "log"):
            spark.catalog.dropTempView(view)


def test_the_tables_name_every_option_and_column():
    known = {*options._ANYWHERE, *sum(options._OF_VIEW.values(), ())} - {"path", "paths"}
    assert set(first_column("Options")) == known
    assert set(first_column("Views")) == set(options._OF_VIEW)
    assert first_column("Columns of `entries`") == [
        "source",
        *(field.name for field in COMMON_FIELDS),
        *dialect_names(),
        "damage",
    ]
    for name in dialect_names():
        assert first_column(f"Columns of `state`: {name}") == ["source", *dialect(name).state_schema.names]
    assert first_column("Columns of `files`") == ["source", *views.FILES.names]
    assert first_column("Columns of `findings`") == ["source", *views.FINDINGS.names]
