"""A job for every night: exports what is new to the lake, checks the log, and drops what is no longer needed.

python examples/daily.py DIRECTORY LAKE     # one night
python examples/daily.py [HOME]             # three of them, on a log of its own

You may kill it and run it again, or run it twice: the exports know how far they came, and a compact log stays as it is.
It ends with 1 when the log needs a person. In crontab:

    15 2 * * *  flock -n /run/accounts.lock python /srv/jobs/daily.py /srv/accounts /lake/accounts

In Airflow: `BashOperator(task_id="accounts", bash_command="python /srv/jobs/daily.py /srv/accounts /lake/accounts")` in
a DAG with `max_active_runs=1`.
"""

from __future__ import annotations

import sys
import tempfile

import flintlog
from flintlog import Datastore
from flintlog.errors import LockedError
from flintlog.pipeline.jobs import export


def main(directory: str, lake: str) -> int:
    # Before the compaction: it drops entries.
    entries = export(None, directory, f"{lake}/entries")
    print(f"entries: {entries.rows} new, up to {entries.position}")
    state = export(None, directory, f"{lake}/state", view="state", format="delta")
    print("state: as it was" if state.commit is None else f"state: {state.rows} rows")

    log = flintlog.open(directory)
    found = log.verify()
    print(f"verify: {found.verdict}")
    if found.verdict != "clean":
        for finding in found.findings:
            print(f"  {finding.file}: {finding.message}")
        return 1
    try:
        print(f"compact: {log.plan_compact().apply()}")
    except LockedError:
        print("compact: left to the store that has the log open")
    return 0


def write(directory: str, balance: bytes) -> None:
    """What an application does all day."""
    with Datastore(directory, snapshot=False) as store:
        with store.channel().session() as session:
            session.put_many(1, [b"ada", b"grace"], [balance, balance])
        store.switch_epoch()


def show(home: str) -> None:
    """Three nights."""
    for balance in (b"10", b"25"):
        write(f"{home}/accounts", balance)
        main(f"{home}/accounts", f"{home}/lake")
    main(f"{home}/accounts", f"{home}/lake")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        sys.exit(main(*sys.argv[1:]))
    elif len(sys.argv) == 2:
        show(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as directory:
            show(directory)
