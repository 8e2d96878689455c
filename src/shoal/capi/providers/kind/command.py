"""The interface to kind and its container engine, and its implementation with their commands.

No shell and no kubeconfig of the user: kind gets a private file each time. Only part of the output is kept.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import SubprocessError
from typing import Any, Protocol

from shoal.capi.providers.kind.errors import (
    KindError,
    command_error,
    engine_not_found,
    kind_not_found,
    name_busy,
    os_error,
    timeout_error,
)
from shoal.capi.providers.kind.private_directory import end_orphans, private_directory
from shoal.capi.providers.kind.process import LineHandler, run_process

Object = dict[str, Any]

DOCKER = "docker"
ENGINES = (DOCKER, "nerdctl", "podman")
"""In the order in which kind looks for them."""
DEFAULT_HOST = "unix:///var/run/docker.sock"
MAX_LINES = 60
MACHINE_ID = Path("/etc/machine-id")


class KindRunner(Protocol):
    """All methods raise KindError when kind or the container engine fails."""

    host_id: str
    """Identifies the host of its clusters; empty: unknown."""

    async def clusters(self) -> frozenset[str]: ...

    async def create(self, name: str, config: Object, progress: LineHandler) -> None: ...

    async def delete(self, name: str, progress: LineHandler) -> None:
        """A missing cluster is no error."""

    async def kubeconfig(self, name: str) -> str: ...

    async def image_ids(self, images: Sequence[str]) -> dict[str, str]:
        """Returns the ids of those images that the container engine has."""

    async def load_images(self, name: str, images: Sequence[str], progress: LineHandler) -> None:
        """Copies images of the container engine to all nodes that lack them."""


class KindCommand:
    """`program` is a path, or a name found in PATH. `engine` is docker, podman or nerdctl; empty:
    $KIND_EXPERIMENTAL_PROVIDER, else the engine kind detects.
    """

    def __init__(
        self,
        program: str = "kind",
        engine: str = "",
        environment: Mapping[str, str] | None = None,
        *,
        timeout: float = 60.0,
        create_timeout: float = 1800.0,
    ) -> None:
        self._program, self._timeout, self._create_timeout = program, timeout, create_timeout
        self._environment = dict(os.environ if environment is None else environment)
        if engine:
            self._environment["KIND_EXPERIMENTAL_PROVIDER"] = engine
        self.host_id = self._environment.get("DOCKER_HOST") or _machine_id()
        self._has_ended_orphans = False

    async def clusters(self) -> frozenset[str]:
        if not self._has_ended_orphans:
            end_orphans()
            self._has_ended_orphans = True
        output = await self._kind("get", "clusters")
        return frozenset(line.strip() for line in output.splitlines() if line.strip())

    async def create(self, name: str, config: Object, progress: LineHandler) -> None:
        with _translate_errors("kind create cluster"), self._name_lock(name), private_directory() as directory:
            arguments = ("create", "cluster", "--name", name, "--config", _write_config(directory, config))
            await self._kind(*arguments, progress=progress, directory=directory, timeout_seconds=self._create_timeout)

    async def delete(self, name: str, progress: LineHandler) -> None:
        with _translate_errors("kind delete cluster"), self._name_lock(name), private_directory() as directory:
            await self._kind("delete", "cluster", "--name", name, progress=progress, directory=directory)

    async def kubeconfig(self, name: str) -> str:
        return await self._kind("get", "kubeconfig", "--name", name)

    async def image_ids(self, images: Sequence[str]) -> dict[str, str]:
        ids = {}
        for image in images:
            try:
                ids[image] = (await self._engine("image", "inspect", "--format", "{{.Id}}", image)).strip()
            except KindError as error:
                if not _names_missing_image(error.message):
                    raise
        return ids

    async def load_images(self, name: str, images: Sequence[str], progress: LineHandler) -> None:
        with _translate_errors("kind load"), private_directory() as directory:
            options: Any = {"progress": progress, "directory": directory, "timeout_seconds": self._create_timeout}
            if Path(self._find_engine()).name == DOCKER:
                await self._kind("load", "docker-image", "--name", name, *images, **options)
                return
            # kind asks docker for images, whatever engine runs its nodes.
            archive = directory / "image.tar"
            for image in images:
                await self._engine("save", "--output", str(archive), image, timeout_seconds=self._create_timeout)
                await self._kind("load", "image-archive", "--name", name, str(archive), **options)
                archive.unlink()

    async def _kind(
        self,
        *arguments: str,
        progress: LineHandler | None = None,
        directory: Path | None = None,
        timeout_seconds: float = 0.0,
    ) -> str:
        """Returns standard output. Without a directory kind must not need a kubeconfig."""
        kubeconfig = str(directory / "kubeconfig") if directory is not None else os.devnull
        program, command = self._find_kind(), ("kind", *arguments[:2])
        environment = {**self._environment, "KUBECONFIG": kubeconfig}
        return await self._run(" ".join(command), program, arguments, environment, timeout_seconds, progress)

    async def _engine(self, *arguments: str, timeout_seconds: float = 0.0) -> str:
        program = self._find_engine()
        command = (Path(program).name, *(word for word in arguments[:2] if not word.startswith("-")))
        return await self._run(" ".join(command), program, arguments, self._environment, timeout_seconds)

    async def _run(
        self,
        command: str,
        program: str,
        arguments: tuple[str, ...],
        environment: Mapping[str, str],
        timeout_seconds: float,
        progress: LineHandler | None = None,
    ) -> str:
        timeout_seconds = timeout_seconds or self._timeout
        lines: deque[str] = deque(maxlen=MAX_LINES)

        def on_line(line: str) -> None:
            lines.append(line)
            if progress is not None:
                progress(line)

        with _translate_errors(command):
            try:
                code, output = await run_process(program, arguments, environment, on_line, timeout_seconds)
            except TimeoutError:
                raise timeout_error(command, timeout_seconds) from None
        if code != 0:
            raise command_error(command, lines)
        return output

    def _find_kind(self) -> str:
        program = shutil.which(self._program, path=self._environment.get("PATH", ""))
        if program is None:
            raise kind_not_found(self._program)
        self._find_engine()
        return program

    def _find_engine(self) -> str:
        engine = self._environment.get("KIND_EXPERIMENTAL_PROVIDER", "")
        engines = (engine,) if engine else ENGINES
        for each in engines:
            program = shutil.which(each, path=self._environment.get("PATH", ""))
            if program is not None:
                return program
        raise engine_not_found(engines)

    @contextmanager
    def _name_lock(self, name: str) -> Iterator[None]:
        """Held while kind creates or deletes a cluster. Of two that create one name at once, the kind that fails would
        delete what the other one makes. An address of a socket is shared by all users of the machine, and ends with
        its process.
        """
        if sys.platform != "linux":
            yield
            return
        engine = self._environment.get("DOCKER_HOST") or DEFAULT_HOST
        digest = hashlib.sha256(f"{engine} {name}".encode()).hexdigest()[:32]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
            try:
                lock.bind(f"\0shoal-kind-{digest}")
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise name_busy(name) from None
                raise
            yield


@contextmanager
def _translate_errors(command: str) -> Iterator[None]:
    try:
        yield
    except (OSError, SubprocessError) as error:
        raise os_error(command, error) from None


def _write_config(directory: Path, config: Object) -> str:
    file = directory / "config"
    file.write_text(json.dumps(config))
    return str(file)


def _names_missing_image(message: str) -> bool:
    return any(words in message.lower() for words in ("no such image", "image not known", "no such object"))


def _machine_id() -> str:
    try:
        return MACHINE_ID.read_text().strip()
    except OSError:
        return ""
