"""CRC-32/MPEG-2: every form gives the same value and reads nothing outside its range."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import fastcrc
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintlog.columns import checksum
from flintlog.columns.checksums import checksums

VECTORS = [
    (b"", 0xFFFFFFFF),
    (b"\x00", 0x4E08BFB4),
    (b"\xff", 0xFFFFFF00),
    (b"\x00\x00\x00\x00", 0xC704DD7B),
    (b"1", 0x9EFBCF93),
    (b"123456789", 0x0376E6E7),
    (b"hello, world", 0xBD0822B5),
    (b"TaskFlux", 0xCA7E1DF2),
    (bytes.fromhex("0122F2348AA0"), 0x1EDB283B),
    (bytes.fromhex("8423BA3B3290CC273350D2"), 0xE70CBF17),
    (bytes(range(256)), 0x494A116A),
]

LENGTHS_LONG = [1000, 4095, 4096, 4097, 65_537, 1_000_003, 3_000_000]


def reference(buffer, start, end):
    return fastcrc.crc32.mpeg_2(bytes(buffer[start:end]))


def bulk(buffer, start, end):
    return int(checksums(buffer, [start], [end])[0])


def carryless():
    if not checksum._target_multiplies():
        return slicing()  # what is chosen on such a processor
    return numba.njit(nogil=True)(checksum._carryless_kernel(*checksum._lane_operations()))


def slicing():
    return numba.njit(nogil=True)(checksum._slicing_kernel())


FORMS = {
    "python": lambda: checksum.crc32_mpeg2,
    "slicing": slicing,
    "carryless": carryless,
    "bulk": lambda: bulk,
}


@pytest.fixture(scope="module", params=FORMS)
def crc(request):
    """One form of the checksum, as a function of bytes, start and end."""
    function = FORMS[request.param]()
    if request.param in ("python", "bulk"):
        return function
    return lambda buffer, start, end: function(np.frombuffer(buffer, np.uint8), start, end)


@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_known_vectors(crc, data, expected):
    assert crc(data, 0, len(data)) == expected


@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_known_vectors_amid_other_bytes(crc, data, expected):
    assert crc(b"\xa5" * 21 + data + b"\x5a" * 21, 21, 21 + len(data)) == expected


def test_every_short_length_at_every_alignment(crc):
    buffer = random.Random(1).randbytes(320)
    for start in range(17):
        for length in range(301):
            assert crc(buffer, start, start + length) == reference(buffer, start, start + length)


@pytest.mark.parametrize("length", LENGTHS_LONG)
def test_long_ranges(crc, length):
    buffer = memoryview(random.Random(length).randbytes(length + 3))
    for start in (0, 1, 3):
        assert crc(buffer, start, start + length) == reference(buffer, start, start + length)


def test_a_writable_buffer_is_taken_too(crc):
    buffer = bytearray(b"..123456789..")
    assert crc(memoryview(buffer), 2, 11) == 0x0376E6E7


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (0, 10), (4, 3), (10, 10), (-2, -1), (0, 1 << 62)])
def test_a_range_outside_the_buffer_is_refused(crc, start, end):
    with pytest.raises(IndexError, match="outside the buffer"):
        crc(b"123456789", start, end)


@pytest.fixture
def guarded_page():
    """A page of random bytes between two pages that must not be touched."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    memory[page : 2 * page] = random.Random(2).randbytes(page)
    anchor = ctypes.c_char.from_buffer(memory)
    address = ctypes.addressof(anchor)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for guard in (address, address + 2 * page):
        assert protect(guard, page, 0) == 0, os.strerror(ctypes.get_errno())
    view = memoryview(memory)
    middle = view[page : 2 * page]
    yield middle
    for guard in (address, address + 2 * page):
        assert protect(guard, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    middle.release()
    view.release()
    del anchor
    memory.close()


def test_nothing_is_read_before_or_after_the_mapped_page(crc, guarded_page):
    copy = bytes(guarded_page)
    size = len(copy)
    for length in [*range(301), size - 1, size]:
        for start in (0, size - length):
            assert crc(guarded_page, start, start + length) == reference(copy, start, start + length)


def folded(buffer, starts, ends):
    """Stand-in for a kernel of another module: it knows only the one name."""
    value = 0
    for i in range(len(starts)):
        value = (value * 31 + checksum.crc32_mpeg2(buffer, starts[i], ends[i])) % 1_000_003
    return value


@pytest.fixture(scope="module")
def folded_compiled():
    checksum.register_numba()
    checksum.register_numba()
    return numba.njit(folded)


@st.composite
def ranges(draw):
    data = draw(st.binary(max_size=600))
    cuts = draw(st.lists(st.tuples(*[st.integers(0, len(data))] * 2), max_size=12))
    return data, [min(cut) for cut in cuts], [max(cut) for cut in cuts]


@settings(deadline=None)
@given(ranges())
def test_a_kernel_means_the_same_interpreted_and_compiled(folded_compiled, case):
    data, starts, ends = case
    array = np.frombuffer(data, np.uint8)
    compiled = folded_compiled(array, np.array(starts, np.int64), np.array(ends, np.int64))
    assert compiled == folded(data, starts, ends)


@settings(deadline=None)
@given(ranges())
def test_checksums_in_bulk_equal_one_at_a_time(case):
    data, starts, ends = case
    values = checksums(data, starts, ends)
    assert values.dtype == np.uint32
    expected = [reference(data, a, b) for a, b in zip(starts, ends, strict=True)]
    assert values.tolist() == expected


def test_bulk_wants_as_many_ends_as_starts():
    with pytest.raises(ValueError, match="same length"):
        checksums(b"123", [0, 1], [2])


@given(st.integers(0, 1 << 200), st.integers(1, 1 << 70))
def test_division_of_polynomials(dividend, divisor):
    quotient, remainder = checksum.divide(dividend, divisor)
    assert remainder.bit_length() < divisor.bit_length()
    for bit in range(quotient.bit_length()):
        if quotient >> bit & 1:
            remainder ^= divisor << bit
    assert remainder == dividend


def run(script, **environment):
    """Run a script in a fresh interpreter and return what it prints."""
    source = str(Path(checksum.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": source, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_small_inputs_never_load_the_compiler():
    script = """
        import sys
        from flintlog.columns import checksum
        from flintlog.columns.checksums import checksums
        assert checksum.crc32_mpeg2(b"123456789", 0, 9) == 0x0376E6E7
        assert checksums(b"123456789", [0, 0], [9, 0]).tolist() == [0x0376E6E7, 0xFFFFFFFF]
        print("numba" in sys.modules, "llvmlite" in sys.modules)
    """
    assert run(script) == ["False", "False"]


CACHED = """
    import numpy as np
    from flintlog.columns import checksum, checksums, compile
    data = np.frombuffer(bytes(range(256)), np.uint8)
    compiled = compile._dispatcher(checksums._checksums.python)
    one = np.empty(1, np.uint32)
    compiled(data, np.array([0]), np.array([256]), one)
    assert one[0] == 0x494A116A
    print(checksum._target_multiplies(), sum(compiled.stats.cache_hits.values()))
"""


def test_the_cache_serves_a_second_process_and_keeps_targets_apart(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    plain = {**cache, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    here = str(checksum._target_multiplies())
    assert run(CACHED, **cache) == [here, "0"]
    assert run(CACHED, **plain) == ["False", "0"]
    assert run(CACHED, **cache) == [here, "1"]
    assert run(CACHED, **plain) == ["False", "1"]


@pytest.mark.parametrize("width", [0, 1, 8, 16])
def test_the_checksums_behind_a_prefix_are_those_of_the_whole(width):
    tails = np.random.default_rng(width).integers(0, 256, (50, width), np.uint8)
    for prefix in (b"", b"R", b"R" + bytes(range(40))):
        expected = [checksum.crc32_mpeg2(prefix + row.tobytes(), 0, len(prefix) + width) for row in tails]
        assert checksum.checksums_behind(prefix, tails).tolist() == expected
