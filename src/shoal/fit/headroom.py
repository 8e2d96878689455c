"""Score of the free resources of a node with a pod on it. Pure.

The scheduler uses it as the last criterion. Provisioning uses it to predict where the scheduler will place pods.
"""

from __future__ import annotations

HIGHEST = 100


def headroom(cpu: int, of_cpu: int, memory: int, of_memory: int) -> int:
    """Averages the free share of cpu and memory and adds the smaller one, so that nodes fill up evenly. Never increases
    with usage.
    """
    one, other = _left(cpu, of_cpu), _left(memory, of_memory)
    return (one + other) // 2 + min(one, other)


def _left(used: int, room: int) -> int:
    return max(room - used, 0) * HIGHEST // room if room else 0
