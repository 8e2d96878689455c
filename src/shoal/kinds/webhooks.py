"""Webhook configurations as the server uses them: parsed once, matched against every write. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shoal.objects.selectors import LabelSelector, from_label_selector

Object = dict[str, Any]

EXEMPT = "admissionregistration.k8s.io"
"""Group whose objects webhooks never see, so that a webhook that rejects everything can be deleted."""


@dataclass(frozen=True, slots=True)
class Where:
    """The endpoint of a webhook: a URL, or port and path of a Service in the cluster."""

    url: str = ""
    namespace: str = ""
    service: str = ""
    port: int = 443
    path: str = ""
    authority: bytes = b""


@dataclass(frozen=True, slots=True)
class Rule:
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str

    def matches(
        self, operation: str, group: str, version: str, resource: str, subresource: str, namespaced: bool
    ) -> bool:
        if self.scope != "*" and (self.scope == "Namespaced") != namespaced:
            return False
        if not (_has(self.operations, operation) and _has(self.groups, group) and _has(self.versions, version)):
            return False
        return any(name in ("*", resource) and sub in ("*", subresource) for name, sub in self.resources)


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    configuration: str
    name: str
    where: Where
    rules: tuple[Rule, ...]
    fails_open: bool
    exact: bool
    seconds: int
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: tuple[str, ...]
    """CEL expressions."""
    harmless: bool
    """It may be called for a dry run."""
    reviews: tuple[str, ...]
    reinvoked: bool


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion webhook of a CustomResourceDefinition."""

    definition: str
    where: Where
    reviews: tuple[str, ...]


def read_conversion(crd: Object) -> Conversion | None:
    """None: versions differ only in apiVersion."""
    conversion = crd["spec"].get("conversion") or {}
    webhook = conversion.get("webhook") or {}
    if conversion.get("strategy") != "Webhook" or not webhook.get("clientConfig"):
        return None
    reviews = tuple(webhook.get("conversionReviewVersions") or ())
    return Conversion(crd["metadata"]["name"], read_where(webhook["clientConfig"]), reviews)


def _has(values: frozenset[str], value: str) -> bool:
    return value in values or "*" in values


def read_hooks(configuration: Object) -> Iterator[Hook]:
    """Yields the webhooks of a validated configuration in their order."""
    for hook in configuration.get("webhooks") or ():
        yield Hook(
            configuration=configuration["metadata"]["name"],
            name=hook["name"],
            where=read_where(hook["clientConfig"]),
            rules=tuple(read_rule(rule) for rule in hook.get("rules") or ()),
            fails_open=hook.get("failurePolicy") == "Ignore",
            exact=hook.get("matchPolicy") == "Exact",
            seconds=hook.get("timeoutSeconds", 10),
            namespaces=from_label_selector(hook.get("namespaceSelector") or {}),
            objects=from_label_selector(hook.get("objectSelector") or {}),
            conditions=tuple(one["expression"] for one in hook.get("matchConditions") or ()),
            harmless=hook.get("sideEffects") in ("None", "NoneOnDryRun"),
            reviews=tuple(hook.get("admissionReviewVersions") or ()),
            reinvoked=hook.get("reinvocationPolicy") == "IfNeeded",
        )


def read_where(config: Object) -> Where:
    authority = decoded(config.get("caBundle"))
    service = config.get("service")
    if service is None:
        return Where(url=config.get("url") or "", authority=authority)
    return Where(
        namespace=service["namespace"],
        service=service["name"],
        port=service.get("port") or 443,
        path=service.get("path") or "",
        authority=authority,
    )


def decoded(bundle: object) -> bytes:
    """Decodes a caBundle. White space only counts as empty."""
    try:
        return base64.b64decode(bundle, validate=True).strip() if isinstance(bundle, str) else b""
    except binascii.Error:
        return b""


def read_rule(rule: Object) -> Rule:
    named = [text.partition("/") for text in rule.get("resources") or ()]
    return Rule(
        operations=frozenset(rule.get("operations") or ()),
        groups=frozenset(rule.get("apiGroups") or ()),
        versions=frozenset(rule.get("apiVersions") or ()),
        resources=tuple((resource, sub) for resource, _, sub in named),
        scope=rule.get("scope") or "*",
    )
