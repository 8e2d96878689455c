"""One child process, seen from the server. It runs one task at a time.

It is a fresh interpreter, not a copy of the server: it has none of the server's keys, sockets and environment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from subprocess import DEVNULL, Popen
from typing import Any

from shoal.apiserver.processpool.frames import MAX_FRAME_BYTES, PREFIX, decode_frame, encode_frame

INHERITED_VARIABLES = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH")
"""What Python needs to find itself and its modules."""
_BUFFER_BYTES = 1024 * 1024
_POLL_SECONDS = 0.005


class ProcessDied(Exception):
    """The process has ended instead of answering."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.cpu_limit = signal_number == signal.SIGXCPU
        """It was ended because the task used too much CPU time."""


class ChildProcess:
    def __init__(self, popen: Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._popen, self._reader, self._writer = popen, reader, writer

    @classmethod
    async def start(cls, module: str, memory_bytes: int) -> ChildProcess:
        ours, theirs = socket.socketpair()
        command = (sys.executable, "-P", "-B", "-m", "shoal.apiserver.processpool.main")
        arguments = (module, str(os.getpid()), str(memory_bytes))
        environment = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
        with theirs:
            # It takes a millisecond until the new program runs. A session of its own: it does not get Ctrl-C.
            popen = Popen(  # noqa: ASYNC220
                [*command, *arguments], stdin=theirs.fileno(), stdout=DEVNULL, env=environment, start_new_session=True
            )
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours, limit=_BUFFER_BYTES)
        except BaseException:
            ours.close()
            popen.kill()
            raise
        return cls(popen, reader, writer)

    @property
    def pid(self) -> int:
        return self._popen.pid

    async def call(self, header: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """Raises ProcessDied. After any exception the process is of no use."""
        try:
            self._writer.writelines(encode_frame(header, blobs))
            await self._writer.drain()
            head_length, rest_length = PREFIX.unpack(await self._reader.readexactly(PREFIX.size))
            if head_length + rest_length > MAX_FRAME_BYTES:
                raise ProcessDied(0)
            return decode_frame(
                await self._reader.readexactly(head_length), await self._reader.readexactly(rest_length)
            )
        except (asyncio.IncompleteReadError, ConnectionError):
            await self._wait()
            raise ProcessDied(-(self._popen.returncode or 0)) from None

    async def close(self) -> None:
        """Kills the process and waits for its end."""
        self._writer.close()
        if self._popen.poll() is None:
            self._popen.kill()
        await self._wait()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _wait(self) -> None:
        """The process has closed its socket or was killed, so its end is near."""
        while self._popen.poll() is None:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)
