"""What `import flintlog` gives: every name, the version, and the command as a module."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flintlog
from flintlog import errors


@pytest.mark.parametrize("name", flintlog.__all__)
def test_every_name_is_there(name):
    assert getattr(flintlog, name).__doc__


def test_every_error_is_among_the_names():
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert {name for name in kinds if name.endswith("Error")} <= set(flintlog.__all__)
    assert flintlog.LockedError is errors.LockedError


def test_another_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'Quueue'"):
        _ = flintlog.Quueue


def test_the_package_is_the_command():
    done = subprocess.run([sys.executable, "-m", "flintlog", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"flintlog {flintlog.__version__}\n")
