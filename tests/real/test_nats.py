"""The bus over a real nats-server: nothing lost, nothing twice, whatever breaks; and nobody speaks for another."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.clock import SystemClock
from shoal.fleet.bus import subjects
from shoal.fleet.bus.cloudevents import DELETED_ACK, PUT, RELEASED, STATUS, BusEvent, encode_event, event_headers
from shoal.fleet.bus.interface import message_of
from shoal.fleet.bus.jetstream import BusError, BusUnavailable, JetStreamSession, check_bus, connect
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.controllers import new_hub_controllers
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.fleet.publisher.controller import Publisher
from shoal.fleet.resources import LOGICAL_CLUSTERS, MANAGED_CLUSTERS, SECRETS
from tests.faults.processes import Up
from tests.fleet.fleets import Fleet, eventually, gone, managed, phase, provision, running, server, there
from tests.real.bus import NATS, Nats, Wire, nats_server, wire
from tests.serving import HANG

Object = dict[str, Any]
NOW = "2026-11-16T00:00:00.000000Z"
WORKERS = ("w1", "w2", "w3")

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(NATS is None, reason="nats-server")]


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Nats]:
    with nats_server(tmp_path) as made:
        yield made


class OverNats(Fleet):
    """Its hub's loops can be ended and begun again."""

    bus: BusSettings
    _loops: AsyncExitStack

    async def start_hub(self) -> None:
        self._loops = AsyncExitStack()
        await self._loops.enter_async_context(running(new_hub_controllers(self.hub, self.clock, self.bus)))

    async def stop_hub(self) -> None:
        await self._loops.aclose()

    async def id(self) -> str:
        return str((await self.hub.get(LOGICAL_CLUSTERS, "root"))["metadata"]["uid"])

    async def settled(self, wanted: dict[str, int]) -> None:
        """Each of them runs, has its nodes, and is on one worker; there are no others anywhere."""

        async def found() -> bool:
            at_hub, _ = await self.hub.list_all(MANAGED_CLUSTERS)
            if {each["metadata"]["name"] for each in at_hub} != set(wanted):
                return False
            where = {each["metadata"]["name"]: (each.get("status") or {}).get("assignedWorker") for each in at_hub}
            copies = [
                (each["metadata"]["name"], worker, each["spec"].get("nodes"))
                for worker, own in self.own.items()
                for each in (await own.list_all(MANAGED_CLUSTERS))[0]
            ]
            return sorted(copies) == sorted((name, str(where[name]), nodes) for name, nodes in wanted.items()) and all(
                phase(each) == "Running" and each["status"].get("observedGeneration") == each["metadata"]["generation"]
                for each in at_hub
            )

        await eventually(found)


@asynccontextmanager
async def fleet_over(directory: Path, bus: BusSettings) -> AsyncIterator[OverNats]:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(server(directory / "hub", clock))
        await ensure_worker_namespace(hub)
        made = OverNats(directory, hub, clock, stack)
        made.bus = bus
        await made.start_hub()
        stack.push_async_callback(made.stop_hub)
        stack.push_async_callback(made.close)
        yield made


async def provide(fleet: OverNats, name: str) -> None:
    """What Cluster API would do, wherever it is."""
    bound = await fleet.until(name, lambda obj: (obj.get("status") or {}).get("assignedWorker"))
    await provision(fleet.own[bound["status"]["assignedWorker"]], name)


async def resize(fleet: OverNats, name: str, nodes: int) -> None:
    await fleet.hub.merge_patch(MANAGED_CLUSTERS, name, {"spec": {"nodes": nodes}}, "default")


async def test_three_workers_whatever_breaks(tmp_path: Path, nats: Nats) -> None:
    async with AsyncExitStack() as stack:
        wires: list[Wire] = [await stack.enter_async_context(wire(nats.port)) for _ in WORKERS]
        fleet = await stack.enter_async_context(fleet_over(tmp_path, nats.bus))
        for name, each in zip(WORKERS, wires, strict=True):
            await fleet.join(name, bus=each.bus)
            await fleet.until_worker(name, lambda obj: phase(obj) == "Running")
        wanted = {f"c{number}": 0 for number in range(9)}
        for name in wanted:
            await fleet.create(name, nodes=0)
        await asyncio.gather(*(provide(fleet, name) for name in wanted))
        await fleet.settled(wanted)
        assert {(await fleet.get(name))["status"]["assignedWorker"] for name in wanted} == set(WORKERS)

        # Two links are cut, and everything changes.
        for each in wires[:2]:
            each.cut()
        await asyncio.gather(*(fleet.hub.delete(MANAGED_CLUSTERS, name, "default") for name in ("c0", "c1", "c2")))
        for name in ("c3", "c4", "c5"):
            for nodes in (5, 2, 3):
                await resize(fleet, name, nodes)
            wanted[name] = 3
        fresh = {f"d{number}": 0 for number in range(6)}
        for name in fresh:
            await fleet.create(name, nodes=0)
        # The server is killed meanwhile, then the hub.
        nats.kill()
        await fleet.hub.delete(MANAGED_CLUSTERS, "c6", "default")
        await fleet.stop_hub()
        await fleet.create("late", nodes=0)
        nats.start()
        await fleet.start_hub()
        for each in wires:
            each.restore()
        for name in ("c0", "c1", "c2", "c6"):
            del wanted[name]
        wanted |= {**fresh, "late": 0}
        await asyncio.gather(*(provide(fleet, name) for name in (*fresh, "late")))
        await fleet.settled(wanted)
        # A worker that was killed has only its store.
        await fleet.part("w3")
        await fleet.hub.delete(MANAGED_CLUSTERS, "c8", "default")
        await fleet.join("w3", bus=wires[2].bus)
        del wanted["c8"]
        await fleet.settled(wanted)
        assert await there(fleet.hub, SECRETS, "c3-kubeconfig")
        assert await gone(fleet.hub, SECRETS, "c8-kubeconfig")
        await nothing_left_over(fleet, set(wanted))


async def nothing_left_over(fleet: OverNats, names: set[str]) -> None:
    """On the bus, of what is gone."""
    hub = await fleet.id()

    async def clean() -> bool:
        held = await last_messages(fleet.bus, hub)
        return {name for _, name in held} == names

    await eventually(clean)


async def last_messages(bus: BusSettings, hub: str) -> dict[tuple[str, str], Object]:
    """By worker and name."""
    found: dict[tuple[str, str], Object] = {}
    async with connect(bus, "test") as session:
        stream, everything = subjects.stream_name(hub, subjects.CLUSTERS), subjects.all_subjects(hub, subjects.CLUSTERS)
        consumer, pending = await session.consumer(stream, everything)
        if pending:
            async for delivered in session.follow(stream, consumer):
                where = subjects.parse_subject(delivered.subject)
                assert where is not None
                found[where[0], where[1][1]] = json.loads(delivered.data)
                if not delivered.pending:
                    break
    return found


async def all_published(fleet: OverNats) -> None:
    """The bus holds the state each of them is in now."""
    hub = await fleet.id()

    async def published() -> bool:
        at_hub, _ = await fleet.hub.list_all(MANAGED_CLUSTERS)
        now = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in at_hub}
        return {name: said["revision"] for (_, name), said in (await last_messages(fleet.bus, hub)).items()} == now

    await eventually(published)


async def test_storage_that_was_lost_is_filled_again(tmp_path: Path, nats: Nats) -> None:
    async with fleet_over(tmp_path, nats.bus) as fleet:
        await fleet.join("w1", bus=nats.bus)
        await fleet.create("east", nodes=0)
        await provide(fleet, "east")
        await fleet.settled({"east": 0})
        nats.kill()
        (tmp_path / "jetstream").rename(tmp_path / "lost")
        await fleet.create("west", nodes=0)
        nats.start()
        await provide(fleet, "west")
        await fleet.settled({"east": 0, "west": 0})


async def test_only_what_changed_is_published_and_carried(tmp_path: Path, nats: Nats) -> None:
    async with AsyncExitStack() as stack:
        line = await stack.enter_async_context(wire(nats.port))
        fleet = await stack.enter_async_context(fleet_over(tmp_path, nats.bus))
        await fleet.join("w1", capacity=50, bus=line.bus)
        wanted = {f"c{number}": 0 for number in range(40)}
        for name in wanted:
            await fleet.create(name, nodes=0)
        await asyncio.gather(*(provide(fleet, name) for name in wanted))
        await fleet.settled(wanted)
        await all_published(fleet)
        everything = line.carried
        line.cut()
        await fleet.stop_hub()
        await resize(fleet, "c7", 1)
        await resize(fleet, "c7", 2)
        publisher = Publisher(fleet.hub, fleet.clock, nats.bus)
        async with running([publisher.controller]):

            async def sent() -> bool:
                return publisher.published == 1

            await eventually(sent)
            line.carried = 0
            line.restore()

            async def arrived() -> bool:
                return bool((await fleet.own["w1"].get(MANAGED_CLUSTERS, "c7", "default"))["spec"]["nodes"] == 2)

            await eventually(arrived)
            assert publisher.published == 1
            assert line.carried < everything / 10
        await fleet.start_hub()


async def test_who_it_was_taken_from_is_told(tmp_path: Path, nats: Nats) -> None:
    async with fleet_over(tmp_path, nats.bus) as fleet:
        for name in ("w1", "w2"):
            await fleet.join(name, bus=nats.bus)
            await fleet.until_worker(name, lambda obj: phase(obj) == "Running")
        await fleet.create("east", nodes=0)
        await provide(fleet, "east")
        bound = await fleet.until("east", lambda obj: phase(obj) == "Running")
        before = bound["status"]["assignedWorker"]
        after = "w2" if before == "w1" else "w1"
        moved = {"status": {"assignedWorker": after, "epoch": bound["status"]["epoch"] + 1}}
        await fleet.hub.merge_patch(MANAGED_CLUSTERS, "east", moved, "default", "status")
        await provision(fleet.own[after], "east")
        hub = await fleet.id()

        async def told() -> bool:
            held = await last_messages(nats.bus, hub)
            return {key: said["type"] for key, said in held.items()} == {
                (before, "east"): RELEASED,
                (after, "east"): PUT,
            }

        await eventually(told)
        assert await there(fleet.own[before], MANAGED_CLUSTERS, "east"), "not being told of it any more deletes nothing"


async def test_a_worker_that_lies_changes_nothing(tmp_path: Path, nats: Nats) -> None:
    async with fleet_over(tmp_path, nats.bus) as fleet:
        await fleet.join("w1", bus=nats.bus)
        await fleet.create("east", nodes=0)
        await provide(fleet, "east")
        await fleet.settled({"east": 0})
        hub = await fleet.id()
        name = ("default", "east")

        async with connect(nats.bus, "liar") as session:

            async def say(kind: str, worker: str, data: Object | None, under: str = "") -> None:
                mark = message_of(await fleet.get("east")).version
                event = BusEvent(kind, hub, worker, name, mark, data)
                await session.publish(under or event.subject, encode_event(event, NOW), event_headers(event))

            before = await fleet.get("east")
            lie = {**before["status"], "phase": "Failed"}
            await say(STATUS, "w2", lie)  # under its own name, about a cluster of w1
            theirs = subjects.cluster_subject(hub, subjects.STATUS, "w2", name)
            await say(STATUS, "w1", lie, under=theirs)  # in the name of w1, where w2 may publish
            await say(DELETED_ACK, "w1", None)  # it is not being deleted
            stolen = {**before["status"], "assignedWorker": "w2"}
            await say(STATUS, "w1", stolen)  # giving it away
            await session.publish(theirs, b"{", {})
            await all_heard(session, hub)
        assert await fleet.get("east") == before
        await resize(fleet, "east", 0)
        await fleet.settled({"east": 0})


async def all_heard(session: JetStreamSession, hub: str) -> None:
    stream = subjects.stream_name(hub, subjects.STATUS)

    async def heard() -> bool:
        info = await session._jetstream.consumer_info(stream, subjects.HUB_CONSUMER)
        return not info.num_pending and not info.num_ack_pending

    await eventually(heard)


async def test_a_server_that_cannot_be_the_bus(tmp_path: Path, nats: Nats) -> None:
    await check_bus(nats.bus, "test")
    (tmp_path / "plain").mkdir()
    with nats_server(tmp_path / "plain", "--user", "somebody", "--pass", "secret") as plain:
        with pytest.raises(BusError, match="rejected the credentials") as refused:
            await check_bus(plain.bus, "test")
        assert refused.value.exit_code == 4
        known = BusSettings((plain.url.replace("//", "//somebody:secret@"),))
        with pytest.raises(BusError, match="the NATS server has no JetStream") as refused:
            await check_bus(known, "test")
        assert "nats-server -js" in refused.value.hint
    await check_bus(known, "test")  # nobody answers: that may change


PERMISSIONS = """
jetstream {{ store_dir: "{directory}" }}
authorization {{ users = [
  {{ user: hub, password: hub }}
  {{ user: w1, password: w1, permissions: {{
    publish: [ "$JS.API.INFO", "$JS.API.CONSUMER.CREATE.shoal-{hub}-clusters.worker-w1.shoal.{hub}.clusters.w1.>",
      "$JS.API.CONSUMER.DELETE.shoal-{hub}-clusters.worker-w1",
      "$JS.API.CONSUMER.MSG.NEXT.shoal-{hub}-clusters.worker-w1",
      "$JS.ACK.shoal-{hub}-clusters.worker-w1.>", "shoal.{hub}.status.w1.>" ]
    subscribe: [ "_INBOX_worker-w1.>" ] }} }}
] }}
"""
"""As docs/bus.md has them."""


async def test_permissions_hold_a_worker_to_its_own_subjects(tmp_path: Path) -> None:
    async with server(tmp_path / "hub") as hub:
        identity = await hub_of(hub)
    settings = tmp_path / "nats.conf"
    settings.write_text(PERMISSIONS.format(directory=tmp_path / "jetstream", hub=identity))
    with nats_server(tmp_path, "-c", str(settings)) as nats:
        as_hub, as_w1 = (BusSettings((nats.url.replace("//", f"//{who}:{who}@"),)) for who in ("hub", "w1"))
        async with fleet_over(tmp_path, as_hub) as fleet:
            await fleet.join("w1", bus=as_w1)
            await fleet.create("east", nodes=0)
            await provide(fleet, "east")
            await fleet.settled({"east": 0})
            await fleet.hub.delete(MANAGED_CLUSTERS, "east", "default")
            await fleet.settled({})
            async with connect(as_w1, "worker-w1") as session:
                stream = subjects.stream_name(identity, subjects.CLUSTERS)
                for consumer, worker in (("worker-w1", "w2"), ("worker-w2", "w2")):
                    with pytest.raises(BusUnavailable):
                        await session.consumer(
                            stream, subjects.worker_subjects(identity, subjects.CLUSTERS, worker), consumer
                        )
                with pytest.raises(BusUnavailable):
                    await session.publish(
                        subjects.cluster_subject(identity, subjects.STATUS, "w2", ("a", "b")), b"", {}
                    )


async def hub_of(client: Client) -> str:
    return str((await client.get(LOGICAL_CLUSTERS, "root"))["metadata"]["uid"])


PATH = "/clusters/root/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters"


def test_processes(tmp_path: Path, nats: Nats) -> None:
    """`shoal hub` and `shoal worker`, each killed in turn."""
    flags = ("--bus", nats.url)
    hub = Up(tmp_path / "hub", *flags, verb="hub")
    join = ("--hub-kubeconfig", str(tmp_path / "hub" / "kubeconfig"), "--name", "w1", *flags)
    own = Up(tmp_path / "w1", *join, verb="worker", ready="the worker's own API is at ")
    try:
        client = hub.client()
        client.request("POST", PATH, managed("east", nodes=1))
        until(lambda: phase(client.request("GET", f"{PATH}/east")) == "Running")
        own.close()
        client.request("POST", PATH, managed("west", nodes=0))
        hub.close()
        nats.kill()
        nats.start()
        hub = Up(tmp_path / "hub", *flags, verb="hub")
        own = Up(tmp_path / "w1", *join, verb="worker", ready="the worker's own API is at ")
        client = hub.client()
        until(lambda: phase(client.request("GET", f"{PATH}/west")) == "Running")
        for name in ("east", "west"):
            client.request("DELETE", f"{PATH}/{name}")
        until(lambda: not client.request("GET", PATH)["items"])
        assert own.terminate()[0] == 0
        assert hub.terminate()[0] == 0
    finally:
        own.close()
        hub.close()


def until(look: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not look():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)
