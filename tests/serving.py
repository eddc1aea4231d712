"""The example applications, served by a process of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs/examples"
BOARDS = ["flask", "django"]
APPLICATIONS = {"flask": "flask_board.app:app", "django": "django_board.wsgi:application"}
PREPARE = "from board.doing import prepare; prepare()"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{EXAMPLES}:{ROOT / 'tests'}", "PYTHONUNBUFFERED": "1"}


@contextmanager
def board_site(board: str, request: pytest.FixtureRequest, log: Path) -> Iterator[str]:
    """Where the board is: as a reader tries it; or by gunicorn on DynamoDB Local."""
    if request.config.getoption("--engine") == "moto":
        with tried(board, log) as url:
            yield url
    else:
        request.getfixturevalue("dynamodb_local").reset()
        with deployed(board, log, "--worker-class", "gthread", "--workers", "2", "--threads", "4") as (url, _):
            yield url
    assert "Traceback" not in log.read_text()


@contextmanager
def process(command: list[str], url: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run it until the block ends; the block begins when the url answers."""
    with log.open("wb") as output:
        running = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            _wait(running, url, log)
            yield running
        finally:
            os.killpg(running.pid, signal.SIGTERM)
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()


def _wait(running: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except OSError:
            assert running.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)


@contextmanager
def tried(board: str, log: Path) -> Iterator[str]:
    """As a reader tries it, by one command, on the embedded engine; where it is."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with process([sys.executable, str(EXAMPLES / f"{board}_board/run.py"), str(port)], url, log):
        yield url


@contextmanager
def deployed(
    board: str, log: Path, *options: str, before: Callable[[], None] | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Under gunicorn, on the engine that the environment leads to; where it is, and gunicorn's own process."""
    subprocess.run([sys.executable, "-c", PREPARE], cwd=ROOT, env=environment(), check=True, timeout=60)
    if before is not None:
        before()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", *options, APPLICATIONS[board]]
    with process(command, url, log) as running:
        yield url, running
