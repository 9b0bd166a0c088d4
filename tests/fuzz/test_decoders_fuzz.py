"""At least 200,000 mutated inputs through every decoder and through `verify`, in a process with little memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz import decoders

# More for a longer lane: FLINTLOG_FUZZ_INPUTS=5000000 for each dialect.
INPUTS = int(os.environ.get("FLINTLOG_FUZZ_INPUTS", "52000"))
COMPILED_INPUTS = INPUTS // 20
ROOT = Path(__file__).parents[2]


def run(*words):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.fuzz.decoders", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(number) for number in re.findall(r"\d+ (?=inputs|refused)", done.stdout)]


@pytest.mark.parametrize("name", decoders.DECODERS)
def test_only_our_own_errors_in_bounded_memory(name):
    inputs, refused = run("--dialect", name, "--inputs", INPUTS, "--seed", 1)
    assert inputs == INPUTS
    assert inputs // 10 < refused < inputs  # the mutations bite, and not everything is refused at once


def test_the_short_lane_is_as_long_as_promised():
    assert INPUTS * len(decoders.DECODERS) >= 200_000


@pytest.mark.parametrize("name", decoders.DECODERS)
def test_the_compiled_decoders_fail_no_other_way(name):
    inputs, refused = run("--dialect", name, "--inputs", COMPILED_INPUTS, "--seed", 2, "--compiled")
    assert inputs == COMPILED_INPUTS
    assert 0 < refused < inputs


def test_the_bound_of_memory_is_felt():
    code = "from tests.fuzz import decoders; decoders.bound_memory(); bytearray(200 << 20)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert "MemoryError" in done.stderr


def test_every_decoder_has_files_to_begin_with():
    for name, known in decoders.DECODERS.items():
        used = {decode for _, decode in decoders.corpus(name)}
        assert len(used) >= len(known) - 1, name
        assert decoders.directories(name)
