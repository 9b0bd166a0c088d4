"""What all tests share: Spark tests run one after the other on one session; the crash suite shows its totals."""

from __future__ import annotations

import signal
import zlib
from collections.abc import Callable
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rest",
        action="store_true",
        help="run what a run without it leaves out: long tests, and samples whole",
    )


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))
    if any("::" in argument for argument in config.args):
        return  # asked for by name
    runs = _runs_in_rest if config.getoption("--rest") else _runs_at_first
    left_out = [item for item in items if not runs(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if runs(item)]


def _runs_at_first(item: pytest.Item) -> bool:
    sampled = item.get_closest_marker("sampled")
    return item.get_closest_marker("long") is None and (sampled is None or _is_part(item, *sampled.args))


def _runs_in_rest(item: pytest.Item) -> bool:
    sampled = item.get_closest_marker("sampled")
    if sampled is not None:
        return not _is_part(item, *sampled.args)
    return item.get_closest_marker("long") is not None or "part" in getattr(item, "fixturenames", ())


def _is_part(item: pytest.Item, count: int) -> bool:
    """Is this the one of so many cases that the first run takes? The same each time."""
    return zlib.crc32(item.nodeid.encode()) % count == 0


@pytest.fixture
def part(request: pytest.FixtureRequest) -> Callable[[int], tuple[int, int]]:
    """Which cases a test takes that has many inside: `part(8)` is (3, 8), or (0, 1) where it takes all."""

    def of(count: int) -> tuple[int, int]:
        if request.config.getoption("--rest"):
            return 0, 1
        return zlib.crc32(request.node.nodeid.encode()) % count, count

    return of


@pytest.fixture
def still(monkeypatch):
    """Nothing writes beside the test, so that no look at a directory waits before it looks again."""
    monkeypatch.setattr("flintlog.disk.kernel.LocalKernel.pause", lambda kernel, seconds: None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session in local[2]; found without a register call, as a user would."""
    from flintlog.pipeline.session import session

    home = tmp_path_factory.mktemp("spark")
    running = session(
        **{
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.local.dir": str(home / "local"),
            "spark.driver.memory": "1g",
        }
    )
    running.sparkContext.setLogLevel("OFF")  # errors reach the tests as exceptions
    yield running
    running.stop()


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
