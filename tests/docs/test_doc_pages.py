"""The pages hold together: every link leads somewhere, every module they name is there, every page is in the index."""

from __future__ import annotations

import re
import shlex
from xml.etree import ElementTree

import pytest
from scripts.pages.page_blocks import ROOT, blocks

from flintlog.cli.main import build_parser

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
MODULES = {
    path.relative_to(base).as_posix()
    for base in (
        ROOT / "src" / "flintlog",
        ROOT / "src" / "flintlog" / "dialects" / "taskflux",
        ROOT,
    )
    for path in base.rglob("*.py")
    if ".venv" not in path.parts
}


def anchors(page):
    """The names that a Markdown viewer gives to the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page):
    for link in LINK.findall(page.read_text()):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("index", [DOCS / "README.md", DOCS / "verbs" / "README.md"])
def test_every_page_is_in_the_index(index):
    """An index names all pages beside and below it; a folder with an index of its own is named by that."""
    listed = {link.partition("#")[0] for link in LINK.findall(index.read_text())}
    own = {page.parent for page in index.parent.rglob("*/README.md")}
    there = {
        page.relative_to(index.parent).as_posix()
        for page in index.parent.rglob("*.md")
        if page.name == "README.md" or page.parent not in own
    }
    assert there - {"README.md"} <= listed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_that_are_shown_and_not_played_are_commands(page):
    """Of a cluster, of a shell that starts: at least every verb, option and argument is there."""
    for block in blocks(page):
        if block.language == "sh":
            for line in re.findall(r"^flintlog (.*)$", block.text.replace("\\\n", " "), re.MULTILINE):
                try:
                    build_parser().parse_args(shlex.split(line, comments=True))
                except SystemExit as stop:  # --version ends, and a wrong word does
                    assert stop.code == 0, line


def test_the_architecture_names_modules_that_are_there():
    named = re.findall(r"`([\w/]+\.py)`", (DOCS / "architecture.md").read_text())
    assert set(named) <= MODULES


def test_every_module_of_the_dialect_is_in_the_architecture():
    page = (DOCS / "architecture.md").read_text()
    dialect = ROOT / "src" / "flintlog" / "dialects" / "taskflux"
    rooms = [path.name for path in dialect.glob("*.py")]
    rooms += [f"store/{path.name}" for path in (dialect / "store").glob("*.py")]
    missing = {room for room in rooms if f"`{room}`" not in page}
    assert missing == {"__init__.py", "store/__init__.py"}


@pytest.mark.parametrize("picture", sorted(DOCS.glob("*.svg")), ids=lambda picture: picture.stem)
def test_a_picture_is_well_formed_and_knows_dark_screens(picture):
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert "prefers-color-scheme: dark" in picture.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_promises_a_package_that_no_registry_has(page):
    assert not re.search(r"pip install '?flintlog", page.read_text())
