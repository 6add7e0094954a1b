import math
from typing import Any

import numpy as np
import pytest

from meta.mapping.errors import Malformed
from meta.mapping.load import LoadCertificate, max_load_of, plan_by_load
from meta.mapping.load_policy import LoadPolicy, Verdict, smoothed, verdict
from meta.mapping.mapping import VnodeMapping
from meta.mapping.unit import Unit

POLICY = LoadPolicy(threshold=1.2, hold_s=0, improvement=0.05, cool_down_s=600)


def test_below_the_threshold_nothing_is_done() -> None:
    assert verdict(POLICY, mean_load=100, max_load=120, planned_max_load=100) == Verdict(
        act=False, reason="not now: the largest load is 1.20 times the mean; the threshold is 1.2"
    )


def test_a_plan_that_improves_too_little_is_not_worth_it() -> None:
    assert verdict(POLICY, mean_load=100, max_load=200, planned_max_load=196) == Verdict(
        act=False, reason="not now: the plan takes 2.0% off the largest load, and 5.0% are asked for"
    )


def test_what_has_not_lasted_may_be_noise() -> None:
    policy = LoadPolicy(hold_s=900)
    fields = {"mean_load": 100, "max_load": 200, "planned_max_load": 110}
    assert verdict(policy, **fields, exceeded_s=899) == Verdict(
        act=False,
        reason="not now: the largest load is 2.00 times the mean, above the threshold for 899 s;"
        " 900 s are asked for",
    )
    assert verdict(policy, **fields, exceeded_s=900).act


@pytest.mark.parametrize(("max_load", "exceeded"), [(120, False), (121, True), (0, False)])
def test_the_threshold_is_exceeded_above_it(max_load: float, exceeded: bool) -> None:
    assert POLICY.exceeded(mean_load=100, max_load=max_load) is exceeded


def test_within_the_cool_down_nothing_is_done() -> None:
    found = verdict(POLICY, mean_load=100, max_load=200, planned_max_load=110, since_rescale_s=540)
    assert found == Verdict(
        act=False, reason="not now: the last rescale was 540 s ago; the cool-down ends in 60 s"
    )


@pytest.mark.parametrize("since", [None, 600.0, 10_000])
def test_beyond_all_three_the_plan_goes(since: float | None) -> None:
    found = verdict(POLICY, mean_load=100, max_load=200, planned_max_load=110, since_rescale_s=since)
    assert found == Verdict(
        act=True, reason="the largest load is 2.00 times the mean, and the plan takes 45.0% off it"
    )


def test_without_loads_nothing_is_done() -> None:
    found = verdict(POLICY, mean_load=0, max_load=0, planned_max_load=0)
    assert found == Verdict(act=False, reason="not now: the largest load is 0; the threshold is 1.2")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"threshold": 0.9}, "threshold"),
        ({"threshold": math.nan}, "threshold"),
        ({"threshold": "1.2"}, "threshold"),
        ({"hold_s": -1}, "hold"),
        ({"hold_s": math.nan}, "hold"),
        ({"improvement": 0}, "improvement"),
        ({"improvement": 1.0}, "improvement"),
        ({"improvement": True}, "improvement"),
        ({"cool_down_s": -1}, "cool-down"),
        ({"cool_down_s": math.inf}, "cool-down"),
    ],
)
def test_a_malformed_policy_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(Malformed, match=says):
        LoadPolicy(**fields)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"mean_load": -1}, "the mean load"),
        ({"max_load": math.nan}, "the largest load"),
        ({"planned_max_load": None}, "the planned largest load"),
        ({"exceeded_s": -1}, "above the threshold is seconds from 0"),
        ({"since_rescale_s": -3}, "rescale is seconds from 0"),
    ],
)
def test_malformed_figures_are_refused(fields: dict[str, Any], says: str) -> None:
    good: dict[str, Any] = {"mean_load": 1, "max_load": 2, "planned_max_load": 1, "since_rescale_s": 1}
    with pytest.raises(Malformed, match=says):
        verdict(POLICY, **(good | fields))


def test_after_one_half_life_old_and_new_count_half_each() -> None:
    assert smoothed([0.0, 8.0], [4.0, 4.0], 30, half_life_s=30).tolist() == [2.0, 6.0]


def test_smoothing_does_not_depend_on_how_often_one_looks() -> None:
    once = smoothed([10.0], [2.0], 90, half_life_s=40)
    often = np.array([10.0])
    for elapsed in (1, 0, 30, 4.5, 54.5):
        often = smoothed(often, [2.0], elapsed, half_life_s=40)
    assert often == pytest.approx(once, rel=1e-12)


def test_the_first_observation_counts_whole_and_is_copied() -> None:
    observed = np.array([1.0, 2.0])
    first = smoothed(None, observed, 0, half_life_s=30)
    observed[0] = 99
    assert first.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([1.0], [1.0], -1, 30), "clock"),
        (([1.0], [1.0], math.nan, 30), "elapsed"),
        (([1.0], [1.0], 1, 0), "half-life"),
        (([1.0], [1.0], 1, math.inf), "half-life"),
        (([1.0], [1.0, 2.0], 1, 30), "start anew after the vnode count changed"),
        (([1.0], [math.nan], 1, 30), "observed load of vnode 0 is nan"),
        (([1.0, -2.0], [1.0, 1.0], 1, 30), "previous load of vnode 1 is -2"),
        (([1.0], [[1.0]], 1, 30), "one number for each vnode"),
        (([1.0], ["many"], 1, 30), "observed loads are numbers"),
    ],
)
def test_malformed_observations_are_refused(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(Malformed, match=says):
        smoothed(*arguments)


class Cluster:
    """64 vnodes on 8 units, observed each minute with lognormal noise; it rescales when the policy lets it."""

    def __init__(self, policy: LoadPolicy, half_life_s: float, seed: int) -> None:
        self.policy = policy
        self.half_life_s = half_life_s
        self.units = tuple(Unit(unit, f"w{unit % 4}") for unit in range(8))
        self.mapping = VnodeMapping(tuple(vnode // 8 for vnode in range(64)))
        self.random = np.random.default_rng(seed)
        self.smooth: Any = np.ones(64)
        self.rescales: list[int] = []
        self.minute = 0
        self.level_at = 0  # the last minute at which the threshold was not exceeded

    def run(self, minutes: int, loads: Any) -> None:
        for _ in range(minutes):
            self.minute += 1
            observed = loads * self.random.lognormal(0, 1.0, 64)
            self.smooth = smoothed(self.smooth, observed, 60, self.half_life_s)
            if not self.policy.exceeded(self.smooth.sum() / 8, self.max_load()):
                self.level_at = self.minute
            self.consider()

    def consider(self) -> None:
        # Whether a perfect plan would be due comes first: most minutes need no plan at all.
        if not self.found(planned_max_load=0.0).act:
            return
        planned = plan_by_load(self.mapping, self.units, self.smooth)
        assert isinstance(planned.certificate, LoadCertificate)
        if self.found(planned.certificate.max_load).act:
            self.mapping = planned.mapping
            self.rescales.append(self.minute)

    def max_load(self) -> float:
        return max_load_of(self.mapping, self.units, self.smooth)

    def found(self, planned_max_load: float) -> Verdict:
        return verdict(
            self.policy,
            mean_load=float(self.smooth.sum() / 8),
            max_load=self.max_load(),
            planned_max_load=planned_max_load,
            exceeded_s=60 * (self.minute - self.level_at),
            since_rescale_s=60 * (self.minute - self.rescales[-1]) if self.rescales else None,
        )


@pytest.mark.parametrize("seed", range(8))
def test_noise_alone_does_not_make_it_flap(seed: int) -> None:
    calm = Cluster(LoadPolicy(), half_life_s=1_200, seed=seed)
    calm.run(240, np.ones(64))
    assert calm.rescales == []


def test_without_hysteresis_noise_does_make_it_flap() -> None:
    rash = LoadPolicy(threshold=1.0, hold_s=0, improvement=0.001, cool_down_s=0)
    cluster = Cluster(rash, half_life_s=1, seed=1)
    cluster.run(60, np.ones(64))
    assert len(cluster.rescales) > 50


@pytest.mark.parametrize("seed", range(8))
def test_a_lasting_change_is_followed_and_then_left_alone(seed: int) -> None:
    cluster = Cluster(LoadPolicy(), half_life_s=1_200, seed=seed)
    cluster.run(60, np.ones(64))
    cluster.run(240, np.where(np.arange(64) < 8, 4.0, 1.0))
    assert 1 <= len(cluster.rescales) <= 2
    assert 60 < cluster.rescales[0] <= 100
