"""The row of a code, as the format page prints it, against a directory that shows the code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from scripts.pages.finding_tables import codes
from tests.every_damage import open_store

from flintlog.core.log import open_log
from flintlog.core.plan import Plan
from flintlog.errors import FlintlogError


def check_row(dialect: str, code: str, root: Path) -> None:
    """Verify, opening and repair of this directory do what the row says."""
    row = codes(dialect)[code]
    findings = open_log(root, speaking=dialect).verify().findings
    assert {item.severity for item in findings if item.code == code} == {row.severities[0]}
    assert opened(dialect, root) == row.opening.partition(":")[0]
    plan = open_log(root, speaking=dialect).plan_repair()
    assert planned(plan) in _told(row.repair, root)
    if plan.steps:
        plan.apply()
        assert open_log(root, speaking=dialect).verify().verdict == "clean"
        assert opened(dialect, root) == "opens"


def _told(repair: str, root: Path) -> set[str]:
    """The last steps that a row allows: its first word, and those behind a semicolon; a repair of mpy6a ends with an
    operation log that is written anew, where there is one."""
    words = {re.split(r"[:,]", part.strip())[0] for part in repair.split(";")}
    return words | ({"rewrite"} if (root / "operations.log").exists() else set())


def opened(dialect: str, root: Path) -> str:
    """What a store does with a copy; for limestone what a reader does, because its page tells of reading."""
    copy = root.parent / f"{root.name}-opened"
    shutil.copytree(root, copy)
    try:
        if dialect == "limestone":
            open_log(copy, speaking=dialect).state().to_table()
        else:
            open_store(dialect, copy)
    except FlintlogError:
        return "refuses"
    finally:
        shutil.rmtree(copy)
    return "opens"


def planned(plan: Plan) -> str:
    """The last step names the plan: a cut comes after the files behind it went aside."""
    if plan.refusal is not None:
        return "refused"
    return plan.steps[-1].action if plan.steps else "nothing"
