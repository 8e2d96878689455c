"""Exponential backoff per node for failed daemon pods, so that a pod that cannot run there is not recreated all the
time.
"""

from __future__ import annotations

from shoal.client.reflector import Key

FIRST, LONGEST = 1.0, 900.0
FORGOTTEN = 2 * LONGEST


class FailedPods:
    """Keys are DaemonSets. Times are seconds of any single clock."""

    def __init__(self) -> None:
        self._pauses: dict[Key, dict[str, tuple[float, float]]] = {}
        """By node: backoff duration and its start."""

    def held(self, key: Key, now: float) -> dict[str, float]:
        """Returns the nodes in backoff with the seconds left."""
        pauses = self._pauses.get(key, {})
        return {node: since + pause - now for node, (pause, since) in pauses.items() if since + pause > now}

    def deleted(self, key: Key, node: str, now: float) -> None:
        """Records the deletion of a failed pod on the node. The next one waits twice as long."""
        pauses = {
            each: (pause, since)
            for each, (pause, since) in self._pauses.get(key, {}).items()
            if now - since <= FORGOTTEN
        }
        before = pauses.get(node)
        pauses[node] = FIRST if before is None else min(before[0] * 2, LONGEST), now
        self._pauses[key] = pauses

    def forget(self, key: Key) -> None:
        self._pauses.pop(key, None)
