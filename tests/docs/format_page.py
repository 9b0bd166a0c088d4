"""A page of docs/formats against the dialect that it tells of."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.pages.page_blocks import ROOT

from flintlog.core.dialect import dialect
from flintlog.core.log import Log
from flintlog.core.plan import Plan
from flintlog.disk import Disk
from flintlog.errors import FlintlogError

_ROW = re.compile(r"^\| `([a-z-]+)` \| (\w+) \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)


@dataclass(frozen=True)
class FormatPage:
    """The table of findings of a page. `kinds` are the first words of codes, `words` the codes of one word; `without`
    are modules with others."""

    name: str
    kinds: str
    store: Callable[[Path], Any]
    without: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset({"leftover", "foreign"})

    @property
    def path(self) -> Path:
        return ROOT / "docs" / "formats" / f"{self.name}.md"

    @property
    def rows(self) -> dict[str, list[str]]:
        """Severity, meaning, opening and repair by code."""
        return {code: rest for code, *rest in _ROW.findall(self.path.read_text())}

    def codes_in_the_source(self) -> set[str]:
        """Every string of the dialect that has the form of a finding's code."""
        folder = ROOT / "src" / "flintlog" / "dialects" / self.name
        found = {
            node.value
            for path in folder.rglob("*.py")
            if path.name not in self.without
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        return {text for text in found if re.fullmatch(rf"(?:{self.kinds})(?:-[a-z]+)+", text)} | self.words

    def check_row(self, code: str, root: Path, copy: Path) -> None:
        """Verify, opening and repair of a directory with this finding do what the row says."""
        ours = dialect(self.name)
        severity, _, opening, repair = self.rows[code]
        inventory = Log(ours, Disk(), str(root)).verify()
        assert {item.severity for item in inventory.findings if item.code == code} == {severity}

        shutil.copytree(root, copy)
        assert self.opened(copy) == re.split(r"\W", opening)[0]

        plan = Log(ours, Disk(), str(root)).plan_repair()
        assert planned(plan) == re.split(r"[:;,]", repair)[0]
        if plan.steps:
            plan.apply()
            assert Log(ours, Disk(), str(root)).verify().verdict == "clean"
            assert self.opened(root) == "opens"

    def opened(self, root: Path) -> str:
        try:
            self.store(root).close()
        except FlintlogError:
            return "refuses"
        return "opens"


def planned(plan: Plan) -> str:
    """The last step names the plan: a cut comes after the files behind it went aside."""
    if plan.refusal is not None:
        return "refused"
    return plan.steps[-1].action if plan.steps else "nothing"
