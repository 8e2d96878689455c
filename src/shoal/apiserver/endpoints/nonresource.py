"""Non-resource paths: health, version, metrics, discovery, OpenAPI, token signing keys."""

from __future__ import annotations

import platform
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

import orjson

from shoal import __version__
from shoal.apiserver.endpoints.discovery import DiscoveryHandler
from shoal.apiserver.endpoints.metadata_stream import is_metadata_path, metadata_response
from shoal.apiserver.endpoints.openapi import OpenAPIService
from shoal.apiserver.metrics.requests import APIServerMetrics
from shoal.apiserver.registry.clusters import LogicalCluster
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.server import RequestContext, ServerComponents, not_found_page, slice_path
from shoal.kinds.versions import KUBERNETES_VERSION
from shoal.objects.errors import MethodNotSupported, NotFound
from shoal.objects.wire import Answer, Response

HEALTH_PATHS = ("healthz", "livez", "readyz")
HealthCheck = Callable[[], str]
"""A health check. Returns an error, or empty if healthy."""


class NonResourceHandler:
    def __init__(
        self, server: ServerComponents, discovery: DiscoveryHandler, openapi: OpenAPIService, metrics: APIServerMetrics
    ) -> None:
        self._server = server
        self._discovery = discovery
        self._openapi = openapi
        self._metrics = metrics
        self.checks: dict[str, HealthCheck] = {"ping": lambda: ""}
        self.ready_checks: dict[str, HealthCheck] = {}
        self.notices: dict[str, HealthCheck] = {}
        """Checks of /readyz whose failure is shown and leaves the server ready: it serves its API nevertheless."""
        self._check_counts: dict[tuple[str, str, str], int] = {}
        """(check, result, path) -> count."""

    def handle(self, ctx: RequestContext) -> Answer | Awaitable[Answer]:
        """Answers an authorized request."""
        request, info, cluster, query = ctx.request, ctx.info, ctx.cluster, ctx.query
        path = info.path.rstrip("/") or "/"
        if request.method not in ("GET", "HEAD"):
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        if is_metadata_path(info):
            return metadata_response(self._server, query)
        root, _, rest = path[1:].partition("/")
        if root in ("api", "apis"):
            registry = self._server.clusters.registry(cluster)
            try:
                return self._discovery.handle(registry, path, request)
            except NotFound:
                group, _, version = rest.partition("/") if root == "apis" else ("", "", rest)
                if version and registry.is_builtin_group(group):
                    raise
                return not_found_page()
        if path == "/openapi":
            return not_found_page()
        if root == "openapi":
            ctx.is_rendered = True  # served as it is stored, as upstream
            steps = self._openapi.handle(self._server.clusters.registry(cluster), rest, request, query)
            return self._server.slices.run(slice_path(ctx), steps)
        if root in HEALTH_PATHS:
            return self._health(root, rest, request.query)
        if path == "/version":
            return Response(200, orjson.dumps(version_info(cluster.version or KUBERNETES_VERSION)))
        if path == "/metrics":
            text = self._metrics.render(None if info.cluster == ROOT else info.cluster)
            return Response(200, text, content_type="text/plain; version=0.0.4")
        if path == "/metrics/slis":
            return Response(200, self._slis(), content_type="text/plain; version=0.0.4")
        if path == "/.well-known/openid-configuration":
            return Response(200, orjson.dumps(self._server.tokens.openid_configuration(info.cluster)))
        if path == "/openid/v1/jwks":
            keys = self._server.tokens.jwks(info.cluster)
            return Response(200, orjson.dumps(keys), content_type="application/jwk-set+json")
        if path == "/":
            return Response(200, orjson.dumps({"paths": self._paths(cluster)}))
        return not_found_page()

    def _checks(self, root: str) -> dict[str, HealthCheck]:
        return {**self.checks, **({**self.ready_checks, **self.notices} if root == "readyz" else {})}

    def _health(self, root: str, only: str, query: str) -> Response:
        parameters = parse_qs(query, keep_blank_values=True)
        checks = self._checks(root)
        if only:
            if only not in checks:
                return not_found_page()
            checks = {only: checks[only]}
        excluded = set() if only else set(parameters.get("exclude", ()))
        lines, failed = [], []
        for name, check in checks.items():
            error = "" if name in excluded else check()
            if name not in excluded:
                outcome = (name, "error" if error else "success", root)
                self._check_counts[outcome] = self._check_counts.get(outcome, 0) + 1
            if error and (only or name not in self.notices):
                failed.append(name)
            fine = "excluded: ok" if name in excluded else "ok"
            lines.append(f"[{'-' if error else '+'}]{name} {'failed: ' + error if error else fine}")
        unknown = ",".join(f'"{name}"' for name in sorted(excluded - checks.keys()))
        if unknown:
            lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
        text = "text/plain; charset=utf-8"
        if failed:
            text_body = "\n".join(lines) + f"\n{root} check failed\n"
            return Response(500, text_body.encode(), content_type=text)
        if "verbose" in parameters and not only:
            return Response(200, ("\n".join(lines) + f"\n{root} check passed\n").encode(), content_type=text)
        return Response(200, b"ok", content_type=text)

    def _slis(self) -> bytes:
        """Current state and result counts of each check, as in upstream's SLI metrics."""
        lines = ["# TYPE kubernetes_healthcheck gauge"]
        for root in HEALTH_PATHS:
            for name, check in self._checks(root).items():
                lines.append(f'kubernetes_healthcheck{{name="{name}",type="{root}"}} {0 if check() else 1}')
        lines.append("# TYPE kubernetes_healthchecks_total counter")
        for (name, status, root), times in self._check_counts.items():
            labels = f'name="{name}",status="{status}",type="{root}"'
            lines.append(f"kubernetes_healthchecks_total{{{labels}}} {times}")
        return ("\n".join(lines) + "\n").encode()

    def _paths(self, cluster: LogicalCluster) -> list[str]:
        registry = self._server.clusters.registry(cluster)
        paths = ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis"]
        for group in registry.groups():
            if group:
                paths.append(f"/apis/{group}")
                paths += [f"/apis/{group}/{version}" for version in registry.versions(group)]
        return [
            *paths,
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
