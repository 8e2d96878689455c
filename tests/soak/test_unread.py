"""Thousands of clients that do not finish, on a server in a process of its own: its memory stays below a limit, and
another tenant is served meanwhile. Prints the figures.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import Up
from tests.soak.tenants import MAPS, OtherTenant, rss
from tests.soak.unread import Crowd

pytestmark = [pytest.mark.soak, pytest.mark.anyio]

BODIES, WATCHES = 10_000, 2_000
OBJECTS, OBJECT_BYTES = 200, 100_000
SPARE_FILES = 500


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = BODIES + SPARE_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"NOT RUN: {wanted} open files are needed and at most {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    server = Up(tmp_path / "data", "--workers", "0")
    yield server
    server.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_half_open_bodies_without_a_credential(up: Up) -> None:
    other, crowd, before = OtherTenant(up, up.client()), Crowd(), rss(up.pid)
    opening = b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 2900000\r\n\r\n" % MAPS.encode() + b"x" * 200_000
    with other.at_work():
        began = time.monotonic()
        await crowd.grow(up.port, BODIES, opening)
        opened = time.monotonic() - began
        await asyncio.sleep(5)
    statuses = crowd.statuses()
    crowd.close()
    await asyncio.sleep(10)
    print(
        f"\n{BODIES} half-open bodies without a credential, opened in {opened:.0f} s, answers {statuses}, "
        f"{crowd.failed} not connected: RSS {before:.0f} MiB before, {other.largest:.0f} at most, "
        f"{rss(up.pid):.0f} after; {other.figures()}"
    )
    assert other.largest - before < 400
    assert not other.failures
    assert statuses.get("403", 0) > BODIES / 2


async def test_watches_that_are_not_read(up: Up) -> None:
    admin = up.client()
    for number in range(OBJECTS):
        body = {"metadata": {"name": f"c{number}"}, "data": {"k": "v" * OBJECT_BYTES}}
        admin.request("POST", MAPS, body)
    other, crowd, before = OtherTenant(up, admin), Crowd(), rss(up.pid)
    head = f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {up.token}\r\n\r\n"
    with other.at_work():
        began = time.monotonic()
        await crowd.grow(up.port, WATCHES, head.encode(), reads=False)
        opened = time.monotonic() - began
        writer = up.client()
        for number in range(500):
            body = {"metadata": {"name": f"c{number % OBJECTS}"}, "data": {"k": f"{number:06}" * (OBJECT_BYTES // 6)}}
            await asyncio.to_thread(writer.request, "PUT", f"{MAPS}/c{number % OBJECTS}", body)
        await asyncio.sleep(5)
    still_open, statuses = crowd.open_count, crowd.statuses()
    crowd.close()
    await asyncio.sleep(10)
    print(
        f"\n{WATCHES} unread watches of {OBJECTS * OBJECT_BYTES / 1e6:.0f} MB, opened in {opened:.0f} s, {still_open} "
        f"open at the end, answers {json.dumps(statuses)}: RSS {before:.0f} MiB before, {other.largest:.0f} at most, "
        f"{rss(up.pid):.0f} after; {other.figures()}"
    )
    assert other.largest - before < 600
    assert not other.failures
