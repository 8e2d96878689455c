"""Which pages run where: those that call nothing but `shoal` in `make test`, the others in `make real`."""

from __future__ import annotations

from collections.abc import Iterable

from tests.docs.pages import Page
from tests.docs.words import programs

OUTSIDE = {
    "kubectl",
    "etcd",
    "etcdctl",
    "kind",
    "docker",
    "make",
    "pip",
    "python3",
    "helm",
    "clusterctl",
    "nats-server",
}
SLOW = {"docs/placement.md"}
"""Pages that need nothing else, and take long."""


def needs_more(page: Page) -> set[str]:
    """Programs besides `shoal` and what every machine has."""
    scripts = [block.script for variant in page.variants for block in page.steps(variant)]
    used: set[str] = set().union(*(programs(script) for script in scripts)) if scripts else set()
    return used & OUTSIDE | ({"kubectl"} if page.beginning and page.beginning != "shoal up" else set())


def quick(pages: Iterable[Page]) -> list[Page]:
    return [page for page in _with_steps(pages) if not needs_more(page) and page.name not in SLOW]


def slow(pages: Iterable[Page]) -> list[Page]:
    return [page for page in _with_steps(pages) if needs_more(page) or page.name in SLOW]


def _with_steps(pages: Iterable[Page]) -> list[Page]:
    return [page for page in pages if any(page.steps(variant) for variant in page.variants)]
