"""Controllers write to other servers only while their lease is held."""

from __future__ import annotations

import pytest

from shoal.client.fencing import fence_client
from shoal.client.rest import Client
from shoal.objects.errors import Unavailable
from tests.client.test_rest import talk
from tests.leases import MAPS, every_write
from tests.serving import Cluster, config_map


def test_every_way_to_write_ends_with_the_lease(cluster: Cluster) -> None:
    valid = [True]

    async def work(plain: Client) -> None:
        loop = fence_client(plain, lambda: valid[0])
        made = await loop.create(MAPS, config_map("a", {"n": "1"}), "default")
        valid[0] = False
        for write in (*every_write(loop, made), loop.in_cluster(cluster.name).delete(MAPS, "a", "default")):
            with pytest.raises(Unavailable, match="lost its lease"):
                await write
        assert await loop.get(MAPS, "a", "default") == made, "it may look"
        valid[0] = True
        await loop.delete(MAPS, "a", "default")

    talk(cluster, "https", work)


def test_without_a_lease_there_is_no_fence(cluster: Cluster) -> None:
    async def work(plain: Client) -> None:
        assert fence_client(plain, None) is plain

    talk(cluster, "in-process", work)
