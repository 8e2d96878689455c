"""A local etcd: found on PATH, started below the data directory, restarted when it ends, stopped with this process.

It listens on sockets in a directory only its owner can enter, so nobody else on the machine can read the store.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import shutil
import signal
import sys
from pathlib import Path

from shoal.assemble.storage.datadir import DataDirError, write_private_file

log = logging.getLogger("shoal.store")

CLIENT_SOCKET, PEER_SOCKET = "client:1", "peer:1"
"""etcd requires host:port in the address of a socket as well, and uses all of it as the file name."""
START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 20.0
RESTART_SECONDS = 1.0
HEALTH_TIMEOUT_SECONDS = 2.0
MAX_SOCKET_PATH = 100
QUOTA_BYTES = 8 << 30
REQUEST_BYTES = 8 << 20


class LocalEtcd:
    def __init__(self, program: str, directory: Path) -> None:
        self._program, self._directory = program, directory
        self._process: asyncio.subprocess.Process | None = None
        self._supervision: asyncio.Task[None] | None = None
        self._stopping = False

    @classmethod
    async def start(cls, data_dir: Path) -> LocalEtcd:
        program = shutil.which("etcd")
        if program is None:
            raise DataDirError(
                "--store etcd: no etcd on PATH",
                "install etcd 3.5.13 or newer, or give a running etcd with --etcd-servers",
            )
        directory = data_dir / "etcd"
        if len(str(directory.absolute() / CLIENT_SOCKET)) > MAX_SOCKET_PATH:
            raise DataDirError(f"{data_dir}: path too long for the socket of etcd", "give a shorter --data-dir")
        directory.mkdir(mode=0o700, exist_ok=True)
        etcd = cls(program, directory.absolute())
        await etcd._stop_orphan()
        await etcd._launch()
        etcd._supervision = asyncio.create_task(etcd._supervise(), name="etcd")
        return etcd

    @property
    def endpoint(self) -> str:
        return f"unix:{self._directory / CLIENT_SOCKET}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def stop(self) -> None:
        self._stopping = True
        if self._supervision is not None:
            self._supervision.cancel()
            # It may just be starting a process.
            await asyncio.gather(self._supervision, return_exceptions=True)
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_TIMEOUT_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        (self._directory / "pid").unlink(missing_ok=True)

    async def _supervise(self) -> None:
        while True:
            assert self._process is not None
            code = await self._process.wait()
            if self._stopping:
                return
            log.error("etcd exited with %s; restarting it (log: %s)", code, self._directory / "etcd.log")
            await asyncio.sleep(RESTART_SECONDS)
            try:
                await self._launch()
            except DataDirError as error:
                log.error("%s", error)

    async def _launch(self) -> None:
        for name in (CLIENT_SOCKET, PEER_SOCKET):
            (self._directory / name).unlink(missing_ok=True)
        log_file = os.open(self._directory / "etcd.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(log_file, "ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(),
                cwd=self._directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
                start_new_session=True,
            )
        write_private_file(self._directory / "pid", f"{self._process.pid}\n")
        await self._wait_healthy()

    def _command(self) -> list[str]:
        client, peer = f"unix://{CLIENT_SOCKET}", f"unix://{PEER_SOCKET}"
        return [
            *(self._program, "--name", "shoal", "--data-dir", str(self._directory / "data"), "--log-level", "warn"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"shoal={peer}"),
            # A single member waits for no heartbeats, but for the election timeout before it serves.
            *("--heartbeat-interval", "20", "--election-timeout", "200"),
            *("--quota-backend-bytes", str(QUOTA_BYTES), "--max-request-bytes", str(REQUEST_BYTES)),
        ]

    async def _wait_healthy(self) -> None:
        """Waits until it answers. Its socket exists long before that, because it elects itself first."""
        assert self._process is not None
        loop = asyncio.get_running_loop()
        end = loop.time() + START_TIMEOUT_SECONDS
        while not await self._is_healthy():
            if self._process.returncode is not None or loop.time() > end:
                last = (self._directory / "etcd.log").read_text(errors="replace").strip().splitlines()[-1:]
                raise DataDirError(
                    f"etcd did not start: {''.join(last) or 'no output'}",
                    f"its log: {self._directory / 'etcd.log'}",
                )
            await asyncio.sleep(0.01)

    async def _is_healthy(self) -> bool:
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self._directory / CLIENT_SOCKET)
                try:
                    writer.write(b"GET /health HTTP/1.0\r\n\r\n")
                    return b'"health":"true"' in await reader.read()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False

    async def _stop_orphan(self) -> None:
        """Stops an etcd whose parent was killed without its notice: two processes must not open the same data."""
        file = self._directory / "pid"
        text = file.read_text().strip() if file.exists() else ""
        if not text.isdigit() or not _is_ours(int(text), self._directory):
            return
        os.kill(int(text), signal.SIGTERM)
        for _ in range(int(STOP_TIMEOUT_SECONDS * 100)):
            if not _is_ours(int(text), self._directory):
                return
            await asyncio.sleep(0.01)
        raise DataDirError(f"etcd process {text} of an earlier shoal does not stop", f"kill it: kill -9 {text}")


def _is_ours(pid: int, directory: Path) -> bool:
    """Returns whether that process is an etcd on our data: the pid may have been reused by another program."""
    try:
        os.kill(pid, 0)
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:  # no /proc here
        return True
    except (ProcessLookupError, PermissionError):
        return False
    return str(directory / "data").encode() in command.split(b"\0")


def _die_with_parent() -> None:
    """Linux ends the child when its parent dies, however that happens."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
