"""XXH64 of many rows at once, with a seed for each: the same as `xxhash.xxh64_intdigest`.

The last step of XXH64 leaves its top half as it is, so who needs no more than a prefix leaves it out
(`whole=False`).
"""

from typing import Final

import numpy as np
import numpy.typing as npt
from xxhash import xxh64_intdigest

from storage_keys.arrow.span import Spans, windows

Words = npt.NDArray[np.uint64]


def _word(value: int) -> Words:
    # numpy takes an array without dimensions faster than a scalar of its own.
    return np.array(value & 0xFFFFFFFFFFFFFFFF, dtype=np.uint64)


_P1_VALUE, _P2_VALUE = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
_P1: Final = _word(_P1_VALUE)
_P2: Final = _word(_P2_VALUE)
_P3: Final = _word(0x165667B19E3779F9)
_P4: Final = _word(0x85EBCA77C2B2AE63)
_P5: Final = _word(0x27D4EB2F165667C5)
_LANES: Final = (_word(_P1_VALUE + _P2_VALUE), _P2, _word(0), _word(-_P1_VALUE))
"""What the seed is added to at the start of a stripe's four lanes."""
_SHIFT: Final = tuple(_word(bits) for bits in range(64))

_STRIPE: Final = 32
_LONG: Final = 320
"""From about here on the library's own loop over the bytes is faster than numpy's over the rows."""


def hash_words(words: Words, seeds: Words, whole: bool) -> Words:
    """H of 8 bytes each; `seeds` is one for all or one for each."""
    hashes, scratch = np.multiply(words, _P2), np.empty_like(words)
    _rotate_left(hashes, 31, scratch)
    np.multiply(hashes, _P1, hashes)
    np.bitwise_xor(hashes, seeds + (_P5 + _word(8)), hashes)
    _rotate_left(hashes, 27, scratch)
    np.multiply(hashes, _P1, hashes)
    np.add(hashes, _P4, hashes)
    return _avalanche(hashes, scratch, whole)


def hash_spans(spans: Spans, seeds: Words, whole: bool) -> Words:
    """H of each row's bytes; `seeds` is one for each."""
    lengths = spans.lengths
    hashes = seeds + _P5
    long = np.flatnonzero((lengths >= _STRIPE) & (lengths <= _LONG))
    if len(long):
        hashes[long] = _striped(spans, long, seeds[long])
    hashes += lengths.view(np.uint64)
    _take_rest(spans, hashes)
    hashes = _avalanche(hashes, np.empty_like(hashes), whole)
    for row in np.flatnonzero(lengths > _LONG).tolist():
        start, end = int(spans.starts[row]), int(spans.starts[row] + lengths[row])
        hashes[row] = xxh64_intdigest(spans.data[start:end].data, int(seeds[row]))
    return hashes


def _striped(spans: Spans, rows: npt.NDArray[np.int64], seeds: Words) -> Words:
    """The state after all whole stripes of the rows, which have at least one."""
    stripes = spans.lengths[rows] // _STRIPE
    # Rows of more stripes first: those that go on are always the first ones.
    order = np.argsort(-stripes, kind="stable")
    at, stripes, seeds = spans.starts[rows][order], stripes[order], seeds[order]
    lanes = [seeds + start for start in _LANES]
    for stripe in range(int(stripes[0])):
        going = int(np.searchsorted(-stripes, -stripe))
        words = _stripe_at(spans, at[:going] + _STRIPE * stripe)
        for lane, state in enumerate(lanes):
            state[:going] = _round(state[:going], words[:, lane])
    hashes = np.zeros_like(seeds)
    for state, bits in zip(lanes, (1, 7, 12, 18), strict=True):
        hashes += _rotated(state, bits)
    for state in lanes:
        hashes = (hashes ^ _round(_word(0), state)) * _P1 + _P4
    found = np.empty_like(hashes)
    found[order] = hashes
    return found


def _take_rest(spans: Spans, hashes: Words) -> None:
    """The up to 31 bytes after the stripes: words of 8, then 4 bytes, then one by one; `hashes` in place."""
    left = spans.lengths % _STRIPE
    rest = _stripe_at(spans, spans.starts + spans.lengths - left)
    words = left // 8
    for at in range(int(words.max(initial=0))):
        mixed = hashes ^ _round(_word(0), rest[:, at])
        _set(hashes, _rotated(mixed, 27) * _P1 + _P4, words > at)
    tails = rest.reshape(-1)[words + np.arange(0, 4 * len(words), 4)]
    left &= 7
    has = left >= 4
    if has.any():
        mixed = hashes ^ ((tails & _word(0xFFFFFFFF)) * _P1)
        _set(hashes, _rotated(mixed, 23) * _P2 + _P3, has)
        tails >>= (left & 4).view(np.uint64) << _SHIFT[3]
        left &= 3
    for at in range(int(left.max(initial=0))):
        mixed = hashes ^ ((tails >> _SHIFT[8 * at] & _word(0xFF)) * _P5)
        _set(hashes, _rotated(mixed, 11) * _P1, left > at)


def _stripe_at(spans: Spans, at: npt.NDArray[np.int64]) -> Words:
    """The 4 words that begin at each place, one row each; beyond a row's end they are another row's."""
    return windows(spans.data, _STRIPE)[at].view("<u8").reshape(-1, 4)


def _set(hashes: Words, others: Words, where: npt.NDArray[np.bool_]) -> None:
    # Of numpy's assignments under a mask each takes many times as long.
    others ^= hashes
    others &= -where.astype(np.uint64)
    hashes ^= others


def _avalanche(hashes: Words, scratch: Words, whole: bool) -> Words:
    for bits, prime in ((33, _P2), (29, _P3)):
        np.right_shift(hashes, _SHIFT[bits], scratch)
        np.bitwise_xor(hashes, scratch, hashes)
        np.multiply(hashes, prime, hashes)
    if whole:
        np.right_shift(hashes, _SHIFT[32], scratch)
        np.bitwise_xor(hashes, scratch, hashes)
    return hashes


def _round(state: Words, words: Words) -> Words:
    return _rotated(state + words * _P2, 31) * _P1


def _rotated(words: Words, bits: int) -> Words:
    found = words.copy()
    _rotate_left(found, bits, np.empty_like(found))
    return found


def _rotate_left(words: Words, bits: int, scratch: Words) -> None:
    np.left_shift(words, _SHIFT[bits], scratch)
    np.right_shift(words, _SHIFT[64 - bits], words)
    np.bitwise_or(words, scratch, words)
