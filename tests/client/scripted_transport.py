"""A transport with scripted responses: each list and each watch takes the next piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import parse_qs

import orjson

Object = dict[str, Any]
HOLD = object()
"""In a watch's script: nothing more comes, and the stream stays open."""


def item(name: str, revision: int) -> Object:
    return {"metadata": {"name": name, "namespace": "n", "resourceVersion": str(revision)}}


def listed(revision: int, *items: Object, token: str = "") -> Object:
    metadata = {"resourceVersion": str(revision)} | ({"continue": token} if token else {})
    return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


def event(kind: str, obj: Object) -> Object:
    return {"type": kind, "object": obj}


def expired() -> Object:
    status = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"}
    return {"type": "ERROR", "object": status}


class Scripted:
    def __init__(self, lists: list[Object | Exception | int], watches: list[list[Any]]) -> None:
        self.lists, self.watches = list(lists), list(watches)
        self.asked: list[str] = []
        """`list` or `watch REVISION`, in order."""

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        await asyncio.sleep(0)
        token = parse_qs(query).get("continue", [""])[0]
        self.asked.append(f"list {token}".strip())
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return answer, {}, orjson.dumps({"kind": "Status", "code": answer, "message": "no"})
        return 200, {}, orjson.dumps(answer)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        await asyncio.sleep(0)
        self.asked.append("watch " + parse_qs(query)["resourceVersion"][0])
        return 200, self._pieces(self.watches.pop(0) if self.watches else [HOLD])

    async def _pieces(self, script: list[Any]) -> AsyncIterator[bytes]:
        for step in script:
            await asyncio.sleep(0)
            if step is HOLD:
                await asyncio.Event().wait()
            if isinstance(step, Exception):
                raise step
            if isinstance(step, asyncio.Event):
                await step.wait()
                continue
            # Lines arrive as the network has it: here in two pieces.
            line = orjson.dumps(step) + b"\n"
            yield line[:7]
            yield line[7:]

    async def close(self) -> None:
        """Nothing is held open."""
