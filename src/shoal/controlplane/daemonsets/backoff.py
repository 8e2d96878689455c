"""How long a pod that failed on a node is left alone, so that what cannot work there is not tried all the time."""

from __future__ import annotations

from shoal.client.reflector import Key

FIRST, LONGEST = 1.0, 900.0
FORGOTTEN = 2 * LONGEST


class FailedPods:
    """Keys are DaemonSets. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._pauses: dict[Key, dict[str, tuple[float, float]]] = {}
        """By node: the pause and since when it lasts."""

    def held(self, key: Key, now: float) -> dict[str, float]:
        """Nodes and the seconds left."""
        pauses = self._pauses.get(key, {})
        return {node: since + pause - now for node, (pause, since) in pauses.items() if since + pause > now}

    def deleted(self, key: Key, node: str, now: float) -> None:
        """A failed pod was deleted on the node: the next one waits twice as long."""
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
