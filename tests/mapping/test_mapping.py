import copy
import json
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meta.mapping.expansion_errors  # noqa: F401  its errors are of the family
from meta.mapping.errors import (
    Malformed,
    MalformedPublication,
    MappingError,
    MoreUnitsThanVnodes,
    NoCapacity,
    NotEnoughUnits,
    NotTheBase,
    NoUnits,
    PlanError,
    SiblingsDisagree,
    UnrelatedVnodeCounts,
)
from meta.mapping.mapping import NOBODY, VNODE_COUNT_MAX, PartitionGroup, Run, VnodeMapping
from meta.mapping.unit import UNIT_ID_MAX

owner_lists = st.lists(st.none() | st.integers(0, 4), min_size=1, max_size=40).map(tuple)


def test_a_mapping_seen_from_all_sides() -> None:
    mapping = VnodeMapping((5, 5, 0, None, None, 5))
    assert str(mapping) == "5*2 0 -*2 5"
    assert mapping.vnode_count == 6
    assert mapping.units == (0, 5)
    assert mapping.vnodes_of(5) == (0, 1, 5)
    assert mapping.vnodes_of(NOBODY) == mapping.vnodes_of(2**80) == ()
    assert mapping.array.tolist() == [5, 5, 0, NOBODY, NOBODY, 5]
    assert mapping.run_starts.tolist() == [0, 2, 3, 5]
    assert mapping.runs() == (Run(0, 1, 5), Run(2, 2, 0), Run(3, 4, None), Run(5, 5, 5))
    assert mapping.partition_groups() == (
        PartitionGroup(unit=0, slot=0, runs=(Run(2, 2, 0),)),
        PartitionGroup(unit=5, slot=1, runs=(Run(0, 1, 5), Run(5, 5, 5))),
    )


def test_slots_are_ranks_so_that_gaps_in_ids_do_not_matter() -> None:
    assert VnodeMapping((7, 2, 2, 30)).slot_owners == (1, 0, 0, 2)


def test_a_vnode_without_an_owner_has_no_slot() -> None:
    with pytest.raises(Malformed, match="vnode 1 has no owner"):
        _ = VnodeMapping((0, None)).slot_owners


@given(owner_lists)
def test_text_form_and_runs_hold_the_whole_mapping(owners: tuple[int | None, ...]) -> None:
    mapping = VnodeMapping(owners)
    assert mapping.owners == owners
    assert VnodeMapping.parse(str(mapping)) == mapping
    assert eval(repr(mapping)) == mapping
    assert VnodeMapping.from_array(mapping.array).owners == owners
    assert mapping.run_starts.tolist() == [run.first for run in mapping.runs()]
    assert mapping.units == tuple(sorted(set(owners) - {None}))
    assert tuple(run.owner for run in mapping.runs() for _ in range(len(run))) == owners
    assert len(mapping.runs()) == mapping.run_count
    for group in mapping.partition_groups():
        assert mapping.units[group.slot] == group.unit
        vnodes = [v for run in group.runs for v in range(run.first, run.last + 1)]
        assert tuple(vnodes) == mapping.vnodes_of(group.unit)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "0  1", " 1", "1 ", "a", "-1", "-5", "--", "+1", "1_0", "1.5", "٣", "1\n", "\n1"),
        *("0*", "*3", "0*0x3", "0*-2", "1*2*3", "0*0", "0*0 1", "1 0*00", "0*99999999"),
        *("9" * 30, str(UNIT_ID_MAX + 1)),
    ],
)
def test_texts_that_are_no_mapping(text: str) -> None:
    with pytest.raises(Malformed):
        VnodeMapping.parse(text)


def test_a_text_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(Malformed, match="more than 100 vnodes"):
        VnodeMapping.parse("0*60 1*41", vnode_count_max=100)
    with pytest.raises(Malformed, match="a vnode count"):
        VnodeMapping.unowned(VNODE_COUNT_MAX + 1)


@pytest.mark.parametrize(
    "owners",
    [
        (),
        (True,),
        (0, "0"),
        (1.0,),
        (-1,),
        (2**63,),
        ([],),
        (10**5000,),
        (None, -1),
        (-2, None),
        (np.int64(1),),
    ],
)
def test_owners_that_cannot_be(owners: tuple[int, ...]) -> None:
    with pytest.raises(Malformed):
        VnodeMapping(owners)


@pytest.mark.parametrize(
    "array",
    [
        np.array([], np.int64),
        np.array([[0, 1]]),
        np.array([0.0]),
        np.array([True]),
        np.array([None]),
        np.array(["0"]),
        np.array([-2]),
        np.array([2**63], np.uint64),
    ],
)
def test_arrays_that_cannot_be(array: Any) -> None:
    with pytest.raises(Malformed):
        VnodeMapping.from_array(array)


def test_an_array_of_any_integers_is_copied_and_cannot_be_written_to() -> None:
    array = np.array([3, 3, 5], np.uint8)
    mapping = VnodeMapping.from_array(array)
    array[:] = 0
    assert mapping == VnodeMapping((3, 3, 5))
    assert {type(owner) for owner in mapping.owners} == {int}
    wide = np.array([UNIT_ID_MAX, NOBODY])
    mapping = VnodeMapping.from_array(wide)
    wide[:] = 0
    assert mapping.owners == (UNIT_ID_MAX, None)
    with pytest.raises(ValueError, match="read-only"):
        mapping.array[0] = 0
    for name in ("array", "owners", "vnode_count", "another"):
        with pytest.raises(AttributeError):
            setattr(mapping, name, wide)


def test_equal_mappings_hash_alike_whatever_they_were_made_of() -> None:
    made = [
        VnodeMapping((0, None, 0)),
        VnodeMapping.from_array(np.array([0, NOBODY, 0], np.int8)),
        VnodeMapping.parse("0 - 0"),
    ]
    assert len(set(made)) == 1
    assert made[0] != VnodeMapping((0, None))
    assert made[0] != VnodeMapping((0, 0, 0))
    assert made[0] != (0, None, 0)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_is_as_frozen_as_its_mapping(copied: Any) -> None:
    mapping = VnodeMapping((0, None, UNIT_ID_MAX))
    twin = copied(mapping)
    assert twin == mapping
    assert twin.owners == (0, None, UNIT_ID_MAX)
    assert not twin.array.flags.writeable


def kinds(base: type[MappingError] = MappingError) -> Iterator[type[MappingError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from kinds(kind)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize("kind", sorted(kinds(), key=lambda kind: kind.__name__))
def test_an_error_of_any_kind_survives_being_copied(kind: type[MappingError], copied: Any) -> None:
    error = kind.__new__(kind, "what is wrong")
    error.fact = (1, "one")  # type: ignore[attr-defined]
    error.add_note("in the third row")
    twin = copied(error)
    assert type(twin) is kind
    assert (str(twin), vars(twin)) == ("what is wrong", vars(error))


EXAMPLES = [
    Malformed("a weight is a number"),
    MalformedPublication("not JSON: 'x'"),
    NoUnits(),
    NoCapacity(3),
    MoreUnitsThanVnodes(5, 4),
    NotEnoughUnits(3, 2),
    UnrelatedVnodeCounts(9, 6, (3,)),
    SiblingsDisagree(8, groups=3, first=1, owners=(4, None, 2, 1, 5, 6), possible=None),
    NotTheBase("vnode 2 is owned by nobody and the diff starts from unit 1"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: error.name)
def test_what_an_error_says_survives_pickle_and_is_a_short_json_document(error: MappingError) -> None:
    twin = pickle.loads(pickle.dumps(error))
    assert (str(twin), vars(twin), twin.name) == (str(error), vars(error), error.name)
    assert json.loads(json.dumps(vars(error))).keys() == vars(error).keys()
    assert sum(len(value) for value in vars(error).values() if isinstance(value, tuple)) <= 4


def test_every_error_is_an_example_or_a_base_and_no_base_can_be_raised() -> None:
    ours = {kind for kind in kinds() if kind.__module__ == MappingError.__module__}
    bases = {kind for kind in ours | {MappingError} if not hasattr(kind, "name")}
    assert bases == {MappingError, PlanError}
    assert ours - bases == set(map(type, EXAMPLES))
    for base in bases:
        with pytest.raises(AssertionError, match="is only a base"):
            base("by accident")
