"""Decimal payloads of whole columns (`storage_keys.base100`): the unscaled values from and to base 100.

A value has 4 base-100 digits in each chunk of 10**8, and the point stands between two of them: where the
scale is odd, the last digit of the unscaled value is the first of its pair.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_keys.arrow.canonical import halves
from storage_keys.arrow.span import Bytes, Places, Spans, padded, windows
from storage_keys.types import LONG_DIGITS_MAX, Decimal

_U64 = npt.NDArray[np.uint64]
_Mask = npt.NDArray[np.bool_]

_CHUNK: Final = 10**8
_LOW: Final = np.uint64(0xFFFFFFFF)
_32: Final = np.uint64(32)


_ZERO, _BELOW, _FIRST, _ABOVE = 0x15, 0x16, 0x17, 0x22
_ZERO_EXPONENT: Final = 20
"""Which no value has: zero has a head of its own."""


def _heads() -> tuple[Bytes, Bytes, Places]:
    """By exponent, those below 0 from the end: the first byte, the second, whether there is one."""
    first, second, wide = np.zeros(41, np.uint8), np.zeros(41, np.uint8), np.zeros(41, np.int64)
    for exponent in range(-20, _ZERO_EXPONENT):
        wide[exponent] = not 0 <= exponent <= 10
        first[exponent] = _BELOW if exponent < 0 else _ABOVE if exponent > 10 else _FIRST + exponent
        second[exponent] = exponent % 255 if exponent < 0 else exponent
    first[_ZERO_EXPONENT] = _ZERO
    return first, second, wide


_FIRST_BYTES, _SECOND_BYTES, _WIDE = _heads()
PAYLOAD_BYTES: Final = 22
"""Of the longest payload: two for the head and 20 digits."""
_HEAD_BYTES: Final = 3
"""A tag, and the one or two bytes that tell the sign and the exponent."""


def decimal_spans(type_: Decimal, column: pa.Array, tag: int, flipped: bool) -> Spans:
    """The tag and the payload of each value of a decimal128 column without NULLs."""
    low, high = halves(column)
    negative = high >> np.uint64(63) != 0
    # One row for each pair: they are worked on pair by pair.
    pairs = _pairs_of(type_, *_negated(low, high, negative))
    count = len(pairs)
    leading, trailing = _zeros(pairs), _zeros(pairs[::-1])
    trailing[leading == count] = 0
    flips = _ones(negative != flipped)
    digits = 2 * pairs + 1
    for at in range(count):
        digits[at] -= trailing == count - 1 - at
    cells = np.empty((len(low), _HEAD_BYTES + count), np.uint8)
    cells[:, _HEAD_BYTES:] = (digits ^ flips).T
    data = cells.reshape(-1)
    # The head ends where the first digit is, and the tag is before it.
    ends = np.arange(1, len(low) + 1) * cells.shape[1] - trailing
    mantissas = ends + trailing - count + leading
    exponents = np.where(leading == count, _ZERO_EXPONENT, count - _pairs_below(type_) - leading)
    head, wide = _FIRST_BYTES[exponents], _WIDE[exponents]
    data[mantissas - 1] = _SECOND_BYTES[exponents] ^ flips
    data[mantissas - 1 - wide] = np.where(negative, 2 * _ZERO - head, head) ^ (255 if flipped else 0)
    starts = mantissas - 2 - wide
    data[starts] = tag
    return Spans(padded(data), starts, ends - starts)


def _zeros(pairs: Bytes) -> Places:
    """The pairs that are zero before the first one that is not."""
    found, going = np.zeros(pairs.shape[1], np.uint8), np.ones(pairs.shape[1], np.bool_)
    for pair in pairs:
        going &= pair == 0
        found += going
    return found.astype(np.int64)


def _ones(where: _Mask) -> Bytes:
    return where.view(np.uint8) * np.uint8(255)


def decimals_of(type_: Decimal, data: Bytes, at: Places) -> tuple[_U64, _U64, Places, _Mask]:
    """The payloads from `at[i]` on: the halves of the unscaled values, where the payloads end, which are good.

    Bytes must be there to read for `PAYLOAD_BYTES` from each place on.
    """
    found = windows(data, PAYLOAD_BYTES)[at].view(np.uint8).reshape(-1, PAYLOAD_BYTES).T.copy()
    zero = found[0] == _ZERO
    negative = found[0] < _ZERO
    head = np.where(negative, 2 * _ZERO - found[0].astype(np.int64), found[0])
    found[1:] ^= _ones(negative)
    wide = (head == _BELOW) | (head == _ABOVE)
    good = zero | ((head >= _BELOW) & (head <= _ABOVE))
    exponents = np.where(head == _BELOW, found[1].astype(np.int64) - 255, head - _FIRST)
    exponents = np.where(head == _ABOVE, found[1], exponents)
    good &= ~(wide & np.where(head == _BELOW, exponents >= 0, exponents <= 10))
    mantissa = np.where(wide, found[2:], found[1:-1])
    pairs, lengths, fits = _placed(type_, mantissa, exponents, zero)
    good &= fits
    low, high = _unscaled(type_, pairs)
    low, high = _negated(low, high, negative)
    return low, high, at + 1 + wide + lengths, good


def _placed(type_: Decimal, mantissa: Bytes, exponents: Places, zero: _Mask) -> tuple[Bytes, Places, _Mask]:
    """The type's pairs with the digits at their places, how many digits there are, and which rows are right."""
    size, count, unused = len(mantissa), _pair_count(type_), _pairs_unused(type_)
    # A digit with another one after it is odd.
    lengths = _zeros(1 - mantissa % 2) + 1
    first = count - _pairs_below(type_) - exponents
    good = zero | ((lengths <= size) & (first >= unused) & (first + lengths <= count))
    first[~good | zero] = 0
    lengths[~good | zero] = 0
    digits = mantissa >> 1
    for at in range(size):
        has, last = lengths > at, lengths == at + 1
        good &= ~has | ((digits[at] <= 99) & ((digits[at] > 0) | ((at > 0) & ~last)))
        digits[at] *= has
    rows = np.zeros((mantissa.shape[1], count + size), np.uint8)
    places = first + np.arange(len(rows)) * rows.shape[1]
    windows(rows.reshape(-1), size)[places] = np.ascontiguousarray(digits.T).view(f"V{size}")[:, 0]
    pairs = rows.T.copy()
    above, below = pairs[unused], pairs[count - 1]
    if (type_.precision - type_.scale) % 2:
        good &= above <= 9
    if type_.scale % 2:
        good &= below % 10 == 0
    return pairs[:count], lengths, good


def _pairs_below(type_: Decimal) -> int:
    """The base-100 digits after the point."""
    return (type_.scale + 1) // 2


def _pair_count(type_: Decimal) -> int:
    return 4 * (-(-(type_.precision + type_.scale % 2) // 8))


def _pairs_unused(type_: Decimal) -> int:
    """The first ones of the pairs, which the type's precision never fills."""
    return _pair_count(type_) - _pairs_below(type_) - (type_.precision - type_.scale + 1) // 2


def _negated(low: _U64, high: _U64, where: _Mask) -> tuple[_U64, _U64]:
    """The two's complement in the rows that say so."""
    ones = where.astype(np.uint64)
    low, high = (low ^ -ones) + ones, high ^ -ones
    return low, high + (where & (low == 0))


def _pairs_of(type_: Decimal, low: _U64, high: _U64) -> Bytes:
    """The base-100 digits of unsigned values, the largest first, one row for each digit."""
    # A limb of 32 bits and a rest below 10**8 are one word together.
    limbs = (
        [low] if type_.precision <= LONG_DIGITS_MAX else [low & _LOW, low >> _32, high & _LOW, high >> _32]
    )
    pairs = np.empty((_pair_count(type_), len(low)), np.uint8)
    shift = 10 if type_.scale % 2 else 1
    for at in range(len(pairs) - 4, -1, -4):
        chunk = _take_chunk(limbs, _CHUNK // shift).astype(np.uint32) * np.uint32(shift)
        shift = 1
        upper, lower = np.divmod(chunk, np.uint32(10_000))
        for start, both in ((at, upper), (at + 2, lower)):
            pairs[start], pairs[start + 1] = np.divmod(both, np.uint32(100))
    return pairs


def _take_chunk(limbs: list[_U64], size: int) -> _U64:
    """Divide the number by `size`, in place; the remainder. Limbs that become zero throughout are dropped."""
    divisor, rest = np.uint64(size), np.zeros_like(limbs[0])
    for at in range(len(limbs) - 1, -1, -1):
        whole = limbs[at] if at == len(limbs) - 1 else rest << _32 | limbs[at]
        limbs[at] = whole // divisor
        rest = whole - limbs[at] * divisor
    while len(limbs) > 1 and not limbs[-1].any():
        limbs.pop()
    return rest


def _unscaled(type_: Decimal, pairs: Bytes) -> tuple[_U64, _U64]:
    """The inverse of `_pairs_of`."""
    long = type_.precision > LONG_DIGITS_MAX
    limbs = [np.zeros(pairs.shape[1], np.uint64) for _ in range(4 if long else 1)]
    shift = 1
    for at in range(0, len(pairs), 4):
        chunk = np.zeros(pairs.shape[1], np.uint64)
        for pair in pairs[at : at + 4]:
            chunk = chunk * np.uint64(100) + pair
        if at + 4 == len(pairs) and type_.scale % 2:
            shift = 10
        _add_chunk(limbs, _CHUNK // shift, chunk // np.uint64(shift))
    if not long:
        return limbs[0], np.zeros_like(limbs[0])
    return limbs[0] | limbs[1] << _32, limbs[2] | limbs[3] << _32


def _add_chunk(limbs: list[_U64], size: int, chunk: _U64) -> None:
    """Multiply the number by `size` and add the chunk, in place."""
    carry, factor = chunk, np.uint64(size)
    for at, limb in enumerate(limbs):
        carry = limb * factor + carry
        if len(limbs) > 1:
            limbs[at], carry = carry & _LOW, carry >> _32
        else:
            limbs[at] = carry
