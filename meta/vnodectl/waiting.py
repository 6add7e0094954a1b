"""Waiting until a version settles, with its progress on standard error."""

from typing import Any

import stamina
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from meta.vnodectl.client import NOT_SETTLED, Away, Service, ServiceError, path
from meta.vnodectl.session import err, listed

POLL_S = 0.2


class NotSettled(ServiceError):
    """A version is still under way when nobody wants to wait any longer. It goes on by itself."""

    exit_code = NOT_SETTLED

    def __init__(self, fragment: str, version: int, timeout_s: float, progress: Any) -> None:
        late = listed(applier["name"] for applier in progress["waiting_for"]) if progress else ""
        super().__init__(
            f"version {version} has not settled within {timeout_s:g} s, it waits for {late or 'nobody'}; it goes on by "
            f"itself; `vnodectl fragment show {fragment}` shows how far it is",
            "not-settled",
        )
        self.problem = {**self.problem, "fragment": fragment, "version": version, "progress": progress}


class TakenBack(ServiceError):
    """Somebody aborted the rescale that is waited for, or whose token is applied again."""

    exit_code = NOT_SETTLED

    def __init__(self, rescale: Any) -> None:
        fragment, version = rescale["fragment"], rescale["version"]
        super().__init__(
            f"the rescale was taken back: {fragment} is at version {version} with the owners of version "
            f"{rescale['base_version']}; `vnodectl mapping history {fragment}` says when, and a new plan tries again",
            "aborted",
        )
        self.problem = {**self.problem, "fragment": fragment, "version": version}


class _UnderWay(Exception):
    pass


def wait_for(api: Service, applied: Any, timeout_s: float) -> Any:
    """The progress when an applied rescale had settled, also as a later version, after it lost units.

    Raises `NotSettled` and `TakenBack`.
    """
    version = applied["version"]
    while True:
        progress = wait_until_settled(api, applied["fragment"], version, timeout_s)
        if progress["version"] == version:
            return progress
        rescale = api.get(path("rescales", applied["id"]))
        if rescale["phase"] == "aborted":
            raise TakenBack(rescale)
        if rescale["version"] == version:
            return progress
        version = rescale["version"]


def wait_until_settled(api: Service, fragment: str, version: int, timeout_s: float) -> Any:
    """The progress when `version` had settled, or a later one come; shows who is waited for meanwhile.

    Raises `NotSettled` with those it waits for after `timeout_s`. A service that is away is waited for too.
    """
    polling = stamina.retry_context(
        on=(_UnderWay, Away),
        attempts=None,
        timeout=timeout_s,
        wait_initial=POLL_S,
        wait_max=POLL_S,
        wait_jitter=0,
    )
    progress = None
    try:
        with bars() as shown:
            task = shown.add_task(f"{fragment}: version {version}", total=None)
            for attempt in polling:
                with attempt:
                    progress = api.get(path("fragments", fragment, "progress"))
                    _show(shown, task, progress, version)
                    if progress["version"] == version and progress["phase"] != "settled":
                        raise _UnderWay
                    return progress
    except _UnderWay:
        raise NotSettled(fragment, version, timeout_s, progress) from None


def bars() -> Progress:
    """For people, at a terminal: what reads standard error elsewhere finds refusals there alone."""
    # On a narrow terminal the words go on in the next line, and the time stays whole.
    words = TextColumn("{task.description}", table_column=Column(no_wrap=False))
    return Progress(
        words, BarColumn(bar_width=10), TimeElapsedColumn(), console=err, disable=not err.is_terminal
    )


def outcome(applied: Any, progress: Any) -> str:
    """What became of an applied plan, for people."""
    fragment, version = applied["fragment"], applied["version"]
    if progress["version"] > version:
        return f"that plan became version {version}; {fragment} is now at {progress['version']}"
    if progress["acknowledged"]:
        return f"{fragment} is at version {version}, and the jobs that follow it have it"
    return f"{fragment} is at version {version}; no live job had to acknowledge it"


def _show(shown: Progress, task: TaskID, progress: Any, version: int) -> None:
    acknowledged, late = progress["acknowledged"], [applier["name"] for applier in progress["waiting_for"]]
    everybody = acknowledged + len(late)
    moving = progress["vnodes"]
    moved = f", {moving['handed_over']} of {moving['moving']} vnodes handed over" if moving["moving"] else ""
    if not everybody:
        doing = "no live job to wait for"
    elif late:
        doing = f"{acknowledged} of {everybody} acknowledged, waiting for {escape(listed(late, 4))}{moved}"
    else:
        doing = f"{acknowledged} of {everybody} acknowledged{moved}"
    shown.update(
        task,
        description=f"{progress['fragment']}: version {version}: {doing}",
        completed=acknowledged if everybody else 1,
        total=everybody or 1,
    )
