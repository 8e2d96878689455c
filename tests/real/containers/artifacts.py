"""What takes minutes to make: files and folders of a cache, each made once, and anew when its parts have changed.

The cache is $SHOAL_CONTAINERS, else `containers` beside the built programs. A stamp says what an artifact came from.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.real import building


class Absent(Exception):
    """This machine lacks something; the message says what."""


class Failure(Exception):
    """A command or a build failed that should not."""


def cache() -> Path:
    return Path(os.environ.get("SHOAL_CONTAINERS") or building.cache().parent / "containers").absolute()


@dataclass(frozen=True)
class Artifact:
    name: str
    recipe: str
    """All that decides what `make` makes, except the parts and programs."""
    make: Callable[[Path], None]
    parts: tuple[Artifact, ...] = ()
    programs: tuple[str, ...] = ()

    @property
    def stamp(self) -> str:
        programs = [building.PROGRAMS[name].stamp for name in self.programs]
        text = "\n".join([self.name, self.recipe, *(part.stamp for part in self.parts), *programs])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def path(self) -> Path:
        return cache() / self.name

    @property
    def _stamp_file(self) -> Path:
        return cache() / f"{self.name}.stamp"

    @property
    def is_built(self) -> bool:
        return self.path.exists() and self._stamp_file.is_file() and self._stamp_file.read_text() == self.stamp

    def missing(self) -> list[str]:
        """What building it would make, innermost first; nothing when it is built."""
        if self.is_built:
            return []
        inner = [name for part in self.parts for name in part.missing()]
        return [*(name for name in self.programs if building.built(name) is None), *inner, self.name]

    def build(self) -> Path:
        """Prints what took how long."""
        if self.is_built:
            return self.path
        for name in self.programs:
            program(name)
        for part in self.parts:
            part.build()
        with _lock(self.name):
            if not self.is_built:
                self._make_anew()
        return self.path

    def _make_anew(self) -> None:
        start = time.monotonic()
        unfinished = self.path.with_name(f"{self.name}.new")
        for old in (unfinished, self._stamp_file, self.path):
            remove(old)
        print(f"building {self.name}", flush=True)
        self.make(unfinished)
        unfinished.replace(self.path)
        self._stamp_file.write_text(self.stamp)
        print(f"built {self.name} in {time.monotonic() - start:.0f} s", flush=True)


def program(name: str) -> Path:
    """A Go program, built if it has to be."""
    with _lock(name):
        if building.built(name) is None:
            start = time.monotonic()
            if shutil.which("go") is None:
                raise Absent(f"go (to build {name})")
            if not building.build(name):
                raise Failure(f"the build of {name} failed")
            print(f"built {name} in {time.monotonic() - start:.0f} s", flush=True)
    found = building.built(name)
    assert found is not None
    return found


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    """What a command prints; the end of what it complained about when it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        env=os.environ | (env or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failure(f"{Path(command[0]).name} failed: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Two builds at once make each artifact once."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
