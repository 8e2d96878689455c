"""Serves /openapi/v3 (the index and one document per group and version) and /openapi/v2 (one document for all).

The index needs no document: it uses a hash of everything a document is built from. Documents are built on their first
request and kept as bytes as long as a registry that serves them lives. Registries that serve the same share them. The
protobuf form of v3 is rejected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, WeakValueDictionary

import orjson

from shoal import __version__
from shoal.apiserver.endpoints.openapi import gnostic
from shoal.apiserver.endpoints.openapi.v2_document import build_v2_document
from shoal.apiserver.endpoints.openapi.v3_document import build_v3_document
from shoal.apiserver.registry.registry import Registry, Resource
from shoal.apiserver.response.negotiation import JSON, negotiate_json, reject_transform
from shoal.objects.errors import NotFound
from shoal.objects.wire import Request, Response

GroupVersion = tuple[str, str]

_PROTOBUF_MEDIA_TYPES = (gnostic.MEDIA_TYPE, gnostic.MEDIA_TYPE.replace("v2.v1", "v2@v1"))
"""The second is the name before 1.27. As upstream, responses carry the new name."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class _EncodedDocument:
    body: bytes


@dataclass(slots=True)
class _RegistryDocuments:
    """Documents of one registry: `api/v1` -> its group and version, its hash, and its document once built."""

    group_versions: dict[str, GroupVersion]
    hashes: dict[str, str]
    documents: dict[str, _EncodedDocument] = field(default_factory=dict)


class OpenAPIService:
    def __init__(self) -> None:
        self._by_registry: WeakKeyDictionary[Registry, _RegistryDocuments] = WeakKeyDictionary()
        self._by_digest: WeakValueDictionary[str, _EncodedDocument] = WeakValueDictionary()

    def handle(
        self, registry: Registry, subpath: str, request: Request, query: dict[str, str]
    ) -> Generator[None, None, Response]:
        """Answers in small steps. `subpath` is the path after /openapi/."""
        registry_documents = self._by_registry.get(registry)
        if registry_documents is None:
            registry_documents = self._by_registry[registry] = yield from _hash_registry(registry)
        if subpath == "v2":
            return (yield from self._v2_response(registry, registry_documents, request))
        version, _, name = subpath.partition("/")
        if version != "v3" or (name and name not in registry_documents.hashes):
            raise NotFound("the server could not find the requested resource")
        if not name:
            return _index_response(registry_documents, (request.original_path or request.path).rstrip("/"), request)
        reject_transform(negotiate_json(request.headers.get("accept", "")))
        headers = [("Vary", "Accept")]
        digest = registry_documents.hashes[name]
        if query.get("hash") == digest:
            headers.append(("Cache-Control", "public, immutable"))
        if _etag_matches(request, digest):
            return Response(304, b"", headers=(*headers, ("ETag", f'"{digest}"')))
        document = registry_documents.documents.get(name)
        if document is None:
            document = yield from self._v3_document(registry, registry_documents, name)
        return Response(200, document.body, headers=(*headers, ("ETag", f'"{digest}"')))

    def _v2_response(
        self, registry: Registry, registry_documents: _RegistryDocuments, request: Request
    ) -> Generator[None, None, Response]:
        accept = request.headers.get("accept", "")
        protobuf = any(form in accept for form in _PROTOBUF_MEDIA_TYPES)
        if not protobuf:
            reject_transform(negotiate_json(accept))
        media = gnostic.MEDIA_TYPE if protobuf else JSON
        digest = hashlib.sha256("".join(registry_documents.hashes.values()).encode()).hexdigest().upper()
        headers = (("ETag", f'"{digest}"'), ("Vary", "Accept"))
        if _etag_matches(request, digest):
            return Response(304, b"", headers=headers)
        document = registry_documents.documents.get(media) or self._by_digest.get(digest + media)
        if document is None:
            documents = []
            for group, version in registry_documents.group_versions.values():
                documents.append((yield from build_v3_document(group, version, registry.resources(group, version))))
            swagger = yield from build_v2_document(documents)
            document = _EncodedDocument((yield from gnostic.encode(swagger)) if protobuf else orjson.dumps(swagger))
        registry_documents.documents[media] = self._by_digest[digest + media] = document
        return Response(200, document.body, content_type=media, headers=headers)

    def _v3_document(
        self, registry: Registry, registry_documents: _RegistryDocuments, name: str
    ) -> Generator[None, None, _EncodedDocument]:
        digest = registry_documents.hashes[name]
        document = self._by_digest.get(digest)
        if document is None:
            group, version = registry_documents.group_versions[name]
            spec = yield from build_v3_document(group, version, registry.resources(group, version))
            document = self._by_digest[digest] = _EncodedDocument(orjson.dumps(spec))
        registry_documents.documents[name] = document
        return document


def _hash_registry(registry: Registry) -> Generator[None, None, _RegistryDocuments]:
    group_versions = {
        f"apis/{group}/{version}" if group else f"api/{version}": (group, version)
        for group in registry.groups()
        for version in registry.versions(group)
    }
    hashes: dict[str, str] = {}
    for name, group_version in group_versions.items():
        hashes[name] = _hash_resources(registry.resources(*group_version))
        yield
    return _RegistryDocuments(group_versions, hashes)


def _index_response(registry_documents: _RegistryDocuments, path: str, request: Request) -> Response:
    """kubectl resolves these URLs from the host's root, so they repeat the path of the request."""
    paths = {
        name: {"serverRelativeURL": f"{path}/{name}?hash={digest}"}
        for name, digest in registry_documents.hashes.items()
    }
    body = orjson.dumps({"paths": paths})
    digest = hashlib.sha256(body).hexdigest().upper()
    headers = (("ETag", f'"{digest}"'),)
    return (
        Response(304, b"", headers=headers) if _etag_matches(request, digest) else Response(200, body, headers=headers)
    )


def _etag_matches(request: Request, digest: str) -> bool:
    if_none_match = request.headers.get("if-none-match", "")
    return bool(if_none_match) and f'"{digest}"' in (tag.strip().removeprefix("W/") for tag in if_none_match.split(","))


def _hash_resources(resources: list[Resource]) -> str:
    """Returns a hash that differs whenever the document would. Built-in schemas change only with the release."""
    parts = [__version__, *(_hash_input(resource) for resource in resources)]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest().upper()


def _hash_input(resource: Resource) -> list[object]:
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
        resource.selectable_fields,
        # A schema without its own hash is hashed as a whole, so that two different schemas never get the same hash.
        resource.schema_hash or resource.schema(),
    ]
