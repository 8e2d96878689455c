"""Serves /openapi/v3 (the index and one document per group and version) and /openapi/v2 (one document for all).

The index needs no document: it uses a hash of everything a document is built from. Documents are built on their first
request and kept as bytes as long as a registry that serves them lives. Registries that serve the same share them. The
protobuf form of v3 is rejected.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, WeakValueDictionary

import orjson

from shoal import __version__
from shoal.apiserver.negotiate import JSON, accepted, no_transform
from shoal.apiserver.openapi import gnostic
from shoal.apiserver.openapi.document import make_document
from shoal.apiserver.openapi.swagger import make_swagger
from shoal.apiserver.registry import Registry, Resource
from shoal.objects.errors import NotFound
from shoal.objects.wire import Request, Response

GroupVersion = tuple[str, str]

_PROTOBUF = (gnostic.MEDIA_TYPE, gnostic.MEDIA_TYPE.replace("v2.v1", "v2@v1"))
"""The second is the name before 1.27. As upstream, responses carry the new name."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Document:
    body: bytes


@dataclass(slots=True)
class _Published:
    """Documents of one registry: `api/v1` -> its group and version, its hash, and its document once built."""

    served: dict[str, GroupVersion]
    hashes: dict[str, str]
    documents: dict[str, _Document] = field(default_factory=dict)


class OpenApi:
    def __init__(self) -> None:
        self._published: WeakKeyDictionary[Registry, _Published] = WeakKeyDictionary()
        self._shared: WeakValueDictionary[str, _Document] = WeakValueDictionary()

    def answer(self, registry: Registry, rest: str, request: Request, query: dict[str, str]) -> Response:
        """`subpath` is the path after /openapi/."""
        published = self._published.get(registry)
        if published is None:
            published = self._published[registry] = _publish(registry)
        if rest == "v2":
            return self._swagger(registry, published, request)
        version, _, name = rest.partition("/")
        if version != "v3" or (name and name not in published.hashes):
            raise NotFound("the server could not find the requested resource")
        if not name:
            return _index(published, (request.asked or request.path).rstrip("/"), request)
        no_transform(accepted(request.headers.get("accept", "")))
        headers = [("Vary", "Accept")]
        digest = published.hashes[name]
        if query.get("hash") == digest:
            headers.append(("Cache-Control", "public, immutable"))
        if _is_known(request, digest):
            return Response(304, b"", headers=(*headers, ("ETag", f'"{digest}"')))
        document = published.documents.get(name) or self._document(registry, published, name)
        return Response(200, document.body, headers=(*headers, ("ETag", f'"{digest}"')))

    def _swagger(self, registry: Registry, published: _Published, request: Request) -> Response:
        accept = request.headers.get("accept", "")
        protobuf = any(form in accept for form in _PROTOBUF)
        if not protobuf:
            no_transform(accepted(accept))
        media = gnostic.MEDIA_TYPE if protobuf else JSON
        digest = hashlib.sha256("".join(published.hashes.values()).encode()).hexdigest().upper()
        headers = (("ETag", f'"{digest}"'), ("Vary", "Accept"))
        if _is_known(request, digest):
            return Response(304, b"", headers=headers)
        document = published.documents.get(media) or self._shared.get(digest + media)
        if document is None:
            served = ((gv, registry.resources(*gv)) for gv in published.served.values())
            made = make_swagger(make_document(*gv, resources) for gv, resources in served)
            document = _Document(gnostic.encode(made) if protobuf else orjson.dumps(made))
        published.documents[media] = self._shared[digest + media] = document
        return Response(200, document.body, content_type=media, headers=headers)

    def _document(self, registry: Registry, published: _Published, name: str) -> _Document:
        digest = published.hashes[name]
        document = self._shared.get(digest)
        if document is None:
            group, version = published.served[name]
            made = make_document(group, version, registry.resources(group, version))
            document = self._shared[digest] = _Document(orjson.dumps(made))
        published.documents[name] = document
        return document


def _publish(registry: Registry) -> _Published:
    served = {
        f"apis/{group}/{version}" if group else f"api/{version}": (group, version)
        for group in registry.groups()
        for version in registry.versions(group)
    }
    hashes = {name: _hash(registry.resources(*group_version)) for name, group_version in served.items()}
    return _Published(served, hashes)


def _index(published: _Published, path: str, request: Request) -> Response:
    """kubectl resolves these URLs from the host's root, so they repeat the path of the request."""
    paths = {name: {"serverRelativeURL": f"{path}/{name}?hash={digest}"} for name, digest in published.hashes.items()}
    body = orjson.dumps({"paths": paths})
    digest = hashlib.sha256(body).hexdigest().upper()
    headers = (("ETag", f'"{digest}"'),)
    return Response(304, b"", headers=headers) if _is_known(request, digest) else Response(200, body, headers=headers)


def _is_known(request: Request, digest: str) -> bool:
    known = request.headers.get("if-none-match", "")
    return bool(known) and f'"{digest}"' in (tag.strip().removeprefix("W/") for tag in known.split(","))


def _hash(resources: list[Resource]) -> str:
    """Returns a hash that differs whenever the document would. Built-in schemas change only with the release."""
    parts = [__version__, *(_trait(resource) for resource in resources)]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest().upper()


def _trait(resource: Resource) -> list[object]:
    return [
        resource.group,
        resource.version,
        resource.plural,
        resource.kind,
        resource.list_kind,
        resource.namespaced,
        resource.custom,
        resource.verbs,
        resource.status,
        resource.scale is not None,
        resource.subresources,
        resource.selectable,
        # A schema without its own hash is hashed as a whole, so that two different schemas never get the same hash.
        resource.schema_hash or resource.schema(),
    ]
