"""The server's side: `python -m shoal.testing.process DIRECTORY`. It prints its address as one line of JSON on standard
output and ends when its standard input is closed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.assemble.server.process import run_until_stopped, stop_on_stdin_close
from shoal.objects.egress import LOOPBACK, EgressSettings


def main() -> None:
    directory = Path(sys.argv[1])

    async def start() -> HubWithWorkers:
        # Webhooks of a test run beside it, and whoever tests them is told why they fail.
        egress = EgressSettings(LOOPBACK, discloses_failures=True)
        settings = ShoalServerSettings(directory, port=0, egress=egress)
        up = await HubWithWorkers.start(settings, InProcessWorkers())
        server = up.hub.server
        token = (directory / "admin-token").read_text().strip()
        connection_info = {"url": server.url, "token": token, "authority": server.authority.certificate.decode()}
        print(json.dumps(connection_info), flush=True)
        return up

    stop_on_stdin_close()
    run_until_stopped(start)


if __name__ == "__main__":
    main()
