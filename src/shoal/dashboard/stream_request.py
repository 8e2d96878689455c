"""The request body of the stream: watches by id, each a path of the hub or of a hosted cluster. Pure."""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec

from shoal.objects.errors import BadRequest

MAX_WATCHES = 128
MAX_ID_LENGTH = 200
METRICS_PATH = "/metrics"
"""Not a watch: it is polled, and an event is sent when the cost of nodes has changed."""


class StreamWatch(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    """The path of a resource below the server: /apis/apps/v1/deployments."""
    inside: str = ""
    """NAMESPACE/NAME of a ManagedCluster, if the resource is in that cluster."""
    since: str = ""
    """The last resourceVersion the browser has; empty: all objects are sent first."""

    @property
    def query(self) -> str:
        start = (
            {"resourceVersion": self.since}
            if self.since
            else {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": ""}
        )
        return urlencode({"watch": "true", "allowWatchBookmarks": "true", **start})

    @property
    def managed_cluster(self) -> tuple[str, str]:
        namespace, _, name = self.inside.partition("/")
        return namespace, name


class StreamRequest(msgspec.Struct, forbid_unknown_fields=True):
    watches: dict[str, StreamWatch]


_DECODER = msgspec.json.Decoder(StreamRequest)


def parse_watches(body: bytes) -> dict[str, StreamWatch]:
    try:
        watches = _DECODER.decode(body).watches
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BadRequest(f"the body is not a set of watches: {error}") from None
    if not 1 <= len(watches) <= MAX_WATCHES:
        raise BadRequest(f"a stream must have 1 to {MAX_WATCHES} watches, not {len(watches)}")
    for name, watch in watches.items():
        _check_watch(name, watch)
    return watches


def _check_watch(name: str, watch: StreamWatch) -> None:
    if not name or len(name) > MAX_ID_LENGTH:
        raise BadRequest(f"the id of a watch must have 1 to {MAX_ID_LENGTH} characters")
    parts = watch.path.split("/")
    is_kind = parts[:2] in (["", "api"], ["", "apis"]) and not {"", ".", ".."} & set(parts[1:])
    if watch.path != METRICS_PATH and not is_kind:
        raise BadRequest(f"{name}: the path of a watch must begin with /api/ or /apis/, or be {METRICS_PATH}")
    if watch.inside and (
        watch.inside.count("/") != 1 or not all(watch.managed_cluster) or {".", ".."} & set(watch.managed_cluster)
    ):
        raise BadRequest(f"{name}: inside must be NAMESPACE/NAME of a ManagedCluster")
