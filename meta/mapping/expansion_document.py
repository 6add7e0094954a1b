"""`vnodectl expand --offline`: source partition expansion over JSON documents (offline-json.md)."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from meta.mapping.errors import Malformed
from meta.mapping.expansion import (
    MODULO,
    ExpansionAlgorithm,
    Grouper,
    assign,
    by_partition,
    by_system_stream_partition,
)
from meta.mapping.fields import require_known
from meta.mapping.source_partition import SourcePartition, Stream, readable
from storage_keys.errors import shown

T = TypeVar("T")

GROUPERS: Final[Mapping[str, Grouper]] = {
    "partition": by_partition,
    "system-stream-partition": by_system_stream_partition,
}
ALGORITHMS: Final[Mapping[str, ExpansionAlgorithm]] = {"modulo": MODULO}

_FIELDS: Final = ("grouper", "partitions", "previous", "stateful", "algorithm", "joined", "broadcast")

_JOINED: Final = (
    'joined must be a list of groups of streams, like [[["kafka", "clicks"], ["kafka", "orders"]]]'
)


def expand_offline(document: object) -> dict[str, Any]:
    """The tasks after an expansion. Raises `PlanError` for whatever JSON has none, and nothing else."""
    if not isinstance(document, dict):
        raise Malformed("an expansion document is a JSON object with grouper and partitions")
    require_known(document, _FIELDS)
    tasks = assign(
        _partitions(document.get("partitions"), "partitions"),
        _chosen(GROUPERS, document.get("grouper"), "grouper"),
        _previous(document),
        algorithm=_chosen(ALGORITHMS, _given(document, "algorithm", "modulo"), "algorithm"),
        joined=_joined(_given(document, "joined", [])),
        broadcast=_partitions(_given(document, "broadcast", []), "broadcast"),
    )
    return {"tasks": {name: [_written(partition) for partition in task] for name, task in tasks.items()}}


def _given(document: dict[Any, Any], name: str, default: Any) -> Any:
    """A field that may be left out or null."""
    found = document.get(name)
    return default if found is None else found


def _chosen(known: Mapping[str, T], name: object, what: str) -> T:
    if not isinstance(name, str) or name not in known:
        instead = "it is left out" if name is None else f"it is {shown(name)}"
        raise Malformed(f"{what} must be {' or '.join(map(repr, known))}; {instead}")
    return known[name]


def _previous(document: dict[Any, Any]) -> dict[str, list[SourcePartition]] | None:
    """None for a stateless job, whatever is said of its past: what has no state may be grouped anew."""
    stateful = _given(document, "stateful", default=True)
    if not isinstance(stateful, bool):
        raise Malformed(f"stateful is true or false, not {shown(stateful)}")
    if stateful and document.get("previous", {}) is None:
        # What a script reads from a refusal: to take it for a first run would part keys from their state.
        raise Malformed("previous is null; leave it out, or write {}, if this is the job's first run")
    previous = _given(document, "previous", {})
    if not isinstance(previous, dict) or isinstance(previous.get("tasks"), dict):
        raise Malformed(
            f'previous is an object like {{"Partition 0": [["kafka", "clicks", 0]]}}, what stood under'
            f" tasks in the last answer; it is {shown(previous)}"
        )
    tasks = {name: _partitions(task, f"previous task {readable(name)!r}") for name, task in previous.items()}
    return tasks if stateful else None


def _partitions(found: Any, what: str) -> list[SourcePartition]:
    if not isinstance(found, list):
        instead = "it is left out" if found is None else f"it is {shown(found)}"
        raise Malformed(f'{what} must be a list of partitions like [["kafka", "clicks", 0]]; {instead}')
    return [_partition(item, what) for item in found]


def _partition(found: Any, what: str) -> SourcePartition:
    match found:
        case [system, name, number]:
            return SourcePartition(Stream(system, name), number)
    raise Malformed(f'{what}: a partition is like ["kafka", "clicks", 0], not {shown(found)}')


def _joined(found: Any) -> list[list[Stream]]:
    match found:
        case [*groups] if all(isinstance(group, list) for group in groups):
            return [[_stream(item) for item in group] for group in groups]
    raise Malformed(f"{_JOINED}; it is {shown(found)}")


def _stream(found: Any) -> Stream:
    match found:
        case [system, name]:
            return Stream(system, name)
    raise Malformed(f"{_JOINED}; where a stream should be, it has {shown(found)}")


def _written(partition: SourcePartition) -> list[str | int]:
    return [partition.stream.system, partition.stream.name, partition.number]
