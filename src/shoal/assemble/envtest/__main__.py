"""`python -m shoal.assemble.envtest`: parses the flags first, because envtest asks for help before every start."""

from __future__ import annotations

import os
import sys

from shoal.assemble.envtest.flags import CHOICES, LOOPS, FlagError, Flags, parse, usage


def main() -> None:
    flags, chosen = _asked()
    if flags.help:
        print(usage(), end="")
        return
    for warning in flags.warnings:
        print(f"W {warning}", file=sys.stderr)
    from shoal.assemble.envtest.apiserver import run  # noqa: PLC0415  the server takes a moment to load

    run(flags, chosen)


def _asked() -> tuple[Flags, str]:
    try:
        chosen = os.environ.get(LOOPS, CHOICES[0])
        if chosen not in CHOICES:
            raise FlagError(f"{LOOPS}={chosen}: one of {', '.join(CHOICES)}")
        return parse(sys.argv[1:]), chosen
    except FlagError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
