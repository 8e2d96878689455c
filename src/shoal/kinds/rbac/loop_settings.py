"""What a hub tells the loops that run outside its process: the ConfigMap kube-system/shoal-loops. Pure.

Their flags belong to the hub, so that a loop does the same wherever it runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.kinds.fleet.endpoint import DEFAULT_RANGE, PortRange, parse_port_range
from shoal.kinds.rbac.controller_accounts import NAMESPACE
from shoal.kinds.rbac.loop_accounts import SETTINGS_CONFIG_MAP

Object = dict[str, Any]


class LoopSettings(NamedTuple):
    outside: frozenset[str]
    """The loops that the hub does not run itself."""
    url: str
    """The address at which clients reach the hub."""
    authority: str
    """The certificate authority of that address, as PEM."""
    host: str
    """The host of addresses that the hub gives to clusters, and the ports of those."""
    cluster_ports: PortRange = DEFAULT_RANGE
    sync_mode: str = ""
    resources_to_sync: tuple[str, ...] = ()
    auto_publish_apis: bool = True
    worker_image: str = ""
    bus: str = ""
    """`watch` or `nats`. The address of a NATS server may contain a password and is not given."""


def settings_config_map(settings: LoopSettings) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": SETTINGS_CONFIG_MAP, "namespace": NAMESPACE},
        "data": {
            "loops": ",".join(sorted(settings.outside)),
            "url": settings.url,
            "ca.crt": settings.authority,
            "cluster-host": settings.host,
            "cluster-ports": str(settings.cluster_ports),
            "sync-mode": settings.sync_mode,
            "resources-to-sync": ",".join(settings.resources_to_sync),
            "auto-publish-apis": str(settings.auto_publish_apis).lower(),
            "worker-image": settings.worker_image,
            "bus": settings.bus,
        },
    }


def parse_settings(config_map: Object) -> LoopSettings:
    data = config_map.get("data") or {}
    return LoopSettings(
        frozenset(_names(data.get("loops"))),
        data.get("url") or "",
        data.get("ca.crt") or "",
        data.get("cluster-host") or "",
        parse_port_range(data.get("cluster-ports") or "") or DEFAULT_RANGE,
        data.get("sync-mode") or "",
        _names(data.get("resources-to-sync")),
        data.get("auto-publish-apis") == "true",
        data.get("worker-image") or "",
        data.get("bus") or "",
    )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (text or "").split(",")))
