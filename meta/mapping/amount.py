import math

import numpy as np


def is_amount(value: object) -> bool:
    """Whether it is a finite number from 0; True and False are none."""
    # Not isinstance: True would pass for 1.
    if type(value) not in (int, float, np.float64, np.int64):
        return False
    try:
        return math.isfinite(amount := float(value)) and amount >= 0  # type: ignore[arg-type]
    except OverflowError:
        return False
