"""The examples of docs/testing.md run as they stand."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def notebook(monkeypatch):
    module = types.ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", module)
    exec(compile(EXAMPLES[0], "notebook.py", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(
    "name", ["test_no_crash_loses_a_line", "test_no_failed_call_loses_a_line", "test_every_sync_is_needed"]
)
def test_the_example_suite_holds(notebook, name):
    getattr(notebook, name)()


def test_the_example_of_a_child_runs(notebook, capfd):
    module = types.ModuleType("notebook_load")
    exec(compile(EXAMPLES[1], "notebook_load.py", "exec"), module.__dict__)
    from flintlog.disk import Disk
    from flintlog.testing import MemoryKernel

    module.add(notebook.Notebook(Disk(MemoryKernel())), "text")
    assert capfd.readouterr().out == "+text\n=text\n"


def test_the_example_of_races_finds_that_the_notebook_has_no_lock(notebook, capsys):
    module = types.ModuleType("notebook_races")
    exec(compile(EXAMPLES[2], "notebook_races.py", "exec"), module.__dict__)
    assert module.report.violations
    assert "notebook:add+add:seed=" in capsys.readouterr().out
