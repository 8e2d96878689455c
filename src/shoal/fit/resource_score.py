"""Score of the free resources of a node with a pod on it. Pure.

The scheduler uses it as the last criterion. Provisioning uses it to predict where the scheduler will place pods.
"""

from __future__ import annotations

MAX_SCORE = 100


def resource_score(cpu: int, total_cpu: int, memory: int, total_memory: int) -> int:
    """Averages the free share of cpu and memory and adds the smaller one, so that nodes fill up evenly. Never increases
    with usage.
    """
    cpu_score, memory_score = _free_score(cpu, total_cpu), _free_score(memory, total_memory)
    return (cpu_score + memory_score) // 2 + min(cpu_score, memory_score)


def _free_score(used: int, allocatable: int) -> int:
    return max(allocatable - used, 0) * MAX_SCORE // allocatable if allocatable else 0
