"""Where Shoal's time goes under one load: the server in this process under cProfile, the generator outside.

cProfile weighs calls of Python functions too heavily; read it as a list of suspects, and let `make bench` decide.
"""

from __future__ import annotations

import asyncio
import cProfile
import os
import pstats
import sys
import tempfile
from pathlib import Path

import uvloop

from bench import measure
from bench.plan import FULL, QUICK, BenchLoad, loads
from bench.servers import BenchServer
from shoal.apiserver.malloc import tune
from shoal.assemble.server.hub import ShoalServer, ShoalServerSettings

JOBS = ("get", "create", "update", "list", "watch")


class InProcess(BenchServer):
    """The Shoal of this process, for those who ask it over its socket."""

    name = "Shoal"

    def __init__(self, directory: Path, shoal: ShoalServer) -> None:
        super().__init__(directory)
        self.port = shoal.server.port
        self.token = shoal.directory.admin_token()

    def start(self) -> float:
        return 0.0

    def pids(self) -> dict[str, list[int]]:
        return {"shoal": [os.getpid()]}


def run(key: str, *, quick: bool, top: int) -> None:
    """One round of that load; prints the functions that took most time of their own."""
    tune()
    load = next(load for load in loads(QUICK if quick else FULL) if load.key == key)
    with tempfile.TemporaryDirectory(prefix="shoal-profile-") as directory:
        profiler = uvloop.run(_run_profiled(load, Path(directory)))
    pstats.Stats(profiler, stream=sys.stdout).sort_stats("tottime").print_stats(top)


async def _run_profiled(load: BenchLoad, directory: Path) -> cProfile.Profile:
    """Whoever asks is in a thread, so that the profile holds the loop's thread and nothing else."""
    shoal = await ShoalServer.start(ShoalServerSettings(data_dir=directory, port=0))
    profiler = cProfile.Profile()
    try:
        server = InProcess(directory, shoal)
        await asyncio.to_thread(measure.define, server)
        await asyncio.to_thread(measure.fill, server, load.namespace, load.prepare)
        profiler.enable()
        figures = await asyncio.to_thread(measure.generate, server, load.namespace, load.job)
        profiler.disable()
    finally:
        await shoal.stop()
    operations, seconds, cpu = figures["operations"], figures["seconds"], figures["cpu"]["shoal"]
    print(f"{load.title}: {operations:,} in {seconds:.1f} s and {cpu:.1f} CPU-seconds, with the profiler's own cost")
    return profiler
