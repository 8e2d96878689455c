"""A real `shoal up` (or another command that serves) on a data directory, to be killed, and a plain client of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HANG = 120.0
Object = dict[str, Any]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from shoal.cli.main import main; main()", *arguments]


class Up:
    """Started and ready when constructed: when the line that begins with `ready` was printed."""

    def __init__(
        self,
        data: Path,
        *flags: str,
        verb: str = "up",
        environ: dict[str, str] | None = None,
        ready: str = "\nnext: ",
    ) -> None:
        self.data = data
        self._clients: list[Client] = []
        # A file: a pipe that nobody reads would fill up.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            command(verb, "--data-dir", str(data), "--listen", "127.0.0.1:0", *flags), stderr=self._errors, env=environ
        )
        self.pid = self._process.pid
        self._ready = 0
        end = time.monotonic() + HANG
        while not self._ready:
            ended = self._process.poll()
            _, line, after = self.said.partition(ready)
            if line and after.endswith("\n"):
                self._ready = len(self.said)
            elif ended is not None or time.monotonic() > end:
                self._end(signal.SIGKILL)
                raise AssertionError(f"shoal {verb} ended with {ended} before it was ready: {self._said}")
            else:
                time.sleep(0.01)
        self.port = int((data / "port").read_text())
        self.token = (data / "admin-token").read_text().strip()
        self.context = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))

    @property
    def said(self) -> str:
        """All of standard error."""
        if self._errors.closed:
            return self._said
        return os.pread(self._errors.fileno(), 1 << 24, 0).decode()

    @property
    def said_since_ready(self) -> str:
        return self.said[self._ready :]

    def wait(self) -> tuple[int, str]:
        """The exit code when it ends by itself, and what it said since it was ready."""
        self._process.wait(HANG)
        return self._end(signal.SIGKILL)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Ends the process, if it still runs, and its clients."""
        self.kill()
        for client in self._clients:
            client.close()

    def terminate(self) -> tuple[int, str]:
        """The exit code after SIGTERM, and what was said meanwhile."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> tuple[int, str]:
        if self._process.poll() is None:
            self._process.send_signal(number)
        self._process.wait(HANG)
        if not self._errors.closed:
            self._said = self.said
            self._errors.close()
        return self._process.returncode, self.said_since_ready

    def client(self, token: str = "") -> Client:
        """Of the administrator, if no token is given. Closed by `close`, if not before."""
        client = Client(self, token)
        self._clients.append(client)
        return client


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {body.decode(errors='replace')}")
        self.status = status


class Client:
    """One connection. OSError and HTTPException mean that nobody knows what became of the request."""

    def __init__(self, up: Up, token: str = "") -> None:
        self._token = token or up.token
        self._connection = http.client.HTTPSConnection("127.0.0.1", up.port, context=up.context, timeout=HANG)

    def request(self, method: str, path: str, body: object = None) -> Object:
        answer = self._send(method, path, body)
        content = answer.read()
        if answer.status >= 300:
            raise Refused(answer.status, content)
        found: Object = json.loads(content)
        return found

    def text(self, path: str) -> str:
        """What is no JSON, such as metrics."""
        answer = self._send("GET", path, None)
        content = answer.read()
        if answer.status >= 300:
            raise Refused(answer.status, content)
        return content.decode()

    def watch(self, path: str) -> Iterator[Object]:
        """Events until the server ends the stream or the connection breaks, and which of the two."""
        answer = self._send("GET", path, None)
        try:
            for line in answer:
                yield json.loads(line)
        except (http.client.HTTPException, OSError, ValueError):
            yield {"type": "BROKEN"}

    def _send(self, method: str, path: str, body: object) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        self._connection.request(method, path, data, headers)
        return self._connection.getresponse()

    def close(self) -> None:
        self._connection.close()
