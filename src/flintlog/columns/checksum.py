"""CRC-32/MPEG-2 of records that lie in one buffer, in the interpreter and inside compiled kernels.

A message is a polynomial over GF(2), first bit first, and its checksum is

    (message + 0xFFFFFFFF * x^(bits - 32)) * x^32  mod  P,      P = x^32 + 0x04C11DB7

`crc32_mpeg2` is the one name for it. Interpreted, it calls `fastcrc`. After `register_numba()` a compiled
kernel that calls the same name gets code of its own: carry-less multiplication where the compiler's target
has it, slicing by 16 bytes elsewhere. Numba is imported by the functions that compile, never by this module.

Carry-less multiplication keeps 128 bits that are congruent to the message read so far. One more block of 16
bytes multiplies them by x^128 and adds the block. Multiplying a half by a 32-bit remainder x^k mod P instead
of by x^k keeps the product within 128 bits. Zeros in front of a message change nothing, so the odd bytes
(length mod 16) are taken first, and every later block is whole.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastcrc import crc32

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

POLYNOMIAL = 1 << 32 | 0x04C11DB7
INITIAL = 0xFFFFFFFF

_LOW_64 = (1 << 64) - 1


def divide(dividend: int, divisor: int) -> tuple[int, int]:
    """Return quotient and remainder of two polynomials over GF(2), bit k being the coefficient of x^k."""
    quotient = 0
    while (shift := dividend.bit_length() - divisor.bit_length()) >= 0:
        quotient |= 1 << shift
        dividend ^= divisor << shift
    return quotient, dividend


def power(exponent: int) -> int:
    """Return x^exponent mod P."""
    return divide(1 << exponent, POLYNOMIAL)[1]


def _initial_after(count: int) -> int:
    """Return what the initial value adds to the first `count` bytes: 0xFFFFFFFF * x^(8 * count - 32) mod P.

    The exponent may be negative. Dividing by x is exact once P, whose last bit is 1, clears the last bit.
    """
    value = INITIAL
    for _ in range(32):
        value = (value ^ POLYNOMIAL if value & 1 else value) >> 1
    return divide(value << 8 * count, POLYNOMIAL)[1]


# Multipliers of the (high, low) half: the high half stands 64 bits further up.
_FOLD_1_HIGH, _FOLD_1_LOW = power(128 + 64), power(128)
_FOLD_4_HIGH, _FOLD_4_LOW = power(512 + 64), power(512)
_FINAL_HIGH, _FINAL_LOW = power(32 + 64), power(32)
# Barrett: the quotient of 96 bits by P comes from a multiplication with floor(x^96 / P), whose bit 64 is set.
_BARRETT = divide(1 << 96, POLYNOMIAL)[0] & _LOW_64
_INITIAL_AFTER = tuple(_initial_after(count) for count in range(16))


def crc32_mpeg2(buffer: bytes | memoryview, start: int, end: int) -> int:
    """Return the checksum of `buffer[start:end]`; IndexError when that is not inside the buffer."""
    if not 0 <= start <= end <= len(buffer):
        raise IndexError("checksum range outside the buffer")
    return crc32.mpeg_2(buffer[start:end])


def checksums_behind(prefix: bytes, tails: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Return the checksum of `prefix` with each row of `tails` behind it, of at most 16 bytes.

    Each byte adds to the checksum what it adds alone, so a column of them is looked up at once, uncompiled.
    """
    import numpy as np

    width = tails.shape[1]
    values = np.full(len(tails), crc32.mpeg_2(prefix + bytes(width)), np.uint32)
    for at in range(width):
        values ^= _slicing_tables()[width - 1 - at][tails[:, at]]
    return values


def register_numba() -> None:
    """Let compiled kernels call `crc32_mpeg2`. Call this before they compile; a second call is harmless."""
    global _registered
    with _registration:
        if not _registered:
            _register()
            _registered = True


_registration = threading.Lock()
_registered = False


# --- slicing by 16 ---------------------------------------------------------------------------------------


@functools.cache
def _slicing_tables() -> npt.NDArray[np.uint32]:
    """Return table[k][b]: what byte b adds to the checksum when k more bytes follow it in its block."""
    import numpy as np

    rows = [np.array([divide(byte << 32, POLYNOMIAL)[1] for byte in range(256)], dtype=np.uint32)]
    for _ in range(15):
        rows.append(rows[-1] << 8 ^ rows[0][rows[-1] >> 24])
    return np.stack(rows)


def _slicing_kernel() -> Callable[[Any, Any, Any], Any]:
    import numpy as np

    tables = _slicing_tables()
    # Unsigned throughout: mixed with int64, Numba would make it a float.
    initial, octet, byte = np.uint64(INITIAL), np.uint64(8), np.uint64(255)

    def kernel(buffer: Any, start: Any, end: Any) -> Any:
        if not 0 <= start <= end <= len(buffer):
            raise IndexError("checksum range outside the buffer")
        value = initial
        i = start
        while i + 16 <= end:
            value = (
                tables[15, buffer[i] ^ (value >> np.uint64(24))]
                ^ tables[14, buffer[i + 1] ^ (value >> np.uint64(16) & byte)]
                ^ tables[13, buffer[i + 2] ^ (value >> octet & byte)]
                ^ tables[12, buffer[i + 3] ^ (value & byte)]
                ^ tables[11, buffer[i + 4]]
                ^ tables[10, buffer[i + 5]]
                ^ tables[9, buffer[i + 6]]
                ^ tables[8, buffer[i + 7]]
                ^ tables[7, buffer[i + 8]]
                ^ tables[6, buffer[i + 9]]
                ^ tables[5, buffer[i + 10]]
                ^ tables[4, buffer[i + 11]]
                ^ tables[3, buffer[i + 12]]
                ^ tables[2, buffer[i + 13]]
                ^ tables[1, buffer[i + 14]]
                ^ tables[0, buffer[i + 15]]
            )
            i += 16
        while i < end:
            value = (value << octet & initial) ^ tables[0, buffer[i] ^ (value >> np.uint64(24))]
            i += 1
        return np.int64(value)

    return kernel


# --- carry-less multiplication ---------------------------------------------------------------------------


def _carryless_kernel(head: Any, load: Any, fold: Any, finish: Any) -> Callable[[Any, Any, Any], Any]:
    """Return the kernel over the four operations of `_lane_operations`."""

    def kernel(buffer: Any, start: Any, end: Any) -> Any:
        if not 0 <= start <= end <= len(buffer):
            raise IndexError("checksum range outside the buffer")
        state = head(buffer, start, end)
        i = start + (end - start) % 16
        if end - i >= 128:
            # Four states side by side: a multiplication need not wait for the one before it.
            state, b = fold(state, _FOLD_1_HIGH, _FOLD_1_LOW, load(buffer, i)), load(buffer, i + 16)
            c, d = load(buffer, i + 32), load(buffer, i + 48)
            i += 64
            while end - i >= 64:
                state = fold(state, _FOLD_4_HIGH, _FOLD_4_LOW, load(buffer, i))
                b = fold(b, _FOLD_4_HIGH, _FOLD_4_LOW, load(buffer, i + 16))
                c = fold(c, _FOLD_4_HIGH, _FOLD_4_LOW, load(buffer, i + 32))
                d = fold(d, _FOLD_4_HIGH, _FOLD_4_LOW, load(buffer, i + 48))
                i += 64
            state = fold(state, _FOLD_1_HIGH, _FOLD_1_LOW, b)
            state = fold(state, _FOLD_1_HIGH, _FOLD_1_LOW, c)
            state = fold(state, _FOLD_1_HIGH, _FOLD_1_LOW, d)
        while i < end:
            state = fold(state, _FOLD_1_HIGH, _FOLD_1_LOW, load(buffer, i))
            i += 16
        return finish(state)

    return kernel


def _lane_operations() -> tuple[Any, Any, Any, Any]:
    """Return head, load, fold and finish as Numba intrinsics over a vector register of 128 bits.

    head(buffer, start, end)       the first (end - start) mod 16 bytes, with the initial value's part added
    load(buffer, i)                the 16 bytes from i on
    fold(state, high, low, block)  the state's halves times the two multipliers, added up, plus the block
    finish(state)                  state * x^32 mod P
    """
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic, models, register_model

    lane_type = type("Lanes", (types.Type,), {})
    vector = ir.VectorType(ir.IntType(64), 2)
    primitive: Any = models.PrimitiveModel
    register_model(lane_type)(lambda manager, kind: primitive(manager, kind, vector))
    lanes, int64 = lane_type(name="Lanes"), types.int64

    def head(_: Any, buffer: Any, start: Any, end: Any) -> Any:
        return lanes(buffer, int64, int64), _emitter(_emit_head)

    def load(_: Any, buffer: Any, i: Any) -> Any:
        return lanes(buffer, int64), _emitter(_emit_load)

    def fold(_: Any, state: Any, high: Any, low: Any, block: Any) -> Any:
        return lanes(lanes, int64, int64, lanes), _emitter(_emit_fold)

    def finish(_: Any, state: Any) -> Any:
        return int64(lanes), _emitter(_emit_finish)

    return intrinsic(head), intrinsic(load), intrinsic(fold), intrinsic(finish)


def _emitter(emit: Callable[..., Any]) -> Callable[..., Any]:
    """Return Numba's form of an emitting function, which is given the address of an array's data."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from numba.core import types

        values = list(arguments)
        if isinstance(signature.args[0], types.Array):
            values[0] = context.make_array(signature.args[0])(context, builder, value=values[0]).data
        return emit(builder, *values)

    return codegen


def _emit_read(builder: Any, data: Any, offset: Any, kind: Any) -> Any:
    """Read a value at any address, aligned or not."""
    address = builder.bitcast(builder.gep(data, [offset]), kind.as_pointer())
    return builder.load(address, align=1)


def _emit_load(builder: Any, data: Any, offset: Any) -> Any:
    from llvmlite import ir

    octets = ir.VectorType(ir.IntType(8), 16)
    order = ir.Constant(ir.VectorType(ir.IntType(32), 16), list(range(15, -1, -1)))
    raw = _emit_read(builder, data, offset, octets)
    turned = builder.shuffle_vector(raw, ir.Constant(octets, ir.Undefined), order)
    return builder.bitcast(turned, ir.VectorType(ir.IntType(64), 2))


def _emit_head(builder: Any, data: Any, start: Any, end: Any) -> Any:
    from llvmlite import ir

    int64 = ir.IntType(64)
    length = builder.sub(end, start)
    count = builder.and_(length, int64(15))
    odd = _emit_choice(
        builder,
        builder.icmp_signed(">=", length, int64(16)),
        lambda: _emit_front(builder, data, start, count),
        lambda: _emit_short(builder, data, start, length, 8),
    )
    return builder.bitcast(builder.xor(odd, _emit_initial(builder, count)), ir.VectorType(int64, 2))


def _emit_choice(builder: Any, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    with builder.if_else(condition) as (when_true, when_false):
        with when_true:
            arrivals = [(then(), builder.block)]
        with when_false:
            arrivals.append((otherwise(), builder.block))
    value = builder.phi(arrivals[0][0].type)
    for arrival in arrivals:
        value.add_incoming(*arrival)
    return value


def _emit_front(builder: Any, data: Any, start: Any, count: Any) -> Any:
    """Read 16 bytes and keep the first `count`, fewer than 16."""
    from llvmlite import ir

    int64, int128 = ir.IntType(64), ir.IntType(128)
    block = _emit_big_endian(builder, data, start, 16)
    # Two shifts, because one shift by all 128 bits is undefined.
    drop = builder.shl(builder.sub(int64(15), count), int64(3))
    return builder.lshr(builder.lshr(block, int128(8)), builder.zext(drop, int128))


def _emit_short(builder: Any, data: Any, start: Any, length: Any, width: int) -> Any:
    """Read `length` bytes, fewer than 2 * width, and nothing beside them.

    From `width` bytes on, the first `width` and the last `width` cover all and agree where they overlap.
    """
    from llvmlite import ir

    int64, int128 = ir.IntType(64), ir.IntType(128)
    if width == 0:
        return int128(0)

    def both_ends() -> Any:
        beyond = builder.sub(length, int64(width))
        first = _emit_big_endian(builder, data, start, width)
        last = _emit_big_endian(builder, data, builder.add(start, beyond), width)
        shift = builder.zext(builder.shl(beyond, int64(3)), int128)
        return builder.or_(builder.shl(first, shift), last)

    enough = builder.icmp_signed(">=", length, int64(width))
    return _emit_choice(
        builder, enough, both_ends, lambda: _emit_short(builder, data, start, length, width // 2)
    )


def _emit_big_endian(builder: Any, data: Any, offset: Any, width: int) -> Any:
    """Read `width` bytes as a number of 128 bits."""
    from llvmlite import ir

    value = _emit_read(builder, data, offset, ir.IntType(8 * width))
    if width > 1:
        value = builder.bswap(value)
    return value if width == 16 else builder.zext(value, ir.IntType(128))


def _emit_initial(builder: Any, count: Any) -> Any:
    from llvmlite import ir
    from numba.core import cgutils

    table = ir.Constant(ir.ArrayType(ir.IntType(64), 16), list(_INITIAL_AFTER))
    global_constant: Any = cgutils.global_constant
    address = global_constant(builder, "crc32_mpeg2.initial", table)
    return builder.zext(builder.load(builder.gep(address, [count.type(0), count])), ir.IntType(128))


def _emit_multiply(builder: Any, a: Any, b: Any, halves: int) -> Any:
    """Multiply one half of a by one half of b without carries: both low (0x00) or both high (0x11)."""
    from llvmlite import ir

    kind = ir.FunctionType(a.type, [a.type, a.type, ir.IntType(8)])
    function = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", fnty=kind)
    return builder.call(function, [a, b, ir.IntType(8)(halves)])


def _emit_fold(builder: Any, state: Any, high: Any, low: Any, block: Any) -> Any:
    from llvmlite import ir

    pair = ir.Constant(state.type, ir.Undefined)
    pair = builder.insert_element(pair, low, ir.IntType(32)(0))
    pair = builder.insert_element(pair, high, ir.IntType(32)(1))
    upper = _emit_multiply(builder, state, pair, 0x11)
    lower = _emit_multiply(builder, state, pair, 0x00)
    return builder.xor(builder.xor(lower, block), upper)


def _emit_finish(builder: Any, state: Any) -> Any:
    from llvmlite import ir

    int32, int64 = ir.IntType(32), ir.IntType(64)
    zero = ir.Constant(state.type, None)
    # The state times x^32, congruent, in 96 bits; then Barrett's reduction of it.
    value = _emit_fold(builder, state, int64(_FINAL_HIGH), int64(_FINAL_LOW), zero)
    words = ir.VectorType(int32, 4)
    order = ir.Constant(ir.VectorType(int32, 4), [1, 2, 3, 4])
    upper = builder.shuffle_vector(builder.bitcast(value, words), ir.Constant(words, None), order)
    upper = builder.bitcast(upper, state.type)
    constants = ir.Constant(state.type, [_BARRETT, POLYNOMIAL])
    # Bit 64 of Barrett's constant is not in its half: multiplying by it is adding `upper`, 64 bits up.
    product = _emit_multiply(builder, upper, constants, 0x00)
    order = ir.Constant(ir.VectorType(int32, 2), [0, 0])
    quotient = builder.xor(product, builder.shuffle_vector(upper, zero, order))
    multiple = _emit_multiply(builder, quotient, constants, 0x11)
    remainder = builder.extract_element(builder.xor(value, multiple), int32(0))
    return builder.and_(remainder, int64(INITIAL))


# --- registration ----------------------------------------------------------------------------------------


def _target_multiplies() -> bool:
    """Whether Numba's code may use PCLMULQDQ. Its target decides, which may be set to less than the CPU."""
    from numba.core.registry import cpu_target

    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return triple.startswith("x86_64") and "+pclmul" in features.split(",")


def _register() -> None:
    from numba.core import types
    from numba.extending import overload

    kernel = _carryless_kernel(*_lane_operations()) if _target_multiplies() else _slicing_kernel()

    def implementation(buffer: Any, start: Any, end: Any) -> Any:
        flat = isinstance(buffer, types.Array) and buffer.ndim == 1 and buffer.layout == "C"
        return kernel if flat and buffer.dtype == types.uint8 else None

    overload(crc32_mpeg2)(implementation)
