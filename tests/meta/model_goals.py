"""What a history may ask for: the strategies of `tests.meta.test_model`."""

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.meta.model import (
    Goal,
    Model,
)

Step = TypeVar("Step", bound=Callable[..., None])

WORKERS = st.sampled_from(["w1", "w2", "w3", "w4"])
FRAGMENTS = st.sampled_from(["f1", "f2"])
SUBSCRIBERS = st.sampled_from(["s1", "s2"])
LABELS = st.sampled_from([{}, {}, {"zone": "a"}, {"zone": "b"}])
WORKER_TIMEOUTS = st.sampled_from([None, None, 8_000, 20_000])
POLICIES = st.builds(
    lambda least, more, cool_down_ms: {"adaptive": {"min": least, "max": more, "cool_down_ms": cool_down_ms}},
    st.integers(1, 3),
    st.integers(1, 6),
    st.sampled_from([1_000, 12_000]),
)
HANDOVERS = st.sampled_from([None, None, {"protocol": "ordered"}])
WEIGHTS = st.sampled_from([0, 0.5, 1, 2])


# What a history is made of, each as often as it is listed: so that most steps are about rescales.
RESCALING_STEPS = (
    *["plan_and_apply"] * 4,
    *["rescale_under_an_applier"] * 3,
    *["plan", "apply", "roll_back", "accept", "abort", "abort_current"],
)
WORLDS_STEPS = (
    *["time_passes", "the_process_stands_still", "a_moment_passes", "reconcile", "forget"],
    *["register"] * 3,
    *["beat", "drain", "drain", "remove", "create", "patch"],
)
OTHERS_STEPS = ("hear", "hear", "hear", "deregister", "report_loads", "send_again", "somebody_else_asks")


def drawn(**strategies: st.SearchStrategy[Any]) -> Callable[[Step], Step]:
    """What a step of this kind is given each time."""

    def mark(step: Step) -> Step:
        step.__dict__["drawn"] = strategies
        return step

    return mark


@st.composite
def goals(draw: st.DrawFn, model: Model, name: str) -> Goal:
    fragment = model.fragments.get(name)
    running = sorted(fragment.weights) if fragment else []
    known = sorted({*running, *(unit for worker in model.workers.values() for unit in worker.units)})
    choice = [*known, 999] if rarely(draw, 10) else known or [999]
    kind = draw(
        st.sampled_from(["parallelism", "units", "units", "change", "same", "to_version", "vnode_count"])
    )
    if kind == "to_version":
        current = fragment.current.number if fragment else 1
        return {"to_version": max(1, current - draw(st.integers(-1, 12)))}
    if kind == "vnode_count":
        size = len(fragment.owners) if fragment else 1
        return {"vnode_count": draw(st.sampled_from([min(2 * size, 96), size, max(1, size // 2), size + 1]))}
    goal: Goal = {}
    if kind == "parallelism":
        goal["parallelism"] = draw(st.integers(1, 6))
    elif kind == "units":
        goal["units"] = some(draw, choice, 1, len(choice))
    elif kind == "change":
        goal["add_units"] = some(draw, known, 0, 2)
        others = [unit for unit in running or known if unit not in goal["add_units"]]
        goal["remove_units"] = some(draw, others, 0, 2)
        if not goal["add_units"] and not goal["remove_units"]:
            goal = {}
    return goal | draw(modifiers(known, needed=not goal))


def some(draw: st.DrawFn, items: list[int], least: int, most: int) -> list[int]:
    return draw(st.permutations(items))[: draw(st.integers(least, most))]


def rarely(draw: st.DrawFn, times: int) -> bool:
    """Once in so many times: zeros are what is drawn too often."""
    return draw(st.integers(0, times - 1)) == times // 2


@st.composite
def modifiers(draw: st.DrawFn, known: list[int], *, needed: bool) -> Goal:
    found: Goal = {}
    if rarely(draw, 7):
        found["by_load"] = True
    else:
        if needed or rarely(draw, 4):
            found["level"] = draw(st.sampled_from(["units", "workers"]))
        if rarely(draw, 4):
            found["defragment"] = draw(st.integers(1, 6))
    if rarely(draw, 3):
        found["budget"] = draw(st.integers(1, 8))
    if known and rarely(draw, 4):
        found["weights"] = {str(unit): draw(WEIGHTS) for unit in some(draw, known, 1, 2)}
    if rarely(draw, 6):
        found["labels"] = {"zone": "a"}
    return found
