"""NATS subjects: one per ManagedCluster and worker, in two streams per hub. Pure.

shoal.<hub>.clusters.<worker>.<namespace>.<name>   desired state, from the hub

shoal.<hub>.status.<worker>.<namespace>.<name>     status, from the worker

The hub is the id of its store. A name may contain dots, so it comes last; the other parts contain none.
"""

from __future__ import annotations

from shoal.fleet.bus.interface import Name

CLUSTERS, STATUS = "clusters", "status"
HUB_CONSUMER = "shoal-hub"
"""The hub's consumer and client name at the server; a worker has its own."""


def stream_name(hub: str, channel: str) -> str:
    return f"shoal-{hub}-{channel}"


def all_subjects(hub: str, channel: str) -> str:
    return f"shoal.{hub}.{channel}.>"


def worker_subjects(hub: str, channel: str, worker: str) -> str:
    return f"shoal.{hub}.{channel}.{worker}.>"


def cluster_subject(hub: str, channel: str, worker: str, name: Name) -> str:
    return f"shoal.{hub}.{channel}.{worker}.{name[0]}.{name[1]}"


def any_worker_subject(hub: str, channel: str, name: Name) -> str:
    return cluster_subject(hub, channel, "*", name)


def parse_subject(subject: str) -> tuple[str, Name] | None:
    """Returns worker and name; None if it is no such subject."""
    parts = subject.split(".", 5)
    if len(parts) != 6 or parts[0] != "shoal" or not all(parts):
        return None
    return parts[3], (parts[4], parts[5])


def worker_consumer(worker: str) -> str:
    return f"worker-{worker}"
