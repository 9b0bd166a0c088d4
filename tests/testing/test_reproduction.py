"""One line brings a failure back."""

from __future__ import annotations

import shlex

import pytest
from tests.testing.toy import BAD_SUM, SUITE, Habits, suite

from flintlog.errors import RefusedError
from flintlog.testing import explore, inject_everywhere, reproduce
from flintlog.testing.__main__ import main


def test_the_line_of_a_violation_shows_it_again():
    for violation in explore(BAD_SUM.scenario("append"), BAD_SUM.oracle).violations:
        told: list[str] = []
        broken = reproduce(BAD_SUM, violation.line, tell=told.append)
        assert broken is not None
        assert (broken.promise, broken.detail) == (violation.promise, violation.detail)
        assert any("write /toy/log/records" in line for line in told)


def test_the_line_of_a_fault_shows_it_again():
    broken_suite = suite(Habits(stops_after_failure=False))
    for violation in inject_everywhere(broken_suite.scenario("append"), broken_suite.oracle).violations:
        broken = reproduce(broken_suite, violation.line, tell=lambda line: None)
        assert broken is not None
        assert (broken.promise, broken.detail) == (violation.promise, violation.detail)


def test_a_violation_without_a_sync_is_shown_with_the_sync_taken_away():
    (site,) = [site for site in explore(SUITE.scenario("batch"), SUITE.oracle).sites if ":_append:" in site][
        :1
    ]
    violation = explore(SUITE.scenario("batch"), SUITE.oracle, elide=site).violations[0]
    assert reproduce(SUITE, violation.line, elide=site, tell=lambda line: None) is not None
    assert reproduce(SUITE, violation.line, tell=lambda line: None) is None


def test_the_command_of_a_violation_runs(capsys):
    violation = explore(BAD_SUM.scenario("append"), BAD_SUM.oracle, violations_max=1).violations[0]
    program, flag, module, *arguments = shlex.split(violation.command(BAD_SUM.target))
    assert (program, flag, module) == ("python", "-m", "flintlog.testing")
    assert main(arguments) == 3
    assert "broken: history:" in capsys.readouterr().out


def test_an_image_is_written_to_a_new_directory_only(tmp_path):
    line = "append:call=12:data=torn[12]@5:names=kept"
    target = tmp_path / "image"
    assert reproduce(SUITE, line, to=str(target), tell=lambda line: None) is None
    assert (target / "toy/log/records").read_bytes()[:12] == b"TOYLOG1\n\x00\x00\x00\x14"
    assert (target / "toy/log/records").stat().st_size == 13
    with pytest.raises(RefusedError):
        reproduce(SUITE, line, to=str(target), tell=lambda line: None)


def test_explore_prints_totals(capsys):
    assert main(["explore", SUITE.target, "--syncs"]) == 0
    out = capsys.readouterr().out
    assert "total: 4 scenarios: 63 boundaries" in out
    assert "NOBODY" not in out


def test_explore_fails_and_prints_the_command_for_a_broken_store(capsys):
    assert main(["explore", BAD_SUM.target]) == 3
    assert (
        'python -m flintlog.testing reproduce tests.testing.toy:BAD_SUM "append:call='
        in capsys.readouterr().out
    )


def test_a_target_that_is_no_suite_is_refused(capsys):
    assert main(["explore", "tests.testing.toy:ToyLog"]) == 2
    assert "is not a flintlog.testing.Suite" in capsys.readouterr().err
