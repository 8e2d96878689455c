"""Webhook configurations as the server uses them: parsed once, matched against every write. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shoal.objects.selectors import LabelSelector, from_label_selector

Object = dict[str, Any]

EXEMPT_GROUP = "admissionregistration.k8s.io"
"""Group whose objects webhooks never see, so that a webhook that rejects everything can be deleted."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The endpoint of a webhook: a URL, or port and path of a Service in the cluster."""

    url: str = ""
    namespace: str = ""
    service_name: str = ""
    port: int = 443
    path: str = ""
    ca_bundle: bytes = b""


@dataclass(frozen=True, slots=True)
class RuleWithOperations:
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
        if not (
            _matches_value(self.operations, operation)
            and _matches_value(self.groups, group)
            and _matches_value(self.versions, version)
        ):
            return False
        return any(name in ("*", resource) and sub in ("*", subresource) for name, sub in self.resources)


@dataclass(frozen=True, slots=True, eq=False)
class Webhook:
    configuration_name: str
    name: str
    client_config: ClientConfig
    rules: tuple[RuleWithOperations, ...]
    fails_open: bool
    exact_match: bool
    timeout_seconds: int
    namespace_selector: LabelSelector
    object_selector: LabelSelector
    match_conditions: tuple[str, ...]
    """CEL expressions."""
    allows_dry_run: bool
    """It may be called for a dry run."""
    review_versions: tuple[str, ...]
    reinvoke_if_needed: bool


@dataclass(frozen=True, slots=True)
class ConversionWebhook:
    """The conversion webhook of a CustomResourceDefinition."""

    crd_name: str
    client_config: ClientConfig
    review_versions: tuple[str, ...]


def conversion_webhook_of(crd: Object) -> ConversionWebhook | None:
    """None: versions differ only in apiVersion."""
    conversion = crd["spec"].get("conversion") or {}
    webhook = conversion.get("webhook") or {}
    if conversion.get("strategy") != "Webhook" or not webhook.get("clientConfig"):
        return None
    reviews = tuple(webhook.get("conversionReviewVersions") or ())
    return ConversionWebhook(crd["metadata"]["name"], client_config_of(webhook["clientConfig"]), reviews)


def _matches_value(values: frozenset[str], value: str) -> bool:
    return value in values or "*" in values


def webhooks_of(configuration: Object) -> Iterator[Webhook]:
    """Yields the webhooks of a validated configuration in their order."""
    for hook in configuration.get("webhooks") or ():
        yield Webhook(
            configuration_name=configuration["metadata"]["name"],
            name=hook["name"],
            client_config=client_config_of(hook["clientConfig"]),
            rules=tuple(rule_of(rule) for rule in hook.get("rules") or ()),
            fails_open=hook.get("failurePolicy") == "Ignore",
            exact_match=hook.get("matchPolicy") == "Exact",
            timeout_seconds=hook.get("timeoutSeconds", 10),
            namespace_selector=from_label_selector(hook.get("namespaceSelector") or {}),
            object_selector=from_label_selector(hook.get("objectSelector") or {}),
            match_conditions=tuple(one["expression"] for one in hook.get("matchConditions") or ()),
            allows_dry_run=hook.get("sideEffects") in ("None", "NoneOnDryRun"),
            review_versions=tuple(hook.get("admissionReviewVersions") or ()),
            reinvoke_if_needed=hook.get("reinvocationPolicy") == "IfNeeded",
        )


def client_config_of(config: Object) -> ClientConfig:
    ca_bundle = decode_ca_bundle(config.get("caBundle"))
    service = config.get("service")
    if service is None:
        return ClientConfig(url=config.get("url") or "", ca_bundle=ca_bundle)
    return ClientConfig(
        namespace=service["namespace"],
        service_name=service["name"],
        port=service.get("port") or 443,
        path=service.get("path") or "",
        ca_bundle=ca_bundle,
    )


def decode_ca_bundle(bundle: object) -> bytes:
    """Decodes a caBundle. White space only counts as empty."""
    try:
        return base64.b64decode(bundle, validate=True).strip() if isinstance(bundle, str) else b""
    except binascii.Error:
        return b""


def rule_of(rule: Object) -> RuleWithOperations:
    resources = [text.partition("/") for text in rule.get("resources") or ()]
    return RuleWithOperations(
        operations=frozenset(rule.get("operations") or ()),
        groups=frozenset(rule.get("apiGroups") or ()),
        versions=frozenset(rule.get("apiVersions") or ()),
        resources=tuple((resource, sub) for resource, _, sub in resources),
        scope=rule.get("scope") or "*",
    )
