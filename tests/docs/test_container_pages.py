"""Pages that make real containers, one after the other: kind clusters, the image, the chart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.containers import CONTAINER_BEGINNINGS, container_reader, in_the_engine
from tests.docs.pages import ROOT, Page, pages, read
from tests.docs.running import ENGINE_AND_SHOAL, with_containers
from tests.real.containers.node_image import NAME
from tests.real.containers.workload_images import BUSYBOX
from tests.real.engines import engine_with

pytestmark = pytest.mark.containers
WAYS = {" ".join((page.name, way)).strip(): (page, way) for page in with_containers(pages()) for way in page.variants}
FORGETFUL = f"""<!-- begins with: {ENGINE_AND_SHOAL} -->
```sh
docker run --detach --name forgotten-box --volume forgotten-volume:/data {BUSYBOX} sleep 1000
kind create cluster --name forgotten --image {NAME}
```
"""


def run(page: Page, way: str, place: Path) -> None:
    container_reader(page, way, place).run(way, CONTAINER_BEGINNINGS[page.beginning])


@pytest.mark.parametrize(("page", "way"), WAYS.values(), ids=WAYS)
def test_the_page_does_what_it_says(page: Page, way: str, tmp_path: Path) -> None:
    run(page, way, tmp_path)


def test_a_page_that_leaves_kind_clusters_is_wrong_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    engine = engine_with(NAME)
    before = in_the_engine(engine)
    with pytest.raises(AssertionError, match=r"the page leaves kind clusters: \['forgotten'\]"):
        run(read(ROOT / "docs" / "x.md", FORGETFUL), "", tmp_path)
    assert in_the_engine(engine) == before
