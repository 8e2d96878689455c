"""`make image`: the image of deploy/Containerfile by docker, podman or buildah, from a base that can be named.

The base is asked for its Python, its libc and its architecture; the environment for it is unpacked here
(environment.py). The build is given a folder with nothing else, and needs no network.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass

from scripts import environment, wheels
from scripts.bootstrap import is_supported
from scripts.wheels import ROOT, BuildError, Target
from shoal import __version__
from shoal.fleet.bundle.objects import IMAGE_REPOSITORY

CONTAINERFILE = ROOT / "deploy" / "Containerfile"
CONTEXT = ROOT / "build" / "image"
BASE = "docker.io/library/python:3.13-slim"
ENGINES = {"docker": ("version",), "podman": ("info",), "buildah": ("info",)}
"""By the command that fails when the engine does not answer, in the order in which they are tried."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""By the name that uname has for them."""
QUESTION = (
    "import os, platform, sys; "
    "print('%d.%d' % sys.version_info[:2], *platform.libc_ver(), os.uname().machine, sys.executable)"
)


@dataclass(frozen=True)
class Engine:
    name: str
    platform: str = ""

    @property
    def _platform(self) -> list[str]:
        return ["--platform", self.platform] if self.platform else []

    def answer(self, base: str) -> str:
        """What the Python of the base prints to the question."""
        if self.name == "buildah":
            container = run("buildah", "from", *self._platform, base).strip()
            try:
                return run("buildah", "run", container, "--", "python3", "-c", QUESTION)
            finally:
                run("buildah", "rm", container)
        interpreter = ("--rm", "--network", "none", "--entrypoint", "python3")
        return run(self.name, "run", *self._platform, *interpreter, base, "-c", QUESTION)

    def build(self, base: str, architecture: str, tag: str) -> None:
        # The format of OCI has no health check.
        form = [] if self.name == "docker" else ["--format", "docker"]
        given = ["--build-arg", f"BASE={base}", "--build-arg", f"TARGETARCH={architecture}"]
        label = ["--label", f"org.opencontainers.image.version={__version__}"]
        options = [*self._platform, *form, *given, *label, "--file", str(CONTAINERFILE), "--tag", tag]
        if subprocess.run([self.name, "build", *options, str(CONTEXT)], check=False).returncode != 0:
            raise BuildError(f"{self.name} did not build the image\nhint: see the output above")


def run(*command: str) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command[:2])} failed: {done.stderr.strip()}")
    return done.stdout


def find_engine(name: str) -> str:
    for each in [name] if name else list(ENGINES):
        if each not in ENGINES:
            raise BuildError(f"{each} is no engine that is known here\nhint: ENGINE={'|'.join(ENGINES)}")
        if shutil.which(each) is not None:
            done = subprocess.run([each, *ENGINES[each]], capture_output=True, check=False)
            if done.returncode == 0:
                return each
    missing = name or ", ".join(ENGINES)
    raise BuildError(f"no container engine answers ({missing})\nhint: start one, or choose one with ENGINE=…")


def parse_answer(base: str, answer: str) -> tuple[Target, str]:
    """What environments for that base are made for, and the path of its Python."""
    words = answer.split()
    if len(words) != 5 or words[1] != "glibc":
        raise BuildError(f"{base} has no glibc, for which the libraries of Shoal have wheels\nhint: BASE={BASE}")
    python, _, libc, machine, interpreter = words
    major, minor = libc.split(".")
    if not is_supported(tuple(int(part) for part in python.split("."))):
        raise BuildError(f"{base} has Python {python}; Shoal needs 3.11 to 3.14\nhint: BASE={BASE}")
    if machine not in ARCHITECTURES:
        raise BuildError(f"the libraries of Shoal have no wheels for {machine}\nhint: amd64 and arm64 have them")
    return Target(python, (int(major), int(minor)), machine), interpreter


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds the image of Shoal.")
    parser.add_argument("--engine", default="", help="docker, podman or buildah; default: the first that answers")
    parser.add_argument("--base", default=BASE, help="an image with Python 3.11 to 3.14 and glibc")
    parser.add_argument("--tag", default=f"{IMAGE_REPOSITORY}:{__version__}")
    parser.add_argument("--platform", default="", help="such as linux/arm64; another one than the engine's is emulated")
    options = parser.parse_args()
    try:
        engine = Engine(find_engine(options.engine), options.platform)
        target, interpreter = parse_answer(options.base, engine.answer(options.base))
        architecture = ARCHITECTURES[target.machine]
        shutil.rmtree(CONTEXT, ignore_errors=True)
        environment.make(CONTEXT / architecture, wheels.collect(target), target.python, interpreter)
        engine.build(options.base, architecture, options.tag)
    except BuildError as error:
        sys.exit(f"error: {error}")
    print(options.tag)


if __name__ == "__main__":
    main()
