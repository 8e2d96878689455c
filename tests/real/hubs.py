"""Processes that serve from one etcd, and kubectl logged in at one of them."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.etcd import Etcd, etcd_program
from tests.faults.processes import HANG, Up, command
from tests.real.programs import kubectls


def flags(etcd: Etcd, prefix: str) -> tuple[str, ...]:
    return ("--etcd-servers", etcd.endpoint, "--etcd-prefix", prefix)


def hub(data: Path, etcd: Etcd, prefix: str) -> Up:
    return Up(data, *flags(etcd, prefix), verb="hub")


def refused(data: Path, *more: str, environ: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code and standard error of a hub that does not start."""
    arguments = command("hub", "--data-dir", str(data), "--listen", "127.0.0.1:0", *more)
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=HANG, check=False, env=environ)
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def with_etcd_on_path() -> dict[str, str]:
    return os.environ | {"PATH": f"{etcd_program().parent}{os.pathsep}{os.environ['PATH']}"}


@contextmanager
def short_directory() -> Iterator[Path]:
    """The name of a socket has to fit into a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="shoal-") as directory:
        yield Path(directory)


class KubectlAt:
    """With a kubeconfig as the server has written it, or as it was changed."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        if not kubectls():
            pytest.skip("kubectl")
        home.mkdir(exist_ok=True)
        program = list(kubectls().values())[-1]
        self._command = [program, f"--kubeconfig={kubeconfig}", f"--cache-dir={home / 'cache'}"]
        self._environ = {"HOME": str(home), "PATH": os.environ["PATH"]}

    def __call__(self, *args: str) -> str:
        done = subprocess.run(
            [*self._command, *args], env=self._environ, capture_output=True, text=True, check=False, timeout=HANG
        )
        assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def type(self, script: str) -> str:
        """What a shell prints whose kubectl is this one."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f'kubectl() {{ {shlex.join(self._command)} "$@"; }}\n{script}'],
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
        )
        assert done.returncode == 0, f"{script}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def lines(self, *args: str) -> Iterator[Iterator[str]]:
        """What a call that goes on prints; it is ended with the block."""
        process = subprocess.Popen(
            [*self._command, *args],
            env=self._environ,
            text=True,
            bufsize=1,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        guard = threading.Timer(HANG, process.kill)
        guard.start()
        try:
            yield iter(process.stdout)
        finally:
            guard.cancel()
            process.kill()
            process.communicate(timeout=HANG)
