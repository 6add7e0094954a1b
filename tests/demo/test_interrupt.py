"""`make demo`, stopped by its user."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_demo_leaves_nothing_behind(tmp_path: Path, sent: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "deploy.demo"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as demo:
        assert demo.stdout is not None
        said = []
        for line in demo.stdout:
            said.append(line)
            if line.startswith("1/5"):
                break
        descendants = psutil.Process(demo.pid).children(recursive=True)
        assert any("etcd" in process.name() for process in descendants)
        demo.send_signal(sent)
        said += demo.stdout.readlines()
    assert demo.returncode == 130
    assert "stopped" in said[-1]
    assert [process for process in descendants if process.is_running()] == []
    assert list(tmp_path.iterdir()) == []
