"""Non-resource paths: health, version, metrics, discovery, OpenAPI, token signing keys."""

from __future__ import annotations

import platform
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

import orjson

from shoal import __version__
from shoal.apiserver.authn import User
from shoal.apiserver.authz import Attributes, forbidden
from shoal.apiserver.clusters import LogicalCluster
from shoal.apiserver.core import Core
from shoal.apiserver.discovery import Discovery
from shoal.apiserver.metadata_stream import is_metadata, metadata
from shoal.apiserver.metrics import Metrics
from shoal.apiserver.openapi import OpenApi
from shoal.apiserver.paths import ROOT, Target
from shoal.kinds.versions import KUBERNETES
from shoal.objects.errors import MethodNotSupported, NotFound
from shoal.objects.wire import Answer, Request, Response

ROOTS = ("healthz", "livez", "readyz")
Check = Callable[[], str]
"""A health check. Returns an error, or empty if healthy."""


class NonResource:
    def __init__(self, core: Core, discovery: Discovery, openapi: OpenApi, metrics: Metrics) -> None:
        self._core = core
        self._discovery = discovery
        self._openapi = openapi
        self._metrics = metrics
        self.checks: dict[str, Check] = {"ping": lambda: ""}
        self.ready_checks: dict[str, Check] = {}
        self._looked: dict[tuple[str, str, str], int] = {}
        """(check, result, path) -> count."""
        self.look: Callable[[], Awaitable[None] | None] = lambda: None
        """Runs before /readyz is answered and updates what its checks report."""

    def answer(
        self, request: Request, target: Target, user: User, cluster: LogicalCluster, query: dict[str, str]
    ) -> Answer:
        path = target.path.rstrip("/") or "/"
        self._authorize(request, target, user, path)
        if request.method not in ("GET", "HEAD"):
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        if is_metadata(target):
            return metadata(self._core, query)
        root, _, rest = path[1:].partition("/")
        if root in ("api", "apis"):
            registry = self._core.clusters.registry(cluster)
            try:
                return self._discovery.answer(registry, path, request)
            except NotFound:
                group, _, version = rest.partition("/") if root == "apis" else ("", "", rest)
                if version and registry.has_own(group):
                    raise
                return no_page()
        if path == "/openapi":
            return no_page()
        if root == "openapi":
            return self._openapi.answer(self._core.clusters.registry(cluster), rest, request, query)
        if root in ROOTS:
            return self._health(root, rest, request.query)
        if path == "/version":
            return Response(200, orjson.dumps(version_info(cluster.version or KUBERNETES)))
        if path == "/metrics":
            text = self._metrics.render(None if target.cluster == ROOT else target.cluster)
            return Response(200, text, content_type="text/plain; version=0.0.4")
        if path == "/metrics/slis":
            return Response(200, self._slis(), content_type="text/plain; version=0.0.4")
        if path == "/.well-known/openid-configuration":
            return Response(200, orjson.dumps(self._core.tokens.openid_configuration(target.cluster)))
        if path == "/openid/v1/jwks":
            keys = self._core.tokens.jwks(target.cluster)
            return Response(200, orjson.dumps(keys), content_type="application/jwk-set+json")
        if path == "/":
            return Response(200, orjson.dumps({"paths": self._paths(cluster)}))
        return no_page()

    def _authorize(self, request: Request, target: Target, user: User, path: str) -> None:
        attributes = Attributes(cluster=target.cluster, verb=request.method.lower(), path=path)
        decision = self._core.authorizer.authorize(user, attributes)
        if not decision.allowed:
            raise forbidden(user, attributes, decision.reason)

    def _checks(self, root: str) -> dict[str, Check]:
        return {**self.checks, **(self.ready_checks if root == "readyz" else {})}

    def _health(self, root: str, only: str, query: str) -> Response:
        asked = parse_qs(query, keep_blank_values=True)
        checks = self._checks(root)
        if only:
            if only not in checks:
                return no_page()
            checks = {only: checks[only]}
        excluded = set() if only else set(asked.get("exclude", ()))
        lines, failed = [], []
        for name, check in checks.items():
            problem = "" if name in excluded else check()
            if name not in excluded:
                counted = (name, "error" if problem else "success", root)
                self._looked[counted] = self._looked.get(counted, 0) + 1
            if problem:
                failed.append(name)
            fine = "excluded: ok" if name in excluded else "ok"
            lines.append(f"[{'-' if problem else '+'}]{name} {'failed: ' + problem if problem else fine}")
        unknown = ",".join(f'"{name}"' for name in sorted(excluded - checks.keys()))
        if unknown:
            lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
        text = "text/plain; charset=utf-8"
        if failed:
            said = "\n".join(lines) + f"\n{root} check failed\n"
            return Response(500, said.encode(), content_type=text)
        if "verbose" in asked and not only:
            return Response(200, ("\n".join(lines) + f"\n{root} check passed\n").encode(), content_type=text)
        return Response(200, b"ok", content_type=text)

    def _slis(self) -> bytes:
        """Current state and result counts of each check, as in upstream's SLI metrics."""
        lines = ["# TYPE kubernetes_healthcheck gauge"]
        for root in ROOTS:
            for name, check in self._checks(root).items():
                lines.append(f'kubernetes_healthcheck{{name="{name}",type="{root}"}} {0 if check() else 1}')
        lines.append("# TYPE kubernetes_healthchecks_total counter")
        for (name, status, root), times in self._looked.items():
            labels = f'name="{name}",status="{status}",type="{root}"'
            lines.append(f"kubernetes_healthchecks_total{{{labels}}} {times}")
        return ("\n".join(lines) + "\n").encode()

    def _paths(self, cluster: LogicalCluster) -> list[str]:
        registry = self._core.clusters.registry(cluster)
        found = ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis"]
        for group in registry.groups():
            if group:
                found.append(f"/apis/{group}")
                found += [f"/apis/{group}/{version}" for version in registry.versions(group)]
        return [
            *found,
            "/healthz",
            "/livez",
            "/metrics",
            "/metrics/slis",
            "/openapi/v2",
            "/openapi/v3",
            "/openid/v1/jwks",
            "/readyz",
            "/version",
        ]


def version_info(version: str) -> dict[str, Any]:
    major, minor, *_ = version.lstrip("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "gitVersion": f"{version}+shoal-{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{sys.platform}/{platform.machine()}",
    }


def no_page() -> Response:
    """Upstream sends no Status for a path outside all resources."""
    return Response(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")
