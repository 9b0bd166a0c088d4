"""The examples of the pages about Spark run and print what the pages say. The tables are complete."""

from __future__ import annotations

import json
import re

import pytest
from scripts.pages.page_blocks import ROOT, blocks

from flintlog.core.dialect import dialect, dialect_names
from flintlog.core.entries import COMMON_FIELDS
from flintlog.core.follow import Limits
from flintlog.core.log import open_log
from flintlog.pipeline import options, views, writing
from flintlog.pipeline.stream_options import STREAM_OPTIONS
from flintlog.pipeline.writing import load_room

pytestmark = pytest.mark.spark

PAGE = ROOT / "docs" / "spark.md"
RECIPES = ROOT / "docs" / "spark-recipes.md"
WRITING = ROOT / "docs" / "spark-writing.md"
# The directories of the examples. Spark's processes stay where they were started, so they are named in full.
NAMES = re.compile(
    r"""(["'])((?:queues|spool|sessions|accounts|peer-[12*]|orders|followed|lake|node\d)(?:/[\w/-]+)?)\1"""
)


def section(title, page=PAGE):
    return re.search(
        rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page.read_text(), re.DOTALL | re.MULTILINE
    )[1]


def first_column(title, page=PAGE):
    cells = re.findall(r"^\| (`.*?) \|", section(title, page), re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def played(page, spark, home, capsys):
    """Each block of Python with what it printed."""
    scope = {"spark": spark}
    for block in blocks(page):
        if block.language == "python":
            capsys.readouterr()
            exec(NAMES.sub(rf"\1{home}/\2\1", block.text), scope)
            yield block, [line.rstrip() for line in capsys.readouterr().out.strip().splitlines()]


PAGES = [(PAGE, 4), (RECIPES, 13), (WRITING, 4)]


@pytest.mark.long
@pytest.mark.parametrize(("page", "compared"), PAGES, ids=["reference", "recipes", "writing"])
def test_the_examples_run_and_print_what_the_page_says(page, compared, spark, tmp_path, capsys):
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        shown = []
        for block, printed in played(page, spark, tmp_path, capsys):
            if block.output is not None:
                assert printed == [line.rstrip() for line in block.output.strip().splitlines()]
                shown.append(block)
            if "readStream" in block.text and page != WRITING:
                follower = open_log(f"{tmp_path}/orders").follower()
                [offset] = [json.loads(item.text) for item in blocks(PAGE) if item.language == "json"]
                assert follower.advance({}, Limits(), "fail") == offset["sources"]["orders"]
        assert len(shown) == compared
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        for view in ("stock", "log"):
            spark.catalog.dropTempView(view)


def test_the_tables_name_every_option_and_column():
    known = {*options._ANYWHERE, *sum(options._OF_VIEW.values(), ())} - {"path", "paths"}
    assert set(first_column("Options")) == known
    assert set(first_column("Views")) == set(options._OF_VIEW)
    assert first_column("Columns of `entries`") == [*views.NARROW, *dialect_names()]
    assert {*views.NARROW, "dialect"} == {field.name for field in COMMON_FIELDS}
    for name in dialect_names():
        assert first_column(f"Columns of `state`: {name}") == ["source", *dialect(name).state_schema.names]
    assert first_column("Columns of `files`") == ["source", *views.FILES.names]
    assert first_column("Columns of `findings`") == ["source", *views.FINDINGS.names]


def test_the_table_names_every_option_of_a_stream():
    table = PAGE.read_text().split("| option of a stream |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(STREAM_OPTIONS)


def test_the_tables_name_every_option_and_column_of_a_write():
    rooms = {name: load_room(name) for name in ("limestone", "taskflux")}
    columns = [column for room in rooms.values() for column in room.COLUMNS]
    assert first_column("Columns", WRITING) == [column.name for column in columns]
    own = [word for room in rooms.values() for word in room.OPTIONS]
    assert first_column("Options", WRITING) == [*writing._COMMON[1:], *own, *writing._OF_A_BATCH]
    meanings = re.findall(r"^\| `\w+` \| .*? \| (.*) \|$", section("Columns", WRITING), re.MULTILINE)
    assert meanings == [column.meaning for column in columns]
    assert {dialect(name).not_loaded is None for name in rooms} == {True}
    for name, room in rooms.items():
        assert str(room.BATCHES) in section("What is promised", WRITING), name
