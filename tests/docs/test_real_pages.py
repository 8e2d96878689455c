"""Pages that call kubectl and other outside programs; the README by those who cloned, and by those with the wheel.

Readers wait more than they work, so a few pages are read at a time; each test is told how its own ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.docs.beginnings import BEGINNINGS
from tests.docs.pages import Page, pages
from tests.docs.readers import reader
from tests.docs.running import slow

pytestmark = pytest.mark.real
AT_A_TIME = 3
WAYS = {" ".join((page.name, way)).strip(): (page, way) for page in slow(pages()) for way in page.variants}


def read(page: Page, way: str, place: Path) -> None:
    reader(page, way, place).run(way, BEGINNINGS.get(page.beginning))


@pytest.fixture(scope="module")
def endings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    """Of the pages that were asked for."""
    asked = [
        str(item.callspec.params["way"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    ]
    places = [tmp_path_factory.mktemp("reader") for _ in asked]
    with ThreadPoolExecutor(AT_A_TIME) as readers:
        yield {way: readers.submit(read, *WAYS[way], place) for way, place in zip(asked, places, strict=True)}


@pytest.mark.parametrize("way", WAYS)
def test_the_page_does_what_it_says(way: str, endings: dict[str, Future[None]]) -> None:
    endings[way].result()
