"""Invariants of three workers whose links are cut and restored during changes, over any bus."""

from __future__ import annotations

from tests.fleet_story.fleet_processes import WORKERS, Apart


def survives_cuts(fleet: Apart, names: list[str]) -> list[str]:
    """While links are down, clusters are made, changed and deleted; when they are back, nothing is lost or twice.
    Answers what there is then."""
    for name in names:
        fleet.create(name)
    where = fleet.settled(names)
    assert set(where.values()) == set(WORKERS)

    fleet.cut("w1", "w2")
    gone, changed = names[:3], names[3:6]
    for name in gone:
        fleet.delete(name)
    for name in changed:
        for word in ("one", "two", "three"):
            fleet.change(name, word)
    fresh = [f"new-{name}" for name in gone]
    for name in fresh:
        fleet.create(name)
    # One that goes before its worker has heard of it.
    fleet.create("short")
    fleet.delete("short")
    fleet.cut("w3")
    fleet.delete(names[6])
    fleet.restore()
    names = [*names[3:6], *names[7:], *fresh]
    after = fleet.settled(names)
    assert {name: after[name] for name in where if name in after} == {
        name: where[name] for name in where if name in after
    }

    # One that comes back under the same name.
    again = names[0]
    fleet.cut(after[again])
    fleet.delete(again)
    fleet.restore()
    fleet.settled(names[1:])
    fleet.create(again)
    fleet.settled(names)
    return names


def carries_what_changed(fleet: Apart, names: list[str], few: int = 3) -> None:
    """Bytes after a reconnection follow the changes, not the number of clusters."""
    some, everything = _reconnected(fleet, names, names[:few], "some"), _reconnected(fleet, names, names, "all")
    assert some * 3 < everything, f"{some} bytes for {few} of {len(names)}, {everything} for all"


def _reconnected(fleet: Apart, names: list[str], changed: list[str], word: str) -> int:
    fleet.cut(*WORKERS)
    before = fleet.carried()
    for name in changed:
        fleet.change(name, word)
    fleet.restore()
    fleet.settled(names)
    return fleet.carried() - before
