"""Rotations of the keys of a hosted cluster: asked for at the hub, done at the worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.capi.providers.embedded.clusters import decide as embedded
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds.clusterapi.embedded import OWNER_UID_ANNOTATION
from tests.assemble.server.test_cluster_ports import NAMESPACES, some_range, up
from tests.assemble.server.test_key_rotation import REFUSED, rotate
from tests.serving_ports import request, trust

Object = dict[str, Any]

SERVER = embedded.HostingServer("https://127.0.0.1:6443", "PEM")
NOW = "2026-11-18T12:00:00Z"


def keys(generation: int, trust_former: bool = True) -> Object:
    return {"keys": {"generation": generation, "trustFormer": trust_former}}


@pytest.mark.parametrize(
    ("wanted", "current", "in_force", "token_generation", "patch"),
    [
        (keys(2), {}, {}, 1, keys(2)),
        (keys(2), keys(2), keys(2), 1, None),
        # Former keys are refused after the kubeconfig has a token of the new ones.
        (keys(2, False), {}, {}, 1, keys(2)),
        (keys(2, False), keys(2), keys(1), 1, None),
        (keys(2, False), keys(2), keys(2), 1, None),
        (keys(2, False), keys(2), keys(2), 2, keys(2, False)),
        (keys(2, False), keys(2, False), keys(2, False), 2, None),
        # A rotation that is under way is finished first.
        (keys(3), keys(2), keys(2), 1, None),
        (keys(3), keys(2), keys(2), 2, keys(2, False)),
        (keys(3), keys(2, False), keys(2, False), 2, keys(3)),
        # Somebody has rotated the keys of the LogicalCluster itself.
        (keys(2), keys(3), keys(3), 3, None),
        ({}, keys(3), keys(3), 3, None),
    ],
)
def test_the_next_step_of_the_logical_cluster(
    wanted: Object, current: Object, in_force: Object, token_generation: int, patch: Object | None
) -> None:
    cluster = {"metadata": {"name": "east", "namespace": "ns", "uid": "c"}, "spec": {}}
    obj: Object = {"metadata": {"name": "east", "namespace": "ns", "uid": "e"}, "spec": wanted}
    logical: Object = {"metadata": {"name": "ns.east", "annotations": {OWNER_UID_ANNOTATION: "e"}}}
    logical |= {"spec": current, "status": in_force}
    secret = {"metadata": {"annotations": {"core.shoal.dev/keys-generation": str(token_generation)}}}
    snapshot = embedded.EmbeddedClusterSnapshot(obj, cluster, logical, None, secret)
    found = embedded.decide(snapshot, SERVER, NOW).patch_logical_cluster
    assert found == (None if patch is None else {"spec": patch})


@pytest.mark.anyio
async def test_the_keys_of_a_hosted_cluster(tmp_path: Path) -> None:
    """Through the ManagedCluster, with a kubeconfig that is usable in every phase."""
    async with up(tmp_path, some_range(2), workers=1) as made:
        await made.create_managed("east")
        port = await made.port_of(MANAGED_CLUSTERS, "east")
        tokens = [await made.kubeconfig_token("east")]
        keys = made.worker_hosting("east").core.keys
        authorities = [await keys.ensure_root_ca("default.east")]
        for generation, trust_former in ((2, True), (2, False), (3, True), (4, False)):
            found = await rotate(made, MANAGED_CLUSTERS, "east", generation, trust_former)
            condition = next(each for each in found["status"]["conditions"] if each["type"] == "KeysRotated")
            assert condition["status"] == str(not trust_former)
            tokens.append(await made.kubeconfig_token("east"))
            authorities.append(keys.ca_bundle("default.east"))
            for authority in (authorities[-1], authorities[-2]) if trust_former else authorities[-1:]:
                assert (await request(port, trust(authority), NAMESPACES, tokens[-1]))[0] == 200
        assert len(set(tokens)) == 4
        assert len(set(authorities)) == 5
        for former in set(tokens[:-1]):
            assert (await request(port, trust(authorities[-1]), NAMESPACES, former))[0] == 401
        with pytest.raises(REFUSED):
            await request(port, trust(authorities[0]), NAMESPACES)
