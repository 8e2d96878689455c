"""One change is one trace: from the request through store, watch and controllers into another cluster, and back."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.telemetry import otlp_exporter
from shoal.assemble.telemetry.otlp_exporter import SpanExporter
from shoal.telemetry import tracing
from tests.isolation.tenants import MANAGED, Hub
from tests.serving import HANG, Cluster, Server
from tests.sync.sync_environment import World, deployment

TRACE, CLIENT_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{CLIENT_SPAN}-01"
Span = dict[str, Any]


@dataclass
class OTLPReceiver:
    """A minimal OTLP collector."""

    url: str = ""
    bodies: list[Any] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def spans(self, trace: str = TRACE) -> list[Span]:
        found = []
        for body in self.bodies:
            for resource in body["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    named = {"scope": scope["scope"]["name"]}
                    found += [{**span, **named} for span in scope["spans"] if span["traceId"] == trace]
        return found

    def wait_for_spans(self, enough: Callable[[list[Span]], bool]) -> list[Span]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: enough(self.spans()), HANG), [s["name"] for s in self.spans()]
            return self.spans()


@pytest.fixture
def receiver() -> Iterator[OTLPReceiver]:
    found = OTLPReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert self.path == "/v1/traces"
            assert self.headers["content-type"] == "application/json"
            with found.arrived:
                found.bodies.append(body)
                found.arrived.notify_all()
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    found.url = f"http://127.0.0.1:{listening.server_address[1]}"
    yield found
    listening.shutdown()
    listening.server_close()


@pytest.fixture
def traced_world(receiver: OTLPReceiver, tmp_path: Path) -> Iterator[World]:
    tracing.enable(receiver.url, "shoal-test")
    try:
        assert tracing.tracer is not None
        server = Server(tmp_path / "data")
        exporter = SpanExporter(tracing.tracer, receiver.url)
        running = asyncio.run_coroutine_threadsafe(exporter.run(), server.loop)
        world = World(server)
        yield world
        world.close()
        running.cancel()
        server.call(exporter.close())
        server.stop()
    finally:
        tracing.disable()


def test_an_apply_to_a_synced_deployment_is_one_trace(traced_world: World, receiver: OTLPReceiver) -> None:
    world = traced_world
    member = world.member()
    name = world.register(member)
    made = world.hub.request("POST", world.path(), deployment("web", name, replicas=2), traceparent=TRACEPARENT)
    made.ok()
    world.hub.eventually(lambda: (world.hub.get(f"{world.path()}/web").ok().get("status") or {}).get("replicas") == 2)

    def has(scope: str, start: str, cluster: str = "") -> Callable[[Span], bool]:
        def fits(span: Span) -> bool:
            return bool(span["scope"] == scope and span["name"].startswith(start) and told(span, cluster))

        return fits

    def told(span: Span, cluster: str) -> bool:
        said = {each["key"]: each["value"].get("stringValue") for each in span["attributes"]}
        return not cluster or said.get("shoal.cluster") == cluster

    steps = [
        has("apiserver", "POST deployments", "root"),
        has("store", "store put"),
        has("syncer", f"reconcile syncer {name}"),
        has("client", f"PATCH {world.path()}/web"),
        has("apiserver", "PATCH deployments", member.name),
        has("deployments", "reconcile deployments"),
        has("apiserver", "POST replicasets", member.name),
        has("replicasets", "reconcile replicasets"),
        has("apiserver", "POST pods", member.name),
        has("apiserver", "PATCH deployments/status", "root"),
    ]
    spans = receiver.wait_for_spans(lambda found: all(any(map(step, found)) for step in steps))
    by_id = {span["spanId"]: span for span in spans}
    first = next(span for span in spans if steps[0](span))
    assert first["parentSpanId"] == CLIENT_SPAN

    def roots_of(span: Span) -> str:
        while span["parentSpanId"] in by_id:
            span = by_id[span["parentSpanId"]]
        return str(span["spanId"])

    assert {roots_of(span) for span in spans} == {first["spanId"]}, "every span has its cause in the trace"
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in spans)


def test_a_managed_cluster_is_one_trace_from_the_hub_to_its_nodes(receiver: OTLPReceiver, tmp_path: Path) -> None:
    """Hub and worker are two servers with two stores: the trace travels with the watch from one to the other."""
    tracing.enable(receiver.url, "shoal-test")
    try:
        assert tracing.tracer is not None
        hub = Hub(tmp_path / "data")
        exporter = SpanExporter(tracing.tracer, receiver.url)
        running = asyncio.run_coroutine_threadsafe(exporter.run(), hub.loop)
        root = Cluster(hub, "root")
        kind = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "ManagedCluster"}
        body = {**kind, "metadata": {"name": "east"}, "spec": {"nodes": 1}}
        root.request("POST", MANAGED, body, traceparent=TRACEPARENT).ok()
        wanted = {"fleet-scheduler", "fleet-subscriber", "fleet-hosting", "capi-machines", "simulated-nodes"}
        wanted |= {"fleet-reporter", "registration"}
        spans = receiver.wait_for_spans(lambda found: wanted <= {span["scope"] for span in found})
        assert {span["traceId"] for span in spans} == {TRACE}
        running.cancel()
        hub.call(exporter.close())
        root.close()
        hub.stop()
    finally:
        tracing.disable()


def test_what_nobody_asked_for_is_not_traced(traced_world: World, receiver: OTLPReceiver) -> None:
    """Reads without a trace of their own, and periodic reconciles."""
    hub = traced_world.hub
    hub.get("/api/v1/endpoints")
    unsampled = TRACEPARENT[:-2] + "00"
    body = {"metadata": {"name": "quiet"}}
    path = f"/api/v1/namespaces/{traced_world.namespace}/configmaps"
    hub.request("POST", path, body, traceparent=unsampled).ok()
    hub.request("GET", f"{path}/quiet", traceparent=TRACEPARENT).ok()
    hub.request("POST", path, {"metadata": {"name": "loud"}}).ok()
    receiver.wait_for_spans(lambda spans: any(span["name"] == "GET configmaps" for span in spans))
    assert {span["name"] for span in receiver.spans()} == {"GET configmaps"}
    every = [
        span for body in receiver.bodies for r in body["resourceSpans"] for s in r["scopeSpans"] for span in s["spans"]
    ]
    assert all(span["name"] != "GET endpoints" for span in every)


def test_events_say_nothing_of_traces_where_they_are_off(server: Server) -> None:
    assert tracing.tracer is None
    world = World(server)
    path = world.path("configmaps")
    answer = world.hub.request("POST", path, {"metadata": {"name": "a"}}, traceparent=TRACEPARENT).ok()
    since = int(answer["metadata"]["resourceVersion"]) - 1
    query = f"watch=1&resourceVersion={since}&timeoutSeconds=1&fieldSelector=metadata.name%3Da"
    events = [json.loads(line) for line in world.hub.get(f"{path}?{query}").body.splitlines()]
    assert [set(event) for event in events] == [{"type", "object"}]
    world.close()


@pytest.mark.parametrize(
    "text",
    ["", "00", f"00-{'0' * 32}-{CLIENT_SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{CLIENT_SPAN}-00",
     f"ff-{TRACE}-{CLIENT_SPAN}-01", f"00-{TRACE.upper()}-{CLIENT_SPAN}-01", f"00-{TRACE}-{CLIENT_SPAN}-01-more"],
)  # fmt: skip
def test_what_is_no_traceparent_is_no_parent(text: str) -> None:
    assert tracing.parse_traceparent(text) is None


def test_a_later_version_of_traceparent_is_read_as_far_as_it_is_known() -> None:
    found = tracing.parse_traceparent(f"01-{TRACE}-{CLIENT_SPAN}-01-more")
    assert found is not None
    assert (found.trace_id, found.span_id, found.traceparent) == (TRACE, CLIENT_SPAN, TRACEPARENT)


def test_spans_are_bounded_and_told_as_otlp_has_them() -> None:
    tracer = tracing.Tracer("s")
    for number in range(tracing.MAX_PENDING_SPANS + 3):
        with tracer.span("scope", f"n{number}", tracing.SPAN_KIND_CLIENT, None, size=7, of="x"):
            pass
    assert (len(tracer.pending_spans), tracer.dropped_spans) == (tracing.MAX_PENDING_SPANS, 3)
    with pytest.raises(ValueError, match="no"), tracer.span("scope", "failed", tracing.SPAN_KIND_SERVER, None):
        raise ValueError("no")
    sent = otlp_exporter.export_request(list(tracer.pending_spans)[-2:], {"service.name": "s"})
    [resource] = sent["resourceSpans"]
    assert resource["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "s"}}]
    good, bad = resource["scopeSpans"][0]["spans"]
    assert good["attributes"] == [
        {"key": "size", "value": {"intValue": "7"}},
        {"key": "of", "value": {"stringValue": "x"}},
    ]
    assert ("status" in good, bad["status"]) == (False, {"code": 2, "message": "ValueError: no"})
    assert (len(good["traceId"]), len(good["spanId"]), good["kind"]) == (32, 16, 3)
