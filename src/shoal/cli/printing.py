"""How commands print what they found: as lines for people, or as JSON with everything."""

from __future__ import annotations

from collections.abc import Iterable

import click
import orjson


def tell(found: object, lines: Iterable[str], output: str) -> None:
    """`output` is `json` or `text`."""
    if output == "json":
        lines = [orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()]
    for line in lines:
        click.echo(line)


def table(lines: list[list[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
