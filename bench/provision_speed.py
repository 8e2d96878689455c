"""One look at many waiting pods, in a process of its own: `python -m bench.provision_speed PODS TYPES PLANNER`.

Prints seconds, nodes, pods without one, and the most memory that the process ever had.
"""

from __future__ import annotations

import resource
import sys
import time

import orjson

from bench.provision_loads import diverse, question
from shoal.provision.simulation.simulate import simulate
from shoal.provision.simulator.fake import increasing_fake_types
from shoal.provision.solver.process import ITERATIONS, SECONDS


def main() -> None:
    count, types, planner = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    asked = question(diverse(count), increasing_fake_types(types))
    began = time.perf_counter()
    plan = simulate(asked)
    if planner == "optimal":
        # Imported late: the figures of the other planner are without numpy and HiGHS.
        from shoal.provision.solver.optimize import improve  # noqa: PLC0415

        deadline = time.monotonic() + SECONDS
        plan, _ = improve(asked, plan, iterations=ITERATIONS, stop=lambda: time.monotonic() >= deadline)
    seconds = time.perf_counter() - began
    found = {
        "seconds": seconds,
        "nodes": len(plan.new_node_claims),
        "cost": plan.cost,
        "failures": len(plan.failures),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(orjson.dumps(found).decode())


if __name__ == "__main__":
    main()
