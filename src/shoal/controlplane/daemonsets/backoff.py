"""Exponential backoff per node for failed daemon pods, so that a pod that cannot run there is not recreated all the
time.
"""

from __future__ import annotations

from shoal.client.reflector import Key

INITIAL_SECONDS, MAX_SECONDS = 1.0, 900.0
FORGET_SECONDS = 2 * MAX_SECONDS


class FailedPodsBackoff:
    """Keys are DaemonSets. Times are seconds of any single clock."""

    def __init__(self) -> None:
        self._backoffs: dict[Key, dict[str, tuple[float, float]]] = {}
        """By node: backoff duration and its start."""

    def remaining(self, key: Key, now: float) -> dict[str, float]:
        """Returns the nodes in backoff with the seconds left."""
        backoffs = self._backoffs.get(key, {})
        return {node: since + duration - now for node, (duration, since) in backoffs.items() if since + duration > now}

    def record_deletion(self, key: Key, node: str, now: float) -> None:
        """Records the deletion of a failed pod on the node. The next one waits twice as long."""
        backoffs = {
            each: (duration, since)
            for each, (duration, since) in self._backoffs.get(key, {}).items()
            if now - since <= FORGET_SECONDS
        }
        previous = backoffs.get(node)
        backoffs[node] = INITIAL_SECONDS if previous is None else min(previous[0] * 2, MAX_SECONDS), now
        self._backoffs[key] = backoffs

    def forget(self, key: Key) -> None:
        self._backoffs.pop(key, None)
