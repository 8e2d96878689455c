"""Functions that run in the solver process: evaluation of a whole cluster, with a time limit, and validation."""

from __future__ import annotations

import time

from shoal.provision.disruption.decide import rest, validate
from shoal.provision.disruption.model import Command, Decision, Settings, Snapshot

SECONDS = 30.0


def look(snapshot: Snapshot, settings: Settings) -> Decision:
    end = time.monotonic() + SECONDS
    return rest(snapshot, settings, lambda: time.monotonic() > end)


def validated(snapshot: Snapshot, command: Command, settings: Settings) -> tuple[Command | None, str]:
    return validate(snapshot, command, settings)
