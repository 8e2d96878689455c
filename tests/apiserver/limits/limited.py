"""A logical cluster with limits, and what it uses, counted anew from its objects."""

from __future__ import annotations

from shoal.apiserver.cache.storage_form import strip_revision
from shoal.apiserver.cache.usage import EVENTS, INTERNAL_PREFIX
from tests.serving import Answer, Cluster, config_map

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CLUSTERS = "/apis/core.shoal.dev/v1alpha1/logicalclusters"


def set_limits(cluster: Cluster, **limits: int | str | None) -> Answer:
    root = Cluster(cluster.server, "root")
    try:
        return root.patch(f"{CLUSTERS}/{cluster.name}", {"spec": {"limits": limits}})
    finally:
        root.close()


def usage_of(cluster: Cluster) -> tuple[int, int, int, int]:
    """Objects and bytes, then those of Events, as the server counts them."""

    async def read() -> tuple[int, int, int, int]:
        usage = cluster.server.shoal.server.core.cache.usage
        objects, events = usage.objects(cluster.name), usage.events(cluster.name)
        return (
            objects.objects if objects else 0,
            objects.bytes if objects else 0,
            events.objects if events else 0,
            events.bytes if events else 0,
        )

    return cluster.server.call(read())


def has_reservations(cluster: Cluster) -> bool:
    """Whether the server believes that a write of the cluster is under way."""

    async def read() -> bool:
        usage = cluster.server.shoal.server.core.cache.usage
        accounts = [account for find in (usage.objects, usage.events) if (account := find(cluster.name)) is not None]
        return any(account.reserved_objects or account.reserved_bytes for account in accounts)

    return cluster.server.call(read())


def recount(cluster: Cluster) -> tuple[int, int, int, int]:
    """The same from what is in the store."""

    async def read() -> tuple[int, int, int, int]:
        core = cluster.server.shoal.server.core
        await core.store.flush()
        totals = [0, 0, 0, 0]
        for kind in core.cache.resource_caches.values():
            table = kind.tables.get(cluster.name)
            if table is None or kind.key.startswith(INTERNAL_PREFIX):
                continue
            place = 2 if kind.key == EVENTS else 0
            for entry in table.entries.values():
                if not entry.virtual:
                    totals[place] += 1
                    totals[place + 1] += len(strip_revision(entry.data))
        return totals[0], totals[1], totals[2], totals[3]

    return cluster.server.call(read())


def fill(cluster: Cluster, size: int = 0) -> list[str]:
    """Creates ConfigMaps until one is refused. Returns their names."""
    names: list[str] = []
    while True:
        name = f"c{len(names)}"
        answer = cluster.post(CONFIG_MAPS, config_map(name, {"text": "x" * size}))
        if answer.status == 403:
            return names
        answer.ok()
        names.append(name)
