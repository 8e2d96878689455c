"""Pages that call kubectl and other outside programs; the README by those who cloned, and by those with the wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.beginnings import BEGINNINGS
from tests.docs.pages import Page, pages
from tests.docs.readers import reader
from tests.docs.running import slow

pytestmark = pytest.mark.real
ALL = [(page, variant) for page in slow(pages()) for variant in page.variants]


@pytest.mark.parametrize(("page", "variant"), ALL, ids=[" ".join((page.name, way)).strip() for page, way in ALL])
def test_the_page_does_what_it_says(page: Page, variant: str, tmp_path: Path) -> None:
    reader(page, variant, tmp_path).run(variant, BEGINNINGS.get(page.beginning))
