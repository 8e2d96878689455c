"""Options of every command that runs until it is stopped: log level, log format, tracing endpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import click

from shoal.telemetry import logs, tracing


def _set_level(context: click.Context, option: click.Parameter, value: str) -> None:
    if not context.resilient_parsing:
        logs.configure(level=value)


def _set_format(context: click.Context, option: click.Parameter, value: str) -> None:
    if not context.resilient_parsing:
        logs.configure(log_format=value)


def _set_endpoint(context: click.Context, option: click.Parameter, value: str) -> None:
    if not value or context.resilient_parsing:
        return
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.BadParameter(f"{value}: give a URL such as http://127.0.0.1:4318")
    tracing.enable(value, f"shoal-{context.info_name}")


def telemetry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """They configure the process and are not passed to the command."""
    for option in (
        click.option(
            "--tracing-endpoint",
            default="",
            envvar="SHOAL_TRACING_ENDPOINT",
            metavar="URL",
            expose_value=False,
            callback=_set_endpoint,
            help="Endpoint for traces, OTLP over HTTP, such as http://127.0.0.1:4318. [off; $SHOAL_TRACING_ENDPOINT]",
        ),
        click.option(
            "--log-format",
            type=click.Choice(logs.FORMATS),
            default=logs.FORMATS[0],
            show_default=True,
            envvar="SHOAL_LOG_FORMAT",
            expose_value=False,
            callback=_set_format,
            help="Format of log lines: text as in klog, or JSON. [$SHOAL_LOG_FORMAT]",
        ),
        click.option(
            "--log-level",
            type=click.Choice(logs.LEVELS),
            default="warning",
            show_default=True,
            envvar="SHOAL_LOG_LEVEL",
            expose_value=False,
            callback=_set_level,
            help="Minimum level of log lines on standard error. [$SHOAL_LOG_LEVEL]",
        ),
    ):
        command = option(command)
    return command
