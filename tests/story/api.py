"""A plain client of one API, known by its kubeconfig. It survives the server: whoever was not answered asks again."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml

from tests.faults.processes import Refused

Object = dict[str, Any]
T = TypeVar("T")

HANG = 120.0
"""A hang guard, not a measure."""
LOST = (OSError, http.client.HTTPException)
PASSING = (429, 500, 502, 503, 504)
"""Answers of a server that has not all it needs yet, such as a worker behind it."""


class Api:
    def __init__(self, kubeconfig: str) -> None:
        config = yaml.safe_load(kubeconfig)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        address = urlsplit(cluster["server"])
        self.server: str = cluster["server"]
        self._prefix, self._token = address.path, user["token"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._connection = http.client.HTTPSConnection(
            address.netloc, context=ssl.create_default_context(cadata=authority), timeout=HANG
        )

    @classmethod
    def of(cls, data: Path) -> Api:
        """The administrator of a data directory."""
        return cls((data / "kubeconfig").read_text())

    def once(self, method: str, path: str, body: object = None, content: str = "application/json") -> Object:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content}
        data = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, self._prefix + path, data, headers)
            answer = self._connection.getresponse()
            read = answer.read()
        except LOST:
            self._connection.close()
            raise
        if answer.status >= 300:
            raise Refused(answer.status, read)
        found: Object = json.loads(read)
        return found

    def request(self, method: str, path: str, body: object = None, content: str = "application/json") -> Object:
        """Again, until it is answered."""
        end = time.monotonic() + HANG
        while True:
            try:
                return self.once(method, path, body, content)
            except (Refused, *LOST) as error:
                if (isinstance(error, Refused) and error.status not in PASSING) or time.monotonic() > end:
                    raise
            time.sleep(0.02)

    def get(self, path: str) -> Object | None:
        """None: there is none, or nobody serves it."""
        try:
            return self.request("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def items(self, path: str) -> list[Object]:
        found = self.get(path)
        return found["items"] if found else []

    def merge(self, path: str, patch: Object) -> None:
        self.request("PATCH", path, patch, "application/merge-patch+json")

    def apply(self, path: str, obj: Object) -> None:
        """May be repeated; a kind that is not served yet is waited for."""

        def applied() -> bool:
            try:
                self.request("PATCH", f"{path}?fieldManager=story&force=true", obj, "application/apply-patch+yaml")
            except Refused as refused:
                if refused.status == 404:
                    return False
                raise
            return True

        eventually(applied)

    def delete(self, path: str) -> None:
        try:
            self.request("DELETE", path)
        except Refused as refused:
            if refused.status != 404:
                raise

    def close(self) -> None:
        self._connection.close()


def eventually(look: Callable[[], T], what: Callable[[], object] | None = None) -> T:
    """Looks again until the answer is true."""
    end = time.monotonic() + HANG
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not after {HANG:.0f} s: {what() if what else look()!r}")
