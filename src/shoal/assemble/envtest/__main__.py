"""`python -m shoal.assemble.envtest`: parses the flags first, because envtest asks for help before every start."""

from __future__ import annotations

import os
import sys

from shoal.assemble.envtest.flags import CONTROLLER_SETS, CONTROLLERS_VARIABLE, FlagError, Flags, parse, usage


def main() -> None:
    flags, controller_set = _parse_command_line()
    if flags.help:
        print(usage(), end="")
        return
    for warning in flags.warnings:
        print(f"W {warning}", file=sys.stderr)
    from shoal.assemble.envtest.apiserver import run  # noqa: PLC0415  the server takes a moment to load

    run(flags, controller_set)


def _parse_command_line() -> tuple[Flags, str]:
    try:
        controller_set = os.environ.get(CONTROLLERS_VARIABLE, CONTROLLER_SETS[0])
        if controller_set not in CONTROLLER_SETS:
            raise FlagError(f"{CONTROLLERS_VARIABLE}={controller_set}: must be one of {', '.join(CONTROLLER_SETS)}")
        return parse(sys.argv[1:]), controller_set
    except FlagError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
