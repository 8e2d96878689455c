"""Remaining work for a terminating namespace. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.core.secret import NAMESPACE_FINALIZER

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NamespaceContent:
    """Content found in one pass, by `plural.group`."""

    remaining: Mapping[str, int] = field(default_factory=dict)
    finalizers: Mapping[str, int] = field(default_factory=Counter)
    """Number of objects that wait for each finalizer."""
    failures: tuple[str, ...] = ()
    """Kinds that could not be listed or deleted, with the reason."""

    def __or__(self, other: NamespaceContent) -> NamespaceContent:
        finalizers = Counter(self.finalizers) + Counter(other.finalizers)
        return NamespaceContent({**self.remaining, **other.remaining}, finalizers, self.failures + other.failures)


def is_terminating(namespace: Object) -> bool:
    finalizers = (namespace.get("spec") or {}).get("finalizers") or ()
    return "deletionTimestamp" in namespace["metadata"] and NAMESPACE_FINALIZER in finalizers


def is_empty(content: NamespaceContent) -> bool:
    """Returns whether a complete pass found nothing. A kind that could not be read is not empty."""
    return not content.failures and not any(content.remaining.values())


def without_finalizer(namespace: Object) -> Object:
    """Returns the body for /finalize without the namespace finalizer."""
    finalizers = [f for f in namespace["spec"]["finalizers"] if f != NAMESPACE_FINALIZER]
    return {**namespace, "spec": {**namespace["spec"], "finalizers": finalizers}}


def conditions(content: NamespaceContent) -> list[tuple[str, bool, str, str]]:
    """Returns (type, status, reason, message) in upstream's words."""
    remaining = [f"{kind} has {count} resource instances" for kind, count in sorted(content.remaining.items()) if count]
    finalizers = [f"{name} in {count} resource instances" for name, count in sorted(content.finalizers.items())]
    # A kind that cannot be discovered fails the whole pass, so these two conditions are never true here.
    return [
        ("NamespaceDeletionDiscoveryFailure", False, "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            False,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            bool(content.failures),
            "ContentDeletionFailed" if content.failures else "ContentDeleted",
            "; ".join(content.failures) or "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            bool(remaining),
            "SomeResourcesRemain" if remaining else "ContentRemoved",
            "Some resources are remaining: " + ", ".join(remaining)
            if remaining
            else "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            bool(finalizers),
            "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
            "Some content in the namespace has finalizers remaining: " + ", ".join(finalizers)
            if finalizers
            else "All content-preserving finalizers finished",
        ),
    ]
