"""Which of two messages about one ManagedCluster is the newer. Pure."""

from __future__ import annotations

from shoal.fleet.bus.interface import Mark


def is_stale(known: Mark | None, told: Mark) -> bool:
    """Whether a message is older than what is known, and to be dropped. The same one again is not.

    Within one object the epoch decides first: what was said when another worker had it no longer counts, however
    late it comes. Between two objects of one name, and within an epoch, the hub's revision does.
    """
    if known is None:
        return False
    if told.uid == known.uid and told.epoch != known.epoch:
        return told.epoch < known.epoch
    return told.revision < known.revision
