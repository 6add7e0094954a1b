"""The payload of a decimal: SQLite4's base 100, as the crate memcomparable 0.2 writes it.

A value is `±0.D1 D2 .. Dn * 100**E` with base-100 digits of which neither the first nor the last is zero, so it
does not depend on the scale: 1, 1.0 and 1.00 are the same bytes. A head tells the sign and E; each digit is the
byte `2 * D + 1`, the last one `2 * D`. For a negative value the head is mirrored and all after it complemented.
"""

from typing import Final

from storage_keys.errors import MalformedKey, Truncated
from storage_keys.range import flipped
from storage_keys.types import DECIMAL_DIGITS_MAX, Decimal

_ZERO: Final = 0x15
_MIRROR: Final = 2 * _ZERO
_BELOW, _FIRST, _ABOVE = 0x16, 0x17, 0x22
"""Heads of an E below 0, of E = 0 (up to 10 are the next bytes), and of an E above 10."""

_PAIRS_MAX: Final = DECIMAL_DIGITS_MAX // 2 + 1
"""38 decimal digits are in 20 base-100 digits where the point is inside of a pair."""

_CHECK: Final = "check the column's type and order"

_FROM_BCD: Final = bytes((2 * (10 * (byte >> 4) + (byte & 15)) + 1) & 255 for byte in range(256))
"""From two decimal digits of four bits each to the byte of a base-100 digit."""


def _head(exponent: int) -> bytes:
    if exponent > 10:
        return bytes((_ABOVE, exponent))
    return bytes((_FIRST + exponent,)) if exponent >= 0 else bytes((_BELOW, 255 + exponent))


_HEADS: Final = {exponent: _head(exponent) for exponent in range(-(DECIMAL_DIGITS_MAX // 2) + 1, _PAIRS_MAX)}
_EXPONENTS: Final = {head: exponent for exponent, head in _HEADS.items()}


def encode_decimal(unscaled: int, scale: int) -> bytes:
    """The payload of `unscaled / 10**scale`, a decimal of at most 38 digits, all of its scale among them."""
    if unscaled == 0:
        return bytes((_ZERO,))
    # The point is between two pairs.
    digits = str(abs(unscaled)) + "0" * (scale % 2)
    pairs = bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
    mantissa = pairs.rstrip(b"\x00").translate(_FROM_BCD)
    payload = _HEADS[len(pairs) - (scale + 1) // 2] + mantissa[:-1] + bytes((mantissa[-1] - 1,))
    return payload if unscaled > 0 else _mirrored(payload)


def decode_decimal(type_: Decimal, data: bytes, start: int) -> tuple[int, int]:
    """The unscaled value of the payload at `start`, at the type's scale, and where the payload ends.

    What `encode_decimal` does not write is refused, and so is a value that the type cannot hold.
    """
    payload = data[start : start + 2 + _PAIRS_MAX]
    if not payload:
        raise Truncated(start + 1, len(data))
    if payload[0] == _ZERO:
        return 0, start + 1
    negative = payload[0] < _ZERO
    if negative:
        payload = _mirrored(payload)
    head = payload[:2] if payload[0] in (_BELOW, _ABOVE) else payload[:1]
    if head in (b"\x16", b"\x22"):
        raise Truncated(start + 2, len(data))
    if head not in _EXPONENTS:
        raise MalformedKey(f"no decimal of {type_.precision} digits starts with {head.hex()}; {_CHECK}")
    mantissa = _mantissa(payload[len(head) :])
    end = start + len(head) + len(mantissa)
    if not mantissa or mantissa[-1] % 2:
        raise Truncated(end + 1, len(data))
    unscaled = _unscaled(type_, _EXPONENTS[head], mantissa)
    return (-unscaled if negative else unscaled), end


def _mirrored(payload: bytes) -> bytes:
    """From the payload of a value to that of its negative."""
    return bytes((_MIRROR - payload[0],)) + flipped(payload[1:])


def _mantissa(data: bytes) -> bytes:
    """The bytes up to the first even one; to the end of `data` where there is none."""
    for end, byte in enumerate(data[:_PAIRS_MAX], 1):
        if byte % 2 == 0:
            return data[:end]
    if len(data) >= _PAIRS_MAX:
        raise MalformedKey(f"a decimal has at most {DECIMAL_DIGITS_MAX} digits; {_CHECK}")
    return data


def _unscaled(type_: Decimal, exponent: int, mantissa: bytes) -> int:
    digits = [byte >> 1 for byte in mantissa]
    if digits[0] == 0 or digits[-1] == 0 or max(digits) > 99:
        raise MalformedKey(f"no decimal is written as {mantissa.hex()}; {_CHECK}")
    number = int("".join(f"{digit:02}" for digit in digits))
    shift = type_.scale + 2 * (exponent - len(digits))
    up: int = 10 ** max(shift, 0)
    down: int = 10 ** max(-shift, 0)
    unscaled, rest = divmod(number * up, down)
    if rest or unscaled >= 10**type_.precision:
        raise MalformedKey(f"the number does not fit {type_.sql_name}; check the column's type")
    return unscaled
