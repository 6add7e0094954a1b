"""Shell completion, by the protocol that bash speaks with a real process."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vnodectl.terminal import Operator


def completed(*words: str, server: str) -> list[str]:
    """What bash would be offered for the last of the words."""
    typed = ["vnodectl", *words]
    ran = subprocess.run(
        [sys.executable, "-c", "from meta.vnodectl.main import app; app(prog_name='vnodectl')"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            **os.environ,
            "_VNODECTL_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(typed),
            "COMP_CWORD": str(len(typed) - 1),
            "VNODEMAP_SERVER": server,
        },
    )
    assert ran.stderr == ""
    return ran.stdout.split()


def test_commands_and_options_are_completed_without_a_service() -> None:
    assert {"rescale", "rollback"} <= set(completed("r", server="http://127.0.0.1:1"))
    assert "--parallelism" in completed("plan", "f", "--p", server="http://127.0.0.1:1")


@pytest.mark.parametrize("words", [["fragment", "show"], ["rescale"], ["plan"], ["explain"]])
def test_fragments_names_are_completed_from_the_service(
    operator: Operator, words: list[str], eventually: Callable[..., None]
) -> None:
    name = f"{operator.name}-completed"
    operator.sees("fragment", "create", name, "--key", "k:int", "--parallelism", "1")

    def offered() -> None:
        assert completed(*words, name[:-1], server=operator.url) == [name]

    # A busy machine may take longer than who presses Tab waits.
    eventually(offered, within_s=60)


def test_workers_names_are_completed_from_the_service_that_is_typed(
    operator: Operator, eventually: Callable[..., None]
) -> None:
    name = f"{operator.name}-completed"
    operator.sees("worker", "add", name, "--units", "1")

    def offered() -> None:
        assert completed("drain", name, server=operator.url) == [name]
        typed = ["worker", "remove", "--server", operator.url, name]
        assert completed(*typed, server="http://127.0.0.1:1") == [name]

    eventually(offered, within_s=60)


def test_where_the_service_is_away_or_silent_nothing_is_offered_and_nothing_said() -> None:
    assert completed("rescale", "", server="http://127.0.0.1:1") == []
    assert completed("rescale", "", server="nonsense") == []
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert completed("rescale", "", server=f"http://127.0.0.1:{silent.getsockname()[1]}") == []


def test_bash_completes_once_it_is_installed(tmp_path: Path) -> None:
    """In a real bash, with the script that the installed package has."""
    bash = """
        vnodectl --install-completion > /dev/null
        source ~/.bashrc
        COMP_WORDS=(vnodectl mapping h) COMP_CWORD=2
        _vnodectl_completion vnodectl
        echo "${COMPREPLY[@]}"
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "--norc", "-e"],
        input=bash,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HOME": str(tmp_path), "PATH": path},
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "history\n", "")


def test_who_presses_tab_does_not_wait_for_grpc_numpy_or_the_service_to_load() -> None:
    loaded = "import sys, meta.vnodectl.main; print(*sorted(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, timeout=60, check=True
    )
    assert set(ran.stdout.split()) & {"grpc", "numpy", "pyarrow", "fastapi", "sqlalchemy"} == set()
