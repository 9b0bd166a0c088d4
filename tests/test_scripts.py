"""The scripts behind the Makefile find what is there, install what they may, and else name the command."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


class Machine:
    """A PATH with the few tools the scripts use, and programs of ours beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for tool in ("sh", "sed", "head", "cat"):
            os.symlink(shutil.which(tool), folder / tool)
        self.program("id", "echo 1000")

    def program(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPTS / script)],
            env={"PATH": str(self.folder), **environment},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def java(version: str) -> str:
    return f"""echo 'openjdk version "{version}" 2024-01-01' >&2"""


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_a_java_that_spark_can_use_is_named(machine, version):
    machine.program("java", java(version))
    done = machine.run("java")
    assert done.returncode == 0
    assert done.stdout == f"java: java, version {version.split('.')[0]}\n"


def test_java_home_goes_before_the_path(machine, tmp_path):
    machine.program("java", java("11.0.2"))
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{java('21.0.1')}\n")
    (home / "bin" / "java").chmod(0o755)
    done = machine.run("java", JAVA_HOME=str(home))
    assert done.returncode == 0
    assert done.stdout == f"java: {home}/bin/java, version 21\n"


@pytest.mark.parametrize("version", [None, "11.0.2", "1.8.0_292"])
def test_without_a_fitting_java_the_commands_that_install_it_are_named(machine, version):
    if version is not None:
        machine.program("java", java(version))
    done = machine.run("java")
    assert done.returncode == 1
    for command in (
        "sudo apt-get install openjdk-17-jre-headless",
        "sudo dnf install java-17-openjdk-headless",
        "brew install openjdk@17",
    ):
        assert command in done.stderr


def test_root_gets_java_installed(machine, tmp_path):
    machine.program("id", "echo 0")
    log = tmp_path / "calls"
    installed = java("17.0.15").replace("'", "'\\''")
    machine.program(
        "apt-get",
        f"""echo "$@" >> {log}
case "$1" in install)
    printf '#!/bin/sh\\n%s\\n' '{installed}' > {machine.folder}/java
    {shutil.which("chmod")} +x {machine.folder}/java;;
esac""",
    )
    done = machine.run("java")
    assert done.returncode == 0, done.stderr
    assert log.read_text().splitlines() == ["update -qq", "install -y -qq openjdk-17-jre-headless"]
    assert done.stdout.splitlines()[-1] == "java: java, version 17"


def test_apt_get_that_fails_ends_in_the_commands_and_not_in_success(machine):
    machine.program("id", "echo 0")
    machine.program("apt-get", "exit 100")
    done = machine.run("java")
    assert done.returncode == 1
    assert "brew install openjdk@17" in done.stderr


def test_the_first_python_that_fits_is_chosen(machine):
    machine.program("python3", "exit 1")
    machine.program("python3.12", "exit 0")
    machine.program("python3.11", "exit 0")
    assert machine.run("python").stdout == "python3.12\n"


def test_a_named_python_is_the_only_one_tried(machine):
    machine.program("python3", "exit 0")
    machine.program("mine", "exit 0")
    assert machine.run("python", PYTHON="mine").stdout == "mine\n"
    assert machine.run("python", PYTHON="missing").returncode == 1


def test_without_python_the_commands_that_install_it_are_named(machine):
    done = machine.run("python")
    assert done.returncode == 1
    assert "apt-get install python3 python3-venv" in done.stderr
