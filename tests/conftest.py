"""What all tests share: Spark tests run one after the other on one session; the crash suite shows its totals."""

from __future__ import annotations

import signal
from typing import Any

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts what it puts into the background so
    signal.signal(signal.SIGINT, signal.default_int_handler)

_TOTALS = {
    "crash": "crash suite: {} scenarios, {} call boundaries, {} images, {} more in recovery, {} recoveries",
    "fault": "error injection: {} scenarios, {} calls, {} faults",
    "proof": "fsync-removal proof: {} run, {} sites, each missed when it is taken away",
    "histories": "random histories against the model: {} tests, {} histories, {} steps",
    "kill": "kill -9 under load: {} run, {} processes killed, {} acknowledged changes, none lost",
}


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Add up what the crash tests recorded; a failed test shows its own report."""
    rows: dict[str, list[list[int]]] = {}
    for report in terminalreporter.stats.get("passed", []):
        for name, numbers in report.user_properties:
            if name in _TOTALS:
                rows.setdefault(name, []).append(numbers)
    if not rows:
        return
    terminalreporter.section("totals")
    for name, text in _TOTALS.items():
        if name in rows:
            sums = [sum(column) for column in zip(*rows[name], strict=True)]
            terminalreporter.write_line(text.format(len(rows[name]), *(f"{total:,}" for total in sums)))
