"""A real `shoal up` process on a data directory, to be killed, and a plain client of it."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HANG = 60.0
Object = dict[str, Any]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from shoal.cli.main import main; main()", *arguments]


class Up:
    """Started and ready when constructed."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._clients: list[Client] = []
        self._said = ""
        self._process = subprocess.Popen(
            command("up", "--data-dir", str(data), "--listen", "127.0.0.1:0"), stderr=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        assert self._process.stderr is not None
        self._errors = self._process.stderr
        for line in self._errors:
            if line.startswith("next: "):
                break
        else:
            raise AssertionError(f"shoal up ended with {self._process.wait()} before it was ready")
        self.port = int((data / "port").read_text())
        self.token = (data / "admin-token").read_text().strip()
        self.context = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))

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
        if not self._errors.closed:
            self._said = self._process.communicate(timeout=HANG)[1]
        return self._process.returncode, self._said

    def client(self) -> Client:
        """Closed by `close`, if not before."""
        client = Client(self)
        self._clients.append(client)
        return client


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {body.decode(errors='replace')}")
        self.status = status


class Client:
    """One connection. OSError and HTTPException mean that nobody knows what became of the request."""

    def __init__(self, up: Up) -> None:
        self._token = up.token
        self._connection = http.client.HTTPSConnection("127.0.0.1", up.port, context=up.context, timeout=HANG)

    def request(self, method: str, path: str, body: object = None) -> Object:
        answer = self._send(method, path, body)
        content = answer.read()
        if answer.status >= 300:
            raise Refused(answer.status, content)
        found: Object = json.loads(content)
        return found

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
