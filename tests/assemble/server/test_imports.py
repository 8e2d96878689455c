"""The modules a server imports: a library costs memory and start-up time even if it is not used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys
from pathlib import Path
from shoal.assemble.server.hub import ShoalServer, ShoalServerSettings

async def main():
    server = await ShoalServer.start(ShoalServerSettings(Path(sys.argv[1]), port=0))
    await asyncio.sleep(1.0)  # its loops have begun
    print(*(name for name in sys.argv[2:] if name in sys.modules))
    await server.stop()

asyncio.run(main())
"""


def loaded_modules(directory: Path, *names: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory), *names], capture_output=True, text=True, timeout=120, check=True
    )
    return run.stdout.split()


def test_an_empty_server_has_no_client_and_makes_keys_once(tmp_path: Path) -> None:
    # Who has no cluster elsewhere calls nobody; CEL, etcd and the solver are for those who use them.
    unused = "aiohttp", "grpc", "aetcd", "nats", "numpy", "highspy", "shoal.objects.cel.parser"
    assert loaded_modules(tmp_path, *unused, "cryptography") == ["cryptography"]
    assert loaded_modules(tmp_path, *unused, "cryptography") == []
