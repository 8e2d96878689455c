"""The `Warning` headers of an answer."""

from __future__ import annotations

from shoal.apiserver.response.warnings import first_warnings, warning_headers


def texts(headers: tuple[tuple[str, str], ...]) -> list[str]:
    assert {name for name, _ in headers} <= {"Warning"}
    return [value.removeprefix('299 - "').removesuffix('"') for _, value in headers]


def test_each_text_is_shown_once_and_escaped() -> None:
    assert texts(warning_headers(["b", "", 'a "\n\\', "b"])) == ["b", 'a \\" \\\\']


def test_long_texts_are_cut_only_if_they_are_too_long_together() -> None:
    assert texts(warning_headers(["a" * 4096])) == ["a" * 4096]
    assert texts(warning_headers(["a" * 4096, "b"])) == ["a" * 256, "b"]
    letters = "abcdefghijklmnopqrstuvwxyz"
    assert texts(warning_headers(letter * 300 for letter in letters)) == [letter * 256 for letter in letters[:16]]


def test_what_no_answer_shows_is_not_looked_at() -> None:
    looked_at = iter(f"{number:04}" for number in range(100_000))
    assert first_warnings(looked_at) == [f"{number:04}" for number in range(1024)]
    assert next(looked_at) == "1025"
