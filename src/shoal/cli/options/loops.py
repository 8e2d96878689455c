"""Names of loops in options."""

from __future__ import annotations

import click

from shoal.kinds.rbac.loop_accounts import LOOPS

LOOP_NAMES = ", ".join(LOOPS)


def parse_loop_names(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """None: the option is not given."""
    if value is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    unknown = [name for name in names if name not in LOOPS]
    if unknown or not names:
        raise click.BadParameter(f"{', '.join(unknown) or 'none'}: choose from {LOOP_NAMES}")
    return names
