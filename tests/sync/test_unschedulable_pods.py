"""UnschedulablePods: a count that could not be written is written later."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from shoal.client.rest import Client
from shoal.clock import FakeClock
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.apiresource import GVR
from shoal.objects.errors import Unavailable
from shoal.runtime.event_recorder import EventRecorder
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_namespace
from shoal.sync.syncer.deps import SyncerDeps
from shoal.sync.syncer.hub_informers import SyncedResource
from shoal.sync.syncer.hub_writer import HubWriter
from shoal.sync.syncer.transform import SYNCED_FROM
from shoal.sync.syncer.unschedulable_pods import UnschedulablePods
from tests.client.scripted_transport import HOLD, Scripted, listed

pytestmark = pytest.mark.anyio
Object = dict[str, Any]

DEPLOYMENTS = SyncedResource(GVR("apps", "v1", "deployments"), "Deployment", has_status=True)
LABELS = {"app": "web"}
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
POD = {
    "metadata": {"name": "web-1", "namespace": "n", "resourceVersion": "2", "labels": LABELS},
    "status": {"conditions": [CONDITION]},
}
WEB = {
    "metadata": {"name": "web", "namespace": "n", "resourceVersion": "1", "annotations": {SYNCED_FROM: "hub/1"}},
    "spec": {"selector": {"matchLabels": LABELS}},
}


class FailingClient(Client):
    """Answers the first patch with an error."""

    def __init__(self) -> None:
        self.patches: list[Object] = []

    async def merge_patch(self, *arguments: Any, **_: Any) -> Object:
        self.patches.append(arguments[2])
        if len(self.patches) == 1:
            raise Unavailable("not now")
        return {}


async def test_a_count_that_could_not_be_written_is_written_later() -> None:
    clock, hub_client = FakeClock(), FailingClient()
    copies = Informer(Client(Scripted([listed(1, WEB)], [[HOLD]])), DEPLOYMENTS.gvr, clock, indexers=(by_namespace,))
    deps = SyncerDeps(
        cluster="east",
        hub_id="hub",
        clock=clock,
        client=Client(Scripted([listed(2, POD)], [[HOLD]])),
        hub=cast(Any, SimpleNamespace(get_full=lambda _: {"metadata": {"name": "web", "namespace": "n"}})),
        hub_writer=HubWriter(hub_client, cast(EventRecorder, None)),
        namespaces=cast(Any, SimpleNamespace(hub_name=lambda name: name)),
        downstream={DEPLOYMENTS: copies},
        names=cast(Any, None),
        status=cast(Any, None),
        queue=cast(Any, None),
    )
    tasks = [asyncio.create_task(copies.run())]
    await copies.wait_for_sync()
    tasks.append(asyncio.create_task(UnschedulablePods(deps).run()))
    for _ in range(20):
        clock.step(1)
        for _ in range(20):
            await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert hub_client.patches == [{"metadata": {"annotations": {workloadcluster.UNSCHEDULABLE_ANNOTATION: "1"}}}] * 2
