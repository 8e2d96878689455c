"""The server's side: `python -m shoal.testing.process DIRECTORY`. It prints its address as one line of JSON on standard
output and ends when its standard input is closed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from shoal.assemble.process import end_with_input, serve
from shoal.assemble.up import Up, UpSettings, WorkersInside


def main() -> None:
    directory = Path(sys.argv[1])

    async def start() -> Up:
        up = await Up.start(UpSettings(directory, port=0), WorkersInside())
        server = up.hub.server
        token = (directory / "admin-token").read_text().strip()
        said = {"url": server.url, "token": token, "authority": server.authority.certificate.decode()}
        print(json.dumps(said), flush=True)
        return up

    end_with_input()
    serve(start)


if __name__ == "__main__":
    main()
