"""Which Placements select which roots or leave them behind: what their statuses are made of."""

from __future__ import annotations

from collections.abc import Callable

from shoal.client.reflector import Key
from shoal.placement.splitter.placement_status import PlacementMatch

STATUS_DELAY_SECONDS, MAX_STATUS_DELAY_SECONDS = 0.1, 2.0
"""From when an object follows another Placement until their statuses are updated: longer, the more objects there
are.
"""


class PlacementMatches:
    def __init__(self, on_change: Callable[[Key, float], None]) -> None:
        """`on_change` is called with a Placement and the seconds after which its status is to be updated."""
        self._on_change = on_change
        self._matches: dict[tuple[str, Key], PlacementMatch] = {}
        """By kind, such as `Deployment.apps`, and root."""

    def update(self, kind: str, root: Key, match: PlacementMatch) -> PlacementMatch:
        """Returns the previous match."""
        previous = self._matches.pop((kind, root), PlacementMatch())
        if match != PlacementMatch():
            self._matches[kind, root] = match
        if previous != match:
            delay = min(STATUS_DELAY_SECONDS + len(self._matches) / 500, MAX_STATUS_DELAY_SECONDS)
            for name in {*previous.names, *match.names, *previous.left_behind_by, *match.left_behind_by}:
                self._on_change((root[0], root[1], name), delay)
        return previous

    def of(self, placement: Key) -> dict[str, PlacementMatch]:
        """Returns the matches of one Placement, by a title such as `Deployment web`."""
        return {
            f"{kind.partition('.')[0]} {root[2]}": match
            for (kind, root), match in self._matches.items()
            if root[1] == placement[1] and placement[2] in (*match.names, *match.left_behind_by)
        }
