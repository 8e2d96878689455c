"""Every block of the documentation: run here, in `make real` or in `make containers`, typed by another test, or marked
and checked by dry run; nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.beginnings import BEGINNINGS
from tests.docs.containers import CONTAINER_BEGINNINGS
from tests.docs.dryrun import Places, manifests, not_bash, shown_manifests, wrong_reason, wrong_usage
from tests.docs.pages import NOT_RUN, TYPED_BY, Page, pages
from tests.docs.running import OF_CONTAINERS, needs_more, quick, slow, with_containers
from tests.docs.scenario import Scenario, shoal_commands
from tests.docs.words import commands
from tests.serving import Cluster, Server, fresh_cluster

ALL = pages()
MARKED = [page for page in ALL if any({NOT_RUN, TYPED_BY} & block.marks.keys() for block in page.blocks)]


def name(page: Page) -> str:
    return page.name


@pytest.fixture(scope="module")
def places(server: Server) -> Iterator[Places]:
    clusters = [Cluster(server, "root"), fresh_cluster(server, "cluster")]
    yield Places(clusters)
    for cluster in clusters:
        cluster.close()


@pytest.mark.parametrize("page", ALL, ids=name)
def test_every_block_is_what_it_says(page: Page) -> None:
    assert page.faults == ()
    assert page.beginning in ("", *BEGINNINGS, *CONTAINER_BEGINNINGS)
    assert [not_bash(block.script) for block in page.blocks if block.is_shell and not_bash(block.script)] == []
    used = [command for block in page.blocks if block.is_shell for command in commands(block.script)]
    shoals = [each for each in used if each.program == "shoal" or each.words[:2] == ["kubectl", "shoal"]]
    assert [wrong for each in shoals if (wrong := wrong_usage(each))] == []


def test_no_page_is_left_out() -> None:
    """A page with steps is in exactly one of the three lists."""
    with_steps = [page.name for page in ALL if any(page.steps(variant) for variant in page.variants)]
    here, there, engine = ([page.name for page in listed(ALL)] for listed in (quick, slow, with_containers))
    assert sorted([*here, *there, *engine]) == sorted(with_steps)
    assert "README.md" in there
    assert "docs/tutorials/real-clusters-with-kind.md" in engine
    assert here
    assert [page.name for page in slow(ALL) if needs_more(page) & OF_CONTAINERS] == [], "they do not say so"


@pytest.mark.parametrize("page", MARKED, ids=name)
def test_marked_blocks_are_right_as_far_as_can_be_said(page: Page, places: Places) -> None:
    for block in page.blocks:
        if {NOT_RUN, TYPED_BY} & block.marks.keys():
            assert wrong_reason(page, block) == ""
            refused = [(file, why) for file, each in manifests(page, block) if (why := places.refusal(each))]
            assert refused == []


@pytest.mark.parametrize("page", [page for page in ALL if list(shown_manifests(page))], ids=name)
def test_objects_that_are_shown_are_accepted(page: Page, places: Places) -> None:
    assert [(line, why) for line, each in shown_manifests(page) if (why := places.refusal(each))] == []


@pytest.mark.parametrize("page", quick(ALL), ids=name)
def test_the_page_does_what_it_says(page: Page, tmp_path: Path) -> None:
    assert needs_more(page) == set()
    Scenario(page, tmp_path, shoal_commands()).run(beginning=BEGINNINGS.get(page.beginning))
