"""Each test that takes a scenario is run with all those of its module."""

from __future__ import annotations

import pytest
from tests.crash.promises import scenarios_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" in metafunc.fixturenames:
        metafunc.parametrize(("suite", "scenario"), scenarios_of(metafunc.module.SUITES))
