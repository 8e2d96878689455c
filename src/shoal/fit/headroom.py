"""How roomy a node would be with a pod on it: by that nodes are compared where nothing else tells them apart. Pure.

The scheduler chooses by it; whoever plans for pods that the scheduler will place foresees with it where they go.
"""

from __future__ import annotations

HIGHEST = 100


def headroom(cpu: int, of_cpu: int, memory: int, of_memory: int) -> int:
    """What would be left of both, and of the scarcer once more: nodes fill up evenly. It never grows with what is
    taken."""
    one, other = _left(cpu, of_cpu), _left(memory, of_memory)
    return (one + other) // 2 + min(one, other)


def _left(used: int, room: int) -> int:
    return max(room - used, 0) * HIGHEST // room if room else 0
