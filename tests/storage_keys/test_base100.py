"""Decimals against the examples of SQLite4's key encoding, and against bytes that nobody wrote."""

import decimal
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_keys.base100 import decode_decimal, encode_decimal
from storage_keys.column import decode_whole, encode_column
from storage_keys.errors import MalformedKey, StorageKeyError, Truncated, ValueOutOfRange
from storage_keys.types import Decimal

WIDE = Decimal(38, 19)


# https://sqlite.org/src4/doc/trunk/www/key_encoding.wiki, under heads of its "exponent and mantissa".
@pytest.mark.parametrize(
    ("number", "payload"),
    [
        ("0", "15"),
        ("1.0", "18 02"),
        ("10", "18 14"),
        ("99", "18 c6"),
        ("99.01", "18 c7 02"),
        ("99.0001", "18 c7 01 02"),
        ("100", "19 02"),
        ("100.1", "19 03 01 14"),
        ("1234", "19 19 44"),
        ("9999.000009", "19 c7 c7 01 01 12"),
        ("12345", "1a 03 2f 5a"),
        ("1234.5", "19 19 45 64"),
        ("12.345", "18 19 45 64"),
        ("0.123", "17 19 3c"),
        ("0.0123", "17 03 2e"),
        ("0.00123", "16 fe 19 3c"),
        ("9223372036854775807", "21 13 2d 43 91 07 89 6d 9b 75 0e"),
        ("-1", "12 fd"),
        ("-99.01", "12 38 fd"),
        ("-0.00123", "14 01 e6 c3"),
    ],
)
def test_golden_bytes(number: str, payload: str) -> None:
    value = decimal.Decimal(number)
    data = encode_column(WIDE, value)
    assert data == bytes.fromhex("01" + payload)
    assert decode_whole(WIDE, data) == value


def test_exponents_from_the_smallest_to_the_largest() -> None:
    whole, fraction = Decimal(38, 0), Decimal(38, 38)
    assert encode_decimal(10**37, 0).hex() == "221314"
    assert encode_decimal(-(10**37), 0).hex() == "08eceb"
    assert encode_decimal(1, 38).hex() == "16ed02"
    assert encode_decimal(-1, 38).hex() == "1412fd"
    for type_ in (whole, fraction, Decimal(38, 1), Decimal(38, 37)):
        unscaled = [sign * 10**digits for digits in range(38) for sign in (-1, 1)]
        unscaled += [sign * (10**digits - 1) for digits in range(1, 39) for sign in (-1, 1)]
        encoded = {number: encode_decimal(number, type_.scale) for number in unscaled}
        assert sorted(unscaled, key=encoded.__getitem__) == sorted(unscaled)
        for number, data in encoded.items():
            assert decode_decimal(type_, b"x" + data + b"y", 1) == (number, 1 + len(data))


def test_equal_numbers_have_the_same_bytes_at_every_scale_and_come_back_at_the_types() -> None:
    forms = ["1", "1.0", "1.00", "1E+0", "0.1E+1", "1." + "0" * 5000]
    data = {encode_column(type_, decimal.Decimal(form)) for form in forms for type_ in (Decimal(1, 0), WIDE)}
    assert data == {bytes.fromhex("011802")}
    assert str(decode_whole(Decimal(9, 3), bytes.fromhex("011802"))) == "1.000"
    zeros = {encode_column(WIDE, decimal.Decimal(zero)) for zero in ("0", "-0.00", "0E+999999", "0E-999999")}
    assert zeros == {bytes.fromhex("0115")}
    assert str(decode_whole(Decimal(38, 38), bytes.fromhex("0115"))) == "0E-38"


@pytest.mark.parametrize(
    ("number", "error"),
    [
        ("NaN", MalformedKey),
        ("sNaN", MalformedKey),
        ("Infinity", MalformedKey),
        ("0.001", MalformedKey),
        ("1.005", MalformedKey),
        ("1E-999999999", MalformedKey),
        ("1" + "0" * 5000 + "." + "1" * 5000, ValueOutOfRange),
        ("10000000", ValueOutOfRange),
        ("-9999999.995", StorageKeyError),
        ("1E+7", ValueOutOfRange),
        ("1E+999999999", ValueOutOfRange),
    ],
)
def test_what_a_type_cannot_hold_is_refused(number: str, error: type[StorageKeyError]) -> None:
    with pytest.raises(error) as refused:
        encode_column(Decimal(9, 2), decimal.Decimal(number))
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("", Truncated),
        ("18", Truncated),
        ("1803", Truncated),
        ("22", Truncated),
        ("08", Truncated),
        ("16fe", Truncated),
        ("12", Truncated),
        ("12fc", Truncated),
        pytest.param("24", MalformedKey, id="the crate's NaN"),
        pytest.param("23", MalformedKey, id="the crate's infinity"),
        pytest.param("07", MalformedKey, id="the crate's negative infinity"),
        ("00", MalformedKey),
        ("ff", MalformedKey),
        pytest.param("220a02", MalformedKey, id="an exponent with a shorter head"),
        pytest.param("227f02", MalformedKey, id="100**127"),
        pytest.param("22ff02", MalformedKey, id="100**255"),
        pytest.param("16ff02", MalformedKey, id="an exponent of -0"),
        pytest.param("160002", MalformedKey, id="100**-255"),
        pytest.param("180300", MalformedKey, id="a zero at the end"),
        pytest.param("1800", MalformedKey, id="no digit but zero"),
        pytest.param("180102", MalformedKey, id="a zero at the start"),
        pytest.param("18c8", MalformedKey, id="a digit of 100"),
        pytest.param("18cb02", MalformedKey, id="a digit of 101"),
        pytest.param("17" + "03" * 19 + "02", MalformedKey, id="40 digits"),
        pytest.param("17" + "03" * 1000 + "02", MalformedKey, id="2000 digits"),
    ],
)
def test_bytes_that_no_encoder_wrote_are_refused(payload: str, error: type[StorageKeyError]) -> None:
    with pytest.raises(error):
        decode_decimal(WIDE, bytes.fromhex(payload), 0)


def test_a_number_of_another_type_is_refused() -> None:
    for type_, number in ((Decimal(4, 1), "1.25"), (Decimal(4, 0), "0.5"), (Decimal(4, 2), "100")):
        data = encode_decimal(int(decimal.Decimal(number) * 10**10), 10)
        with pytest.raises(MalformedKey, match=r"does not fit decimal\(4,"):
            decode_decimal(type_, data, 0)


@given(st.integers(0, 38), st.randoms(use_true_random=False), st.data())
def test_order_is_that_of_the_numbers_across_scales(
    scale: int, source: random.Random, data: st.DataObject
) -> None:
    unscaled = st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: n // 10 ** source.randrange(38))
    other_scale = data.draw(st.integers(0, 38))
    a, b = data.draw(unscaled), data.draw(unscaled)
    left, right = a * 10**other_scale, b * 10**scale
    encoded = encode_decimal(a, scale), encode_decimal(b, other_scale)
    assert (encoded[0] < encoded[1], encoded[0] == encoded[1]) == (left < right, left == right)
