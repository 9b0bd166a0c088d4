"""The tables of findings are those of the code, and each row says what verify, opening and repair really do."""

from __future__ import annotations

import ast
import re

import pytest
from scripts.pages.finding_tables import DIALECTS, RUNBOOKS, codes, format_page, page, runbooks
from tests.damaged_directories import numbered
from tests.docs.format_page import check_row
from tests.every_damage import CASES

from flintlog.core.finding import Codes, Damage, Severity
from flintlog.errors import DamageError

pytestmark = pytest.mark.usefixtures("still")

SOURCE = RUNBOOKS.parents[1] / "src" / "flintlog" / "dialects"
# Modules with codes of another kind: of what a store refuses, of a token file alone, of columns and their words.
OTHERS = {"errors.py", "token_file.py", "tables.py", "fields.py", "following.py"}
TABLE = Codes("""
# Of a test
torn | repairable | a write that a crash interrupted | opens: cuts it | cut
odd | note or corrupt | something that should not be | refuses | nothing | a lost file
""")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_page_has_the_tables_of_the_code(dialect):
    assert page(dialect).read_text() == format_page(dialect)
    assert set(
        re.findall(r"^\| `([a-z-]+)` \| (?:note|repairable|corrupt|unsup)", format_page(dialect), re.M)
    ) == {*codes(dialect)}


def test_every_runbook_of_a_code_is_there_and_its_index_is_made():
    assert RUNBOOKS.read_text() == runbooks()
    titles = set(re.findall(r"^## (.*)$", RUNBOOKS.read_text().lower(), re.MULTILINE))
    for row in (row for dialect in DIALECTS for row in codes(dialect).values()):
        needs_one = {*row.severities} & {Severity.REPAIRABLE, Severity.CORRUPT}
        assert row.runbook in titles if needs_one else not row.runbook, row.code


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_code_in_the_source_has_a_row(dialect):
    kinds = {code.partition("-")[0] for code in codes(dialect)}
    told = {
        node.value
        for path in (SOURCE / dialect).rglob("*.py")
        if path.name not in OTHERS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    form = re.compile(rf"(?:{'|'.join(kinds)})(?:-[a-z]+)+")
    assert {text for text in told if form.fullmatch(text)} <= {*codes(dialect)}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_row_has_a_directory_that_shows_it(dialect):
    assert {code for code, _ in CASES[dialect]} == {*codes(dialect)}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("dialect", "code", "make"),
    [
        pytest.param(dialect, code, make, id=f"{dialect}-{name}")
        for dialect in DIALECTS
        for name, code, make in numbered(CASES[dialect])
    ],
)
def test_the_row_says_what_verify_opening_and_repair_do(dialect, code, make, tmp_path):
    make(tmp_path / "root")
    check_row(dialect, code, tmp_path / "root")


def test_a_code_without_a_row_and_a_severity_that_its_row_lacks_cannot_be_told():
    with pytest.raises(KeyError):
        TABLE.finding("new", "what no row tells of")
    with pytest.raises(KeyError):
        TABLE.of(DamageError("what no row tells of", code="new"))
    with pytest.raises(ValueError, match="odd cannot be repairable: its row says note or corrupt"):
        TABLE.of(Damage("odd", "cut", 3, "more", "less", torn=True))


def test_a_code_has_one_row():
    with pytest.raises(ValueError, match="odd has two rows"):
        Codes("odd | note | a | opens | nothing\nodd | note | b | opens | nothing")


def test_a_finding_has_the_gravest_severity_of_its_row_unless_another_is_chosen():
    assert TABLE.finding("odd", "x").severity is Severity.CORRUPT
    assert TABLE.finding("odd", "x", severity=Severity.NOTE).severity is Severity.NOTE
    damage = Damage("torn", "cut", 3, "more", "less", torn=True)
    assert TABLE.of(damage, "log", 100) == TABLE.finding("torn", "cut", "log", 103, "more", "less")
    error = DamageError("wrong", code="odd", file="log", offset=3, expected="1", found="2")
    assert TABLE.of(error) == TABLE.finding("odd", "wrong", "log", 3, "1", "2")
