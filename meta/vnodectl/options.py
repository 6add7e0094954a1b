"""Options that belong together, as one value: several commands take the same ones."""

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Any


def flattened(command: Callable[..., None]) -> Callable[..., None]:
    """`command` as typer reads it: each field of a parameter that is a dataclass is an option of its own."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, type] = {
        given.name: given.annotation
        for given in parameters
        if isinstance(given.annotation, type) and is_dataclass(given.annotation)
    }
    fields = {name: list(inspect.signature(group).parameters.values()) for name, group in groups.items()}

    @wraps(command)
    def called(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields[name]})
        command(**values)

    flat: list[Parameter] = []
    for given in parameters:
        flat += fields.get(given.name, [given])
    flat = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in flat]
    called.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    called.__annotations__ = {option.name: option.annotation for option in flat}
    return called
