"""A standalone Spark cluster on this machine: a master and two workers, started from the PySpark package.

Their Python does not find Flintlog by itself: `-S` leaves the path files of the environment out, and with them an
installation that points to a source tree. What a job needs of Flintlog must have been sent.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import site
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
_DEADLINE = 120


class Cluster:
    """Begun by `with`; everything is killed at the end."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.port = _free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self._workers = workers
        self._processes: list[subprocess.Popen] = []
        self.python = folder / "python"

    def __enter__(self) -> Cluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        libraries = os.pathsep.join(site.getsitepackages())
        self.python.write_text(
            f'#!/bin/sh\nexport PYTHONPATH="$PYTHONPATH:{libraries}"\nexec {sys.executable} -S "$@"\n'
        )
        self.python.chmod(0o755)
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        self._await("master", r"I have been elected leader|Starting Spark master")
        for number in range(self._workers):
            self._start(
                "worker.Worker", self.url, "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
                "--webui-port", "0", "--work-dir", str(self.folder / f"work-{number}"),
            )  # fmt: skip
        self._await("master", f"(?s)(Registering worker.*){{{self._workers}}}")
        return self

    def __exit__(self, *exc: object) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def environment(self) -> dict[str, str]:
        """For a driver: its own Python, and the other one for the executors."""
        return {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def executors(self) -> list[int]:
        """The processes of executors that run now."""
        return self._processes_with(b"CoarseGrainedExecutorBackend")

    def workers(self) -> list[int]:
        """The Python processes of executors in which tasks run; the first of each only makes the others."""
        found = self._processes_with(b"pyspark.daemon")
        return [process for process in found if _parent(process) in found]

    def _processes_with(self, word: bytes) -> list[int]:
        """Executors work below the folders of their workers, and so do their children."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                here = Path(os.readlink(entry / "cwd")).is_relative_to(self.folder)
                if here and word in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return found

    def _start(self, what: str, *arguments: str) -> None:
        name = what.partition(".")[0]
        log = (self.folder / f"{name}.log").open("ab")
        self._processes.append(
            subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments],
                env={**self.environment(), "SPARK_DAEMON_MEMORY": "256m"},
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        )
        log.close()

    def _await(self, name: str, pattern: str) -> None:
        deadline = time.monotonic() + _DEADLINE
        while time.monotonic() < deadline:
            text = (self.folder / f"{name}.log").read_text(errors="replace")
            if re.search(pattern, text):
                return
            time.sleep(0.1)
        raise AssertionError(f"the {name} did not come up:\n{text[-2000:]}")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def _parent(process: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
