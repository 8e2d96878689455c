"""The verbs of the Kubernetes API over any transport. Objects are wire dicts; failures are StatusErrors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import orjson

from shoal.client.path_prefix import PathPrefixTransport
from shoal.client.transport import Transport, check_cancelled
from shoal.objects.errors import StatusError, from_status, from_text
from shoal.telemetry import tracing

Object = dict[str, Any]
PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """Group, version and resource as they appear in a URL, and the scope."""

    group: str
    version: str
    resource: str
    namespaced: bool = True

    @property
    def path_prefix(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


class _ObjectMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - as the wire has it


class _PartialObject(msgspec.Struct):
    metadata: _ObjectMeta


_METADATA_DECODER = msgspec.json.Decoder(_PartialObject)


class Client:
    """One identity at one server. `cluster` selects a logical cluster of a Shoal server; it is empty for other
    servers.
    """

    def __init__(self, transport: Transport, token: str = "", user_agent: str = "shoal", cluster: str = "") -> None:
        self._transport = transport
        self._cluster = cluster
        self.informers: dict[tuple[object, ...], Any] | None = None
        """Reflector stores shared by this client and those derived from it by `in_cluster`. None: every reflector keeps
        its own.
        """
        self.token_source: Callable[[str], str] | None = None
        """Returns the token of a controller's account. None: controllers share the identity of this client."""
        self._headers = {"user-agent": user_agent, "accept": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    @property
    def transport(self) -> Transport:
        """For clients of other identities at the same server. It belongs to this client."""
        return self._transport

    def in_cluster(self, cluster: str) -> Client:
        """The same identity in another logical cluster (`*`: all of them)."""
        other = Client(self._transport, cluster=cluster)
        other._headers, other.informers, other.token_source = self._headers, self.informers, self.token_source
        return other

    def as_controller(self, account: str) -> Client:
        """A client with the account of a controller, if accounts are separate here. Informers are shared."""
        other = self.in_cluster(self._cluster)
        if self.token_source is not None:
            other._headers = {**self._headers, "authorization": f"Bearer {self.token_source(account)}"}
        return other

    def impersonate(self, name: str, group: str) -> Client:
        """A client that impersonates the user at the same server and cluster. This identity needs the permission."""
        other = self.in_cluster(self._cluster)
        other._headers = {**self._headers, "impersonate-user": name, "impersonate-group": group}
        return other

    def for_metadata(self) -> Client:
        """A client of the same identity that reads objects without anything but their metadata."""
        other = self.in_cluster(self._cluster)
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        other._headers = {**self._headers, "accept": accept}
        return other

    def with_transport(self, wrap: Callable[[Transport], Transport]) -> Client:
        """A client of the same identity, server and cluster, with its transport wrapped."""
        other = self.in_cluster(self._cluster)
        other._transport = wrap(self._transport)
        return other

    def below(self, prefix: str, token: str) -> Client:
        """A client of another identity, for an API that the server forwards below a path. It shares the connections."""
        other = Client(PathPrefixTransport(self._transport, prefix), token)
        other._headers["user-agent"] = self._headers["user-agent"]
        return other

    async def close(self) -> None:
        """Closes the connections of this client and of all clients derived from it by `in_cluster`."""
        await self._transport.close()

    async def get(self, gvr: GroupVersionResource, name: str, namespace: str = "") -> Object:
        return await self.request("GET", self.resource_path(gvr, name, namespace))

    async def list_all(
        self, gvr: GroupVersionResource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        """All objects, read page by page, and the list's resourceVersion."""
        objects: list[Object] = []
        query = {"limit": str(PAGE_SIZE), "labelSelector": labels, "fieldSelector": fields, "continue": ""}
        while True:
            page = await self.request("GET", self.resource_path(gvr, "", namespace), query)
            objects += _items_with_type_meta(page)
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return objects, page["metadata"]["resourceVersion"]

    async def create(
        self, gvr: GroupVersionResource, obj: Object, namespace: str = "", *, metadata_only: bool = False
    ) -> Object:
        """`metadata_only`: only name, namespace, uid and resourceVersion of the response are decoded and returned."""
        return await self.request("POST", self.resource_path(gvr, "", namespace), body=obj, metadata_only=metadata_only)

    async def update(
        self, gvr: GroupVersionResource, obj: Object, subresource: str = "", *, metadata_only: bool = False
    ) -> Object:
        metadata = obj["metadata"]
        path = self.resource_path(gvr, metadata["name"], metadata.get("namespace", ""), subresource)
        return await self.request("PUT", path, body=obj, metadata_only=metadata_only)

    async def merge_patch(
        self, gvr: GroupVersionResource, name: str, patch: Object, namespace: str = "", subresource: str = ""
    ) -> Object:
        path = self.resource_path(gvr, name, namespace, subresource)
        return await self.request("PATCH", path, body=patch, content_type="application/merge-patch+json")

    async def apply(
        self,
        gvr: GroupVersionResource,
        obj: Object,
        field_manager: str,
        *,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
        strict: bool = False,
    ) -> Object:
        """`strict`: unknown fields are rejected instead of dropped."""
        metadata = obj["metadata"]
        path = self.resource_path(gvr, metadata["name"], metadata.get("namespace", ""), subresource)
        query = {
            "fieldManager": field_manager,
            "force": "true" if force else "false",
            "dryRun": "All" if dry_run else "",
        }
        query["fieldValidation"] = "Strict" if strict else ""
        return await self.request("PATCH", path, query, obj, "application/apply-patch+yaml")

    async def delete(
        self,
        gvr: GroupVersionResource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        cascade: bool = False,
        metadata_only: bool = False,
    ) -> Object:
        """`cascade`: dependents are deleted too (Background), whatever the kind's default; Jobs orphan their pods by
        default.
        """
        body: Object = {"preconditions": {"uid": uid}} if uid else {}
        body |= {"propagationPolicy": "Background"} if cascade else {}
        return await self.request(
            "DELETE", self.resource_path(gvr, name, namespace), body=body or None, metadata_only=metadata_only
        )

    async def delete_all(self, gvr: GroupVersionResource, namespace: str = "") -> None:
        """Deletes the collection, dependents included."""
        await self.request("DELETE", self.resource_path(gvr, "", namespace), body={"propagationPolicy": "Background"})

    def watch(
        self, gvr: GroupVersionResource, namespace: str = "", query: Mapping[str, str] | None = None
    ) -> AsyncIterator[Object]:
        """Yields events until the server ends the watch. An ERROR event is raised."""
        return self.watch_path(self.resource_path(gvr, "", namespace), query)

    async def watch_path(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[Object]:
        """Like `watch`, for any path of the server that streams events."""
        parameters = urlencode({"watch": "1", **(query or {})})
        rest = b""
        try:
            status, chunks = await self._transport.stream("GET", path, parameters, self._headers)
            async with aclosing(chunks) as stream:  # type: ignore[type-var]
                async for chunk in stream:
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield _decode_event(line, status)
        except BaseException as error:
            check_cancelled(error)
            raise
        if rest:
            yield _decode_event(rest, status)
        tracing.current_context.set(None)

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
        *,
        metadata_only: bool = False,
    ) -> Object:
        headers = {**self._headers, "content-type": content_type} if body is not None else self._headers
        parameters = urlencode({key: value for key, value in (query or {}).items() if value})
        data = orjson.dumps(body) if body is not None else b""
        try:
            if tracing.tracer is not None and (context := tracing.active_context()) is not None:
                status, response = await self._request_in_span(
                    tracing.tracer, context, method, path, parameters, headers, data
                )
            else:
                status, _, response = await self._transport.request(method, path, parameters, headers, data)
        except BaseException as error:
            check_cancelled(error)
            raise
        if metadata_only and status < 300:
            return {"metadata": msgspec.structs.asdict(_METADATA_DECODER.decode(response).metadata)}
        try:
            return _decode_response(response, status)
        except StatusError as error:
            error.cluster = self._cluster
            raise

    async def _request_in_span(
        self,
        tracer: tracing.Tracer,
        context: tracing.SpanContext,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, bytes]:
        with tracer.span("client", f"{method} {path}", tracing.SPAN_KIND_CLIENT, context) as span:
            traced_headers = {**headers, "traceparent": span.context.traceparent}
            status, _, response = await self._transport.request(method, path, query, traced_headers, body)
            span.attributes["http.response.status_code"] = status
        return status, response

    async def get_path(self, path: str) -> Object:
        """Reads a non-resource path of the cluster: /readyz, /apis/GROUP, /openapi/v3/…"""
        return await self.request("GET", f"/clusters/{self._cluster}{path}" if self._cluster else path)

    def resource_path(
        self, gvr: GroupVersionResource, name: str = "", namespace: str = "", subresource: str = ""
    ) -> str:
        path = f"/clusters/{self._cluster}{gvr.path_prefix}" if self._cluster else gvr.path_prefix
        if namespace:
            path += f"/namespaces/{quote(namespace, safe='')}"
        path += f"/{gvr.resource}"
        if name:
            path += f"/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    async def preferred_resources(self) -> list[tuple[GroupVersionResource, frozenset[str]]]:
        """All served resources in their preferred versions, with their verbs."""
        resources: list[tuple[GroupVersionResource, frozenset[str]]] = []
        for group in await self.api_groups():
            seen_resources: set[str] = set()
            for version in group["versions"]:
                for item in version["resources"]:
                    if item["resource"] in seen_resources:
                        continue
                    seen_resources.add(item["resource"])
                    name = group["metadata"].get("name", "")
                    gvr = GroupVersionResource(
                        name, version["version"], item["resource"], item["scope"] == "Namespaced"
                    )
                    resources.append((gvr, frozenset(item["verbs"])))
        return resources

    async def api_groups(self) -> list[Object]:
        """Aggregated discovery: groups with their versions, the preferred first, and their resources."""
        root = f"/clusters/{self._cluster}" if self._cluster else ""
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        groups: list[Object] = []
        for path in ("/api", "/apis"):
            headers = {**self._headers, "accept": accept}
            status, _, response = await self._transport.request("GET", root + path, "", headers, b"")
            groups += _decode_response(response, status)["items"]
        return groups


def _items_with_type_meta(page: Object) -> list[Object]:
    """The items, each with apiVersion and kind: lists of built-in kinds state them once for the whole list."""
    items: list[Object] = page.get("items") or []
    kind = page["kind"].removesuffix("List")
    for item in items:
        item.setdefault("apiVersion", page["apiVersion"])
        item.setdefault("kind", kind)
    return items


def _decode_response(response: bytes, status: int) -> Object:
    try:
        decoded: Object = orjson.loads(response) if response else {}
    except ValueError:
        if status >= 400:
            raise from_text(response, status) from None
        decoded = {"message": response[:200].decode(errors="replace")}
    if status >= 400:
        raise from_status(decoded, status)
    return decoded


def _decode_event(line: bytes, status: int) -> Object:
    event = _decode_response(line, status)
    if event.get("type") == "ERROR":
        raise from_status(event["object"], int(event["object"].get("code", 500)))
    if tracing.tracer is not None:
        # Handlers of the event run in its trace, until the next event.
        tracing.current_context.set(tracing.parse_traceparent(event.get("traceparent", "")))
    return event
