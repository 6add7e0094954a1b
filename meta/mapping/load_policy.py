"""When to act on loads: smoothing, hysteresis and cool-down, as values and pure functions.

Loads are noisy and a rescale costs, so one is due only where the smoothed loads have been uneven beyond a threshold
for a while, the plan improves them enough, and the last rescale is long enough ago. The clock is the caller's.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from meta.mapping.amount import is_amount
from meta.mapping.errors import Malformed
from storage_keys.errors import shown

Loads = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LoadPolicy:
    """When levelling loads is worth a rescale. Raises `Malformed`.

    `threshold` is the largest load over the mean from which on it is considered (as Redis Cluster's and Citus's
    thresholds, which are on by default too), and `hold_s` how many seconds on end it must be exceeded: noise that
    smoothing leaves lasts about a half-life. `improvement` is the part of the largest load that a plan must take
    off; `cool_down_s` the seconds between two such rescales. Both times are meant for a half-life of 20 minutes.
    """

    threshold: float = 1.25
    hold_s: float = 1_200.0
    improvement: float = 0.1
    cool_down_s: float = 3_600.0

    def __post_init__(self) -> None:
        if not is_amount(self.threshold) or self.threshold < 1:
            raise Malformed(f"a threshold is a number from 1 (max/mean), not {shown(self.threshold)}")
        if not is_amount(self.hold_s) or self.hold_s < 0:
            raise Malformed(f"a hold is a number of seconds from 0, not {shown(self.hold_s)}")
        if not is_amount(self.improvement) or not 0 < self.improvement < 1:
            raise Malformed(f"an improvement is a part between 0 and 1, not {shown(self.improvement)}")
        if not is_amount(self.cool_down_s) or self.cool_down_s < 0:
            raise Malformed(f"a cool-down is a number of seconds from 0, not {shown(self.cool_down_s)}")

    def exceeded(self, mean_load: float, max_load: float) -> bool:
        """Whether the threshold is; who asks keeps the time since when, for `verdict`."""
        return max_load > mean_load * self.threshold


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to act now, and why in words."""

    act: bool
    reason: str


def verdict(
    policy: LoadPolicy,
    *,
    mean_load: float,
    max_load: float,
    planned_max_load: float,
    exceeded_s: float = 0.0,
    since_rescale_s: float | None = None,
) -> Verdict:
    """Whether a plan that lowers `max_load` to `planned_max_load` should be applied now.

    `exceeded_s` is for how long on end the policy's threshold has been `exceeded`. `since_rescale_s` is None where
    nothing was rescaled yet; give the time since the first observation to let the smoothing start up.
    Raises `Malformed`.
    """
    _require_figures(mean_load, max_load, planned_max_load, exceeded_s, since_rescale_s)
    ratio = (
        f"{max_load / mean_load:.2f} times the mean"
        if mean_load
        else "0"
        if not max_load
        else "above the mean"
    )
    saved = 1 - planned_max_load / max_load if max_load else 0.0
    wait_s = 0.0 if since_rescale_s is None else policy.cool_down_s - since_rescale_s
    if not policy.exceeded(mean_load, max_load):
        reason = f"not now: the largest load is {ratio}; the threshold is {policy.threshold:g}"
    elif exceeded_s < policy.hold_s:
        reason = (
            f"not now: the largest load is {ratio}, above the threshold for {exceeded_s:.0f} s;"
            f" {policy.hold_s:.0f} s are asked for"
        )
    elif saved < policy.improvement:
        reason = (
            f"not now: the plan takes {max(saved, 0):.1%} off the largest load, and"
            f" {policy.improvement:.1%} are asked for"
        )
    elif wait_s > 0:
        reason = (
            f"not now: the last rescale was {since_rescale_s:.0f} s ago; the cool-down ends in"
            f" {math.ceil(wait_s)} s"
        )
    else:
        reason = f"the largest load is {ratio}, and the plan takes {saved:.1%} off it"
        return Verdict(act=True, reason=reason)
    return Verdict(act=False, reason=reason)


def _require_figures(
    mean_load: float,
    max_load: float,
    planned_max_load: float,
    exceeded_s: float,
    since_rescale_s: float | None,
) -> None:
    for name, value in (("mean", mean_load), ("largest", max_load), ("planned largest", planned_max_load)):
        if not is_amount(value) or value < 0:
            raise Malformed(f"the {name} load is a finite number from 0, not {shown(value)}")
    if not is_amount(exceeded_s) or exceeded_s < 0:
        raise Malformed(f"the time above the threshold is seconds from 0, not {shown(exceeded_s)}")
    if since_rescale_s is not None and (not is_amount(since_rescale_s) or since_rescale_s < 0):
        raise Malformed(f"the time since the last rescale is seconds from 0, not {shown(since_rescale_s)}")


def smoothed(
    previous: npt.ArrayLike | None, observed: npt.ArrayLike, elapsed_s: float, half_life_s: float
) -> Loads:
    """The exponentially weighted mean of loads, float64 of shape (V,), observed at any intervals.

    What was known `half_life_s` ago counts half; `elapsed_s` is the time since `previous`, which is None at first.
    Two observations of the same loads weigh what one after the same time weighs. Raises `Malformed`.
    """
    if not is_amount(elapsed_s) or elapsed_s < 0:
        raise Malformed(f"an elapsed time is seconds from 0, not {shown(elapsed_s)}; the clock went back?")
    if not is_amount(half_life_s) or half_life_s <= 0:
        raise Malformed(f"a half-life is a number of seconds above 0, not {shown(half_life_s)}")
    now = _loads(observed, "observed")
    if previous is None:
        return now
    before = _loads(previous, "previous")
    if before.shape != now.shape:
        raise Malformed(
            f"{len(before)} loads were known and {len(now)} are observed; start anew after the vnode count changed"
        )
    weight = -math.expm1(-math.log(2) * elapsed_s / half_life_s)
    return before + weight * (now - before)


def _loads(values: npt.ArrayLike, name: str) -> Loads:
    try:
        loads = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise Malformed(f"{name} loads are numbers, one for each vnode") from error
    if loads.ndim != 1:
        raise Malformed(f"{name} loads are one number for each vnode, not an array of shape {loads.shape}")
    bad = np.flatnonzero(~(np.isfinite(loads) & (loads >= 0)))
    if len(bad):
        vnode = int(bad[0])
        raise Malformed(f"{name} load of vnode {vnode} is {loads[vnode]:g}; leave the observation out")
    return loads
