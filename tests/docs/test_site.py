"""The site is built without a warning and shows every public name with its calls; each of them has a docstring."""

from __future__ import annotations

import html
import inspect
import json
import os
import re
import subprocess
import sys
import types

import pytest
from scripts.pages.page_blocks import ROOT
from scripts.pages.public import MODULES, first_sentence, found, home_of, names, without_docstring

PUBLIC = [(module, name) for module in MODULES for name in names(module)]


def calls(thing):
    """The public functions and properties that a class describes itself."""
    own = vars(thing).items() if inspect.isclass(thing) else ()
    described = (property, types.FunctionType, classmethod, staticmethod)
    return [
        name
        for name, member in own
        if name[0] != "_" and isinstance(member, described) and inspect.getdoc(member)
    ]


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_every_public_name_and_its_calls_have_a_docstring(module, name):
    thing = found(module, name)
    assert len(first_sentence(thing).split()) >= 2
    assert list(without_docstring(thing)) == []


SITE = pytest.mark.xdist_group("site")  # built once


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)],
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=f"{ROOT / 'src'}:{ROOT}", NO_MKDOCS_2_WARNING="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return place


@SITE
def test_the_reference_has_every_name_and_call(site):
    for module in MODULES:
        page = (site / "api" / f"{module}.html").read_text()
        anchors = set(re.findall(r'id="([\w.]+)"', page))
        for name in names(module):
            home = home_of(module, name)
            assert {home, *(f"{home}.{call}" for call in calls(found(module, name)))} <= anchors
            sentence = first_sentence(found(module, name))[:-1].split("`")[0]
            assert sentence in " ".join(html.unescape(page).split())


@SITE
def test_the_search_finds_pages_names_and_codes(site):
    index = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    text = " ".join(entry["title"] + " " + entry["text"] for entry in index)
    for word in ("QueueStore", "record-checksum", "inject_everywhere", "on_damage", "flintlog repair"):
        assert word in text


@SITE
def test_every_page_of_docs_is_in_the_site(site):
    for page in (ROOT / "docs").rglob("*.md"):
        built = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / (built.with_name("index.html") if page.name == "README.md" else built)).is_file()
