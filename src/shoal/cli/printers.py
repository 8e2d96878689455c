"""Prints results: as lines for people, or complete as JSON or YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click


def output_option(*extra_formats: str, wide: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option `-o`; `extra_formats` are formats of this command alone."""
    choices = ["text", *(["wide"] if wide else []), *extra_formats, "json", "yaml"]
    return click.option("-o", "--output", type=click.Choice(choices), default="text", show_default=True)


def print_output(value: object, lines: Iterable[str], output: str) -> None:
    """`value` is the complete result, for programs; `lines` are for people."""
    if output in ("json", "yaml"):
        lines = [format_output(value, output)]
    for line in lines:
        click.echo(line)


def format_output(value: object, output: str) -> str:
    import orjson  # noqa: PLC0415  help prints neither

    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    if output == "json":
        return text
    import yaml  # noqa: PLC0415

    # Through JSON, so that YAML has the same content and no Python types.
    return str(yaml.safe_dump(orjson.loads(text), sort_keys=False)).rstrip("\n")


def format_table(lines: list[list[str]]) -> list[str]:
    """The first row is the header."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
