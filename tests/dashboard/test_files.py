"""Static files: content types, caching, compression and security headers."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from shoal.dashboard.files import CONTENT_TYPES, STATIC_DIR, StaticFiles
from shoal.objects.errors import MethodNotSupported, NotFound
from shoal.objects.wire import Request
from tests.dashboard.browser import get
from tests.serving import Server


@pytest.fixture
def files(tmp_path: Path) -> StaticFiles:
    (tmp_path / "index.html").write_text("<p>page</p>")
    (tmp_path / "app.js").write_text("x" * 2000)
    (tmp_path / "secret.pem").write_text("not a type of file that is served")
    (tmp_path.parent / "outside.js").write_text("outside")
    return StaticFiles(tmp_path)


def asked(path: str = "", method: str = "GET", **headers: str) -> Request:
    return Request(method, f"/ui/{path}", headers={name.replace("_", "-"): value for name, value in headers.items()})


def test_the_page_is_what_an_empty_name_means(files: StaticFiles) -> None:
    answer = files.handle(asked(), "")
    assert (answer.status, answer.body, answer.content_type) == (200, b"<p>page</p>", "text/html; charset=utf-8")
    assert files.handle(asked(), "index.html").body == answer.body


@pytest.mark.parametrize(
    "name", ["nothing.js", "../outside.js", "/outside.js", "..", "secret.pem", "app.js/", "./app.js", "App.js", "\0"]
)
def test_nothing_else_can_be_named(files: StaticFiles, name: str) -> None:
    with pytest.raises(NotFound):
        files.handle(asked(name), name)


def test_a_file_is_read_only(files: StaticFiles) -> None:
    with pytest.raises(MethodNotSupported):
        files.handle(asked(method="POST"), "app.js")


def test_gzip_is_for_those_who_take_it(files: StaticFiles) -> None:
    for accepted, encoded in [
        ("gzip, br", True),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip;q=0.5", True),
        ("", False),
    ]:
        answer = files.handle(asked(accept_encoding=accepted), "app.js")
        assert (("Content-Encoding", "gzip") in answer.headers) is encoded, accepted
        assert isinstance(answer.body, bytes)
        assert (gzip.decompress(answer.body) if encoded else answer.body) == b"x" * 2000
    small = files.handle(asked(accept_encoding="gzip"), "")
    assert small.body == b"<p>page</p>"


def test_what_a_browser_has_already_is_not_sent_again(files: StaticFiles) -> None:
    etag = dict(files.handle(asked(), "app.js").headers)["ETag"]
    for given in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = files.handle(asked(if_none_match=given), "app.js")
        assert (answer.status, answer.body, dict(answer.headers)["ETag"]) == (304, b"", etag)
    assert files.handle(asked(if_none_match='"other"'), "app.js").status == 200


def test_the_hub_serves_the_page_to_everybody_and_says_what_it_may_do(server: Server) -> None:
    answer = get(server, "/ui/")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"
    again = get(server, "/ui/", If_None_Match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    head = get(server, "/ui/", "HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(answer.body)))


@pytest.mark.parametrize(
    "path",
    ["/ui/nothing", "/ui/../api", "/ui/%2e%2e/%2e%2e/route.py", "/ui//app.js", "/ui/..%2froute.py", "/ui/static/"],
)
def test_the_hub_answers_404_for_all_other_names(server: Server, path: str) -> None:
    answer = get(server, path)
    assert (answer.status, answer["reason"]) == (404, "NotFound")


def test_the_bundle_is_whole_small_and_needs_nobody_else() -> None:
    found = sorted(path for path in STATIC_DIR.rglob("*") if path.is_file())
    assert {"index.html", "app.js", "app.css", "icon.svg"} <= {path.name for path in found}
    assert {path.suffix for path in found} <= set(CONTENT_TYPES)
    assert sum(path.stat().st_size for path in found) < 150_000
    page = (STATIC_DIR / "index.html").read_text()
    named = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert sorted(named) == ["./app.css", "./app.js", "./icon.svg"]
    assert "<style" not in page
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"url\(|@import", (STATIC_DIR / "app.css").read_text()) == []


def test_the_pictures_of_the_page_are_there_and_small() -> None:
    docs = STATIC_DIR.parents[3] / "docs"
    shown = set(re.findall(r"images/(dashboard-[\w-]+\.png)", (docs / "dashboard.md").read_text()))
    kept = {path.name: path.stat().st_size for path in (docs / "images").glob("dashboard-*.png")}
    assert shown == set(kept)
    assert {name: size for name, size in kept.items() if size >= 200_000} == {}
