"""Which pages run where: those that call nothing but `shoal` in `make test`, those that make containers in
`make containers`, the others in `make real`.
"""

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
ENGINE, ENGINE_AND_SHOAL, KIND_CLUSTER = (
    "a container engine",
    "shoal up and a container engine",
    "a kind cluster",
)
"""Beginnings of pages that make containers."""
OF_CONTAINERS = {"docker", "helm", "kind"}
"""Programs that only such pages call."""
SLOW = {"docs/placement.md"}
"""Pages that need nothing else, and take long."""


def needs_more(page: Page) -> set[str]:
    """Programs besides `shoal` and what every machine has."""
    scripts = [block.script for variant in page.variants for block in page.steps(variant)]
    used: set[str] = set().union(*(programs(script) for script in scripts)) if scripts else set()
    return used & OUTSIDE | _begins_with(page)


def _begins_with(page: Page) -> set[str]:
    """The programs that its beginning needs."""
    if page.beginning in ("", "shoal up"):
        return set()
    return {"docker", "kind", "kubectl"} if makes_containers(page) else {"kubectl"}


def quick(pages: Iterable[Page]) -> list[Page]:
    return [page for page in _with_steps(pages) if not needs_more(page) and page.name not in SLOW]


def slow(pages: Iterable[Page]) -> list[Page]:
    rest = (page for page in _with_steps(pages) if needs_more(page) or page.name in SLOW)
    return [page for page in rest if not makes_containers(page)]


def with_containers(pages: Iterable[Page]) -> list[Page]:
    return [page for page in _with_steps(pages) if makes_containers(page)]


def makes_containers(page: Page) -> bool:
    return page.beginning in (ENGINE, ENGINE_AND_SHOAL, KIND_CLUSTER)


def _with_steps(pages: Iterable[Page]) -> list[Page]:
    return [page for page in pages if any(page.steps(variant) for variant in page.variants)]
