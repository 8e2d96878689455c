"""Requests of the controllers fail for a while; what depends on them is made all the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from shoal.capi.informers import SECRETS
from shoal.client.rest import GroupVersionResource
from shoal.client.transport import Transport
from shoal.kinds.clusterapi import embedded
from shoal.objects.errors import NotFound
from tests.capi.crashable_server import Place, place
from tests.transports import Passing

pytestmark = pytest.mark.anyio

CLUSTER_ROLE_BINDINGS = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", namespaced=False)

FAILURES = 5


class Failing(Passing):
    """The first requests with that method and path fail. They are not sent."""

    def __init__(self, transport: Transport, method: str, path: str) -> None:
        super().__init__(transport)
        self._failing, self.failures = (method, path), 0

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if self.failures < FAILURES and (method, path) == self._failing:
            self.failures += 1
            raise OSError("injected")
        return await self.inner.request(method, path, query, headers, body)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/kube-system/serviceaccounts",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/api/v1/namespaces/kube-system/serviceaccounts/shoal-admin/token",
    ],
)
async def test_a_hosted_cluster_has_an_administrator_whatever_fails(tmp_path: Path, path: str) -> None:
    async with place(tmp_path) as here:
        transport = Failing(here.server.transport(), "POST", f"/clusters/default.east{path}")
        here.start(transport)
        await here.apply()
        await here.eventually(lambda: has_kubeconfig(here))
        assert transport.failures == FAILURES
        binding = embedded.admin_role_binding()
        hosted = here.client.in_cluster("default.east")
        found = await hosted.get(CLUSTER_ROLE_BINDINGS, binding["metadata"]["name"])
        assert found["subjects"] == binding["subjects"]


async def has_kubeconfig(here: Place) -> bool:
    try:
        await here.client.get(SECRETS, "east-kubeconfig", "default")
    except NotFound:
        return False
    return True
