"""The load generator, a process of its own: `python -m bench.generator` takes a job and gives its figures, both JSON.

It opens its connections, warms up, reads the server's CPU time, drives the load, and reads the CPU time again.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable

import orjson
import uvloop

from bench import capi, clusters, fanout, fleet, verbs
from bench.load import Figures, Job

LOADS: dict[str, Callable[[Job], Awaitable[Figures]]] = {
    "get": verbs.get,
    "list": verbs.list_all,
    "create": verbs.create,
    "update": verbs.update,
    "delete": verbs.delete,
    "watch": fanout.watch,
    **clusters.LOADS,
    **capi.LOADS,
    **fleet.LOADS,
}


def main() -> None:
    gc.disable()
    job = Job(**orjson.loads(sys.stdin.buffer.read()))

    async def run() -> Figures:
        return await LOADS[job.verb](job)

    sys.stdout.buffer.write(orjson.dumps(uvloop.run(run()).summary()))


if __name__ == "__main__":
    main()
