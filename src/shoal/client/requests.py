"""The verbs of the Kubernetes API over any transport. Objects are wire dicts; failures are StatusErrors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import orjson

from shoal.client.transport import Transport
from shoal.objects.errors import from_status, from_text
from shoal.telemetry import tracing

Object = dict[str, Any]
PAGE = 500


@dataclass(frozen=True, slots=True)
class Kind:
    """Group, version and resource as they appear in a URL, and the scope."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    @property
    def prefix(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


class _Heading(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - as the wire has it


class _Headed(msgspec.Struct):
    metadata: _Heading


_HEADING = msgspec.json.Decoder(_Headed)


class Client:
    """One identity at one server. `cluster` selects a logical cluster of a Shoal server; it is empty for other
    servers.
    """

    def __init__(self, transport: Transport, token: str = "", agent: str = "shoal", cluster: str = "") -> None:
        self._transport = transport
        self._cluster = cluster
        self.copies: dict[tuple[object, ...], Any] | None = None
        """Reflector stores shared by this client and those derived from it by `in_cluster`. None: every reflector keeps
        its own.
        """
        self._headers = {"user-agent": agent, "accept": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    def at(self, cluster: str) -> Client:
        """The same identity in another logical cluster (`*`: all of them)."""
        other = Client(self._transport, cluster=cluster)
        other._headers, other.copies = self._headers, self.copies
        return other

    def as_user(self, name: str, group: str) -> Client:
        """A client that impersonates the user at the same server and cluster. This identity needs the permission."""
        other = self.at(self._cluster)
        other._headers = {**self._headers, "impersonate-user": name, "impersonate-group": group}
        return other

    def through(self, wrap: Callable[[Transport], Transport]) -> Client:
        """A client of the same identity, server and cluster, with its transport wrapped."""
        other = self.at(self._cluster)
        other._transport = wrap(self._transport)
        return other

    async def close(self) -> None:
        """Closes the connections of this client and of all clients derived from it by `in_cluster`."""
        await self._transport.close()

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return await self.call("GET", self.path(kind, name, namespace))

    async def list_all(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        """All objects, read page by page, and the list's resourceVersion."""
        found: list[Object] = []
        query = {"limit": str(PAGE), "labelSelector": labels, "fieldSelector": fields, "continue": ""}
        while True:
            page = await self.call("GET", self.path(kind, "", namespace), query)
            found += _typed(page)
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return found, page["metadata"]["resourceVersion"]

    async def create(self, kind: Kind, obj: Object, namespace: str = "", *, brief: bool = False) -> Object:
        """`metadata_only`: only name, namespace, uid and resourceVersion of the response are decoded and returned."""
        return await self.call("POST", self.path(kind, "", namespace), body=obj, brief=brief)

    async def update(self, kind: Kind, obj: Object, subresource: str = "", *, brief: bool = False) -> Object:
        metadata = obj["metadata"]
        path = self.path(kind, metadata["name"], metadata.get("namespace", ""), subresource)
        return await self.call("PUT", path, body=obj, brief=brief)

    async def merge(self, kind: Kind, name: str, patch: Object, namespace: str = "", subresource: str = "") -> Object:
        path = self.path(kind, name, namespace, subresource)
        return await self.call("PATCH", path, body=patch, content="application/merge-patch+json")

    async def apply(
        self,
        kind: Kind,
        obj: Object,
        manager: str,
        *,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
        strict: bool = False,
    ) -> Object:
        """`strict`: unknown fields are rejected instead of dropped."""
        metadata = obj["metadata"]
        path = self.path(kind, metadata["name"], metadata.get("namespace", ""), subresource)
        query = {"fieldManager": manager, "force": "true" if force else "false", "dryRun": "All" if dry_run else ""}
        query["fieldValidation"] = "Strict" if strict else ""
        return await self.call("PATCH", path, query, obj, "application/apply-patch+yaml")

    async def delete(
        self, kind: Kind, name: str, namespace: str = "", *, uid: str = "", cascade: bool = False, brief: bool = False
    ) -> Object:
        """`cascade`: dependents are deleted too (Background), whatever the kind's default; Jobs orphan their pods by
        default.
        """
        body: Object = {"preconditions": {"uid": uid}} if uid else {}
        body |= {"propagationPolicy": "Background"} if cascade else {}
        return await self.call("DELETE", self.path(kind, name, namespace), body=body or None, brief=brief)

    async def delete_all(self, kind: Kind, namespace: str = "") -> None:
        """Deletes the collection, dependents included."""
        await self.call("DELETE", self.path(kind, "", namespace), body={"propagationPolicy": "Background"})

    def watch(self, kind: Kind, namespace: str = "", query: Mapping[str, str] | None = None) -> AsyncIterator[Object]:
        """Yields events until the server ends the watch. An ERROR event is raised."""
        return self.watch_path(self.path(kind, "", namespace), query)

    async def watch_path(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[Object]:
        """Like `watch`, for any path of the server that streams events."""
        parameters = urlencode({"watch": "1", **(query or {})})
        status, pieces = await self._transport.stream("GET", path, parameters, self._headers)
        rest = b""
        async with aclosing(pieces) as stream:  # type: ignore[type-var]
            async for piece in stream:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line:
                        yield _event(line, status)
        if rest:
            yield _event(rest, status)
        tracing.current.set(None)

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content: str = "application/json",
        *,
        brief: bool = False,
    ) -> Object:
        headers = {**self._headers, "content-type": content} if body is not None else self._headers
        parameters = urlencode({key: value for key, value in (query or {}).items() if value})
        data = orjson.dumps(body) if body is not None else b""
        if tracing.tracer is not None and (context := tracing.following()) is not None:
            status, answer = await self._traced(tracing.tracer, context, method, path, parameters, headers, data)
        else:
            status, _, answer = await self._transport.request(method, path, parameters, headers, data)
        if brief and status < 300:
            return {"metadata": msgspec.structs.asdict(_HEADING.decode(answer).metadata)}
        return _checked(answer, status)

    async def _traced(
        self,
        tracer: tracing.Tracer,
        context: tracing.Context,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, bytes]:
        with tracer.span("client", f"{method} {path}", tracing.CLIENT, context) as span:
            known = {**headers, "traceparent": span.context.traceparent}
            status, _, answer = await self._transport.request(method, path, query, known, body)
            span.attributes["http.response.status_code"] = status
        return status, answer

    async def read(self, path: str) -> Object:
        """Reads a non-resource path of the cluster: /readyz, /apis/GROUP, /openapi/v3/…"""
        return await self.call("GET", f"/clusters/{self._cluster}{path}" if self._cluster else path)

    def path(self, kind: Kind, name: str = "", namespace: str = "", subresource: str = "") -> str:
        path = f"/clusters/{self._cluster}{kind.prefix}" if self._cluster else kind.prefix
        if namespace:
            path += f"/namespaces/{quote(namespace, safe='')}"
        path += f"/{kind.plural}"
        if name:
            path += f"/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    async def discover(self) -> list[tuple[Kind, frozenset[str]]]:
        """All served resources in their preferred versions, with their verbs."""
        found: list[tuple[Kind, frozenset[str]]] = []
        for group in await self.groups():
            seen: set[str] = set()
            for version in group["versions"]:
                for item in version["resources"]:
                    if item["resource"] in seen:
                        continue
                    seen.add(item["resource"])
                    name = group["metadata"].get("name", "")
                    kind = Kind(name, version["version"], item["resource"], item["scope"] == "Namespaced")
                    found.append((kind, frozenset(item["verbs"])))
        return found

    async def groups(self) -> list[Object]:
        """Aggregated discovery: groups with their versions, the preferred first, and their resources."""
        root = f"/clusters/{self._cluster}" if self._cluster else ""
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        found: list[Object] = []
        for path in ("/api", "/apis"):
            headers = {**self._headers, "accept": accept}
            status, _, answer = await self._transport.request("GET", root + path, "", headers, b"")
            found += _checked(answer, status)["items"]
        return found


def _typed(page: Object) -> list[Object]:
    """The items, each with apiVersion and kind: lists of built-in kinds state them once for the whole list."""
    items: list[Object] = page.get("items") or []
    kind = page["kind"].removesuffix("List")
    for item in items:
        item.setdefault("apiVersion", page["apiVersion"])
        item.setdefault("kind", kind)
    return items


def _checked(answer: bytes, status: int) -> Object:
    try:
        found: Object = orjson.loads(answer) if answer else {}
    except ValueError:
        if status >= 400:
            raise from_text(answer, status) from None
        found = {"message": answer[:200].decode(errors="replace")}
    if status >= 400:
        raise from_status(found, status)
    return found


def _event(line: bytes, status: int) -> Object:
    event = _checked(line, status)
    if event.get("type") == "ERROR":
        raise from_status(event["object"], int(event["object"].get("code", 500)))
    if tracing.tracer is not None:
        # Handlers of the event run in its trace, until the next event.
        tracing.current.set(tracing.parsed(event.get("traceparent", "")))
    return event
