"""Secrets at the hub that hold the log of a hosted cluster: their names, and what each belongs to. Pure.

They are in a namespace of their own. A name contains the uid of the ManagedCluster, so logs of clusters of one name, in
two namespaces or one after the other, never mix. Workers of earlier releases have them beside the ManagedCluster.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from shoal.kinds.fleet import infrav1

Object = dict[str, Any]

NAMESPACE = "shoal-logs"
"""The namespace of the hub for the logs of all ManagedClusters."""
SECRET_TYPE = "shoal.dev/cluster-log"
"""The type of the Secrets, and their label with the uid of the ManagedCluster. Beside a ManagedCluster it has its name.
"""
SECRET_KEY = "log"
"""The only key of such a Secret."""

_match_uid = re.compile(r"[0-9a-f-]{36}").fullmatch
_match_number = re.compile(r"[0-9]{1,18}").fullmatch
_match_legacy_numbers = re.compile(r"([0-9]{1,18})-([0-9]{1,18})").fullmatch


class LogKey(NamedTuple):
    """The log of one epoch of a ManagedCluster."""

    namespace: str
    cluster: str
    uid: str
    epoch: int

    def secret_name(self, number: int) -> str:
        """Returns the name of the Secret of a segment in the namespace of logs."""
        return f"{self.namespace}.{self.cluster}.{self.uid}.{self.epoch}.{number}"

    def legacy_secret_name(self, number: int) -> str:
        """Returns the name of the Secret of a segment beside the ManagedCluster."""
        return legacy_secret_name(self.cluster, self.epoch, number)


class Segment(NamedTuple):
    log: LogKey
    """Without a uid: the Secret is beside the ManagedCluster."""
    number: int


def legacy_secret_name(cluster: str, epoch: int, number: int) -> str:
    return f"{cluster}-log-{epoch}-{number}"


def parse_segment(namespace: str, secret: str) -> Segment | None:
    """Returns the segment that a Secret of that name holds. None: it is not such a name."""
    if namespace == NAMESPACE and (segment := _parse_name(secret)) is not None:
        return segment
    cluster, _, numbers = secret.rpartition("-log-")
    legacy_match = _match_legacy_numbers(numbers)
    if legacy_match is None or not cluster:
        return None
    log, number = LogKey(namespace, cluster, "", int(legacy_match[1])), int(legacy_match[2])
    return Segment(log, number) if log.legacy_secret_name(number) == secret else None


def _parse_name(secret: str) -> Segment | None:
    """The name of a ManagedCluster may contain dots, that of its namespace not."""
    cluster, *rest = secret.rsplit(".", 3)
    namespace, _, name = cluster.partition(".")
    if len(rest) != 3 or not name or not _match_uid(rest[0]) or not all(map(_match_number, rest[1:])):
        return None
    log, number = LogKey(namespace, name, rest[0], int(rest[1])), int(rest[2])
    return Segment(log, number) if log.secret_name(number) == secret else None


def belongs_to(secret: Object, log: LogKey) -> bool:
    """Reports whether the Secret holds a segment of a log of that ManagedCluster."""
    if secret.get("type") != SECRET_TYPE:
        return False
    if not log.uid:
        return infrav1.is_owned_by_cluster(secret, log.cluster)
    return bool((secret["metadata"].get("labels") or {}).get(SECRET_TYPE) == log.uid)
