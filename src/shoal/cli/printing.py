"""Prints results: as lines for people, or complete as JSON or YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click


def output_option(*own: str, wide: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option `-o`; `extra_formats` are formats of this command alone."""
    choices = ["text", *(["wide"] if wide else []), *own, "json", "yaml"]
    return click.option("-o", "--output", type=click.Choice(choices), default="text", show_default=True)


def tell(found: object, lines: Iterable[str], output: str) -> None:
    """`value` is the complete result, for programs; `lines` are for people."""
    if output in ("json", "yaml"):
        lines = [as_text(found, output)]
    for line in lines:
        click.echo(line)


def as_text(found: object, output: str) -> str:
    import orjson  # noqa: PLC0415  help prints neither

    text = orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()
    if output == "json":
        return text
    import yaml  # noqa: PLC0415

    # Through JSON, so that YAML has the same content and no Python types.
    return str(yaml.safe_dump(orjson.loads(text), sort_keys=False)).rstrip("\n")


def table(lines: list[list[str]]) -> list[str]:
    """The first row is the header."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
