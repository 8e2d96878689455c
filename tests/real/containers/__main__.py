"""Builds the images of the tests marked `containers`, starts an engine if none answers, loads them, runs a command.

    python -m tests.real.containers [--built] [COMMAND…]

--built builds nothing: what the cache does not have is NOT RUN. The command finds the engine by DOCKER_HOST, and
docker, kind and kubectl on its PATH. Packages of Debian are unpacked into the cache, and none is installed. What this
machine lacks is printed as NOT RUN, and is no failure.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.real import building
from tests.real.containers import base_image, debian_image, engine, node_image, shoal_image, workload_images
from tests.real.containers.artifacts import Absent, Artifact, Failure, program

IMAGES: dict[str, Artifact] = {
    node_image.NAME: node_image.node_image,
    base_image.NAME: base_image.base_image,
    debian_image.NAME: debian_image.debian_image,
    shoal_image.BASE: shoal_image.BUILD_BASE,
    workload_images.BUSYBOX: workload_images.busybox,
    workload_images.NGINX: workload_images.nginx,
    workload_images.AGNHOST: workload_images.agnhost,
}
PROGRAMS = ("helm3", "helm4", "kind", "kubectl", "runc")


def missing() -> list[str]:
    """The programs and images that are not in the cache."""
    programs = [name for name in PROGRAMS if building.built(name) is None]
    return [*programs, *(name for name, image in IMAGES.items() if image.missing())]


def main(arguments: list[str]) -> int:
    only_built = arguments[:1] == ["--built"]
    command = arguments[only_built:]
    try:
        if engine.found() is None and engine.lacks():
            raise Absent(engine.lacks())
        if only_built and missing():
            raise Absent(f"{', '.join(missing())} (not in the cache; make containers takes minutes to build them)")
        for name in PROGRAMS:
            program(name)
        for image in IMAGES.values():
            image.build()
        with engine.running() as running:
            for name, image in IMAGES.items():
                running.load(image, name)
            if not command:
                return 0
            return subprocess.run(command, env=os.environ | running.environment, check=False).returncode
    except Absent as absent:
        print(f"NOT RUN: {absent}")
        return 0
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    # An engine that was started here ends also when this is terminated.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
