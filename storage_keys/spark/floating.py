"""The bits of a floating-point number as Spark expressions: SQL has no doubleToLongBits, but exact arithmetic."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf


@dataclass(frozen=True, slots=True)
class _Format:
    """An IEEE 754 format: bits of the fraction, and the exponent of the smallest normal number."""

    fraction_bits: int
    exponent_min: int

    @property
    def infinity(self) -> int:
        return (3 - 2 * self.exponent_min) << self.fraction_bits


_FORMATS: Final = {4: _Format(23, -126), 8: _Format(52, -1022)}


def magnitude_bits(width: int, number: Column) -> Column:
    """The bits of `number`, a double, as if it had `width` bytes, without its sign: a bigint. NaN is Java's."""
    of = _FORMATS[width]
    magnitude = sf.abs(number)
    return (
        sf.when(sf.isnan(number), sf.lit(of.infinity | 1 << (of.fraction_bits - 1)))
        .when(magnitude == sf.lit(float("inf")), sf.lit(of.infinity))
        .when(magnitude < sf.lit(2.0**of.exponent_min), _subnormal_bits(of, magnitude))
        .otherwise(_normal_bits(of, magnitude))
    )


def _subnormal_bits(of: _Format, magnitude: Column) -> Column:
    # In two steps, since 2 ** 1074 is no double.
    steps = of.fraction_bits - of.exponent_min
    half = sf.lit(2.0 ** (steps // 2))
    return (magnitude * half * half * sf.lit(2.0 ** (steps % 2))).cast("bigint")


def _normal_bits(of: _Format, magnitude: Column) -> Column:
    """`(exponent - exponent_min + 1) * 2**fraction_bits + fraction`, each step exact."""
    exponent = sf.floor(sf.log2(magnitude)).cast("int")
    # Java: of two whole numbers the power is exact, down to a subnormal one.
    significand = magnitude * sf.pow(sf.lit(2.0), -exponent)
    # Next to a whole number the logarithm may be rounded across it. The bits rise by half as much above a power of
    # two as below it; so of the lines that they follow, the lowest is theirs whichever exponent was found.
    fraction = sf.least((significand - 1.0) * 2.0, significand - 1.0, significand * 0.5)
    one = 1 << of.fraction_bits
    return (exponent.cast("bigint") - (of.exponent_min - 1)) * one + (fraction * float(one)).cast("bigint")
