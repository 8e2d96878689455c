"""`shoal rotate-ca`: ends the use of a former certificate authority of the server (`apiserver.pki.former_ca`).

It removes files that a running server reads again within a minute.
"""

from __future__ import annotations

from pathlib import Path

from shoal.apiserver.pki.former_ca import FORMER_CA, FORMER_SERVING
from shoal.assemble.storage.datadir import DataDirError


def finish(data_dir: Path) -> list[str]:
    """Returns the names of the removed files."""
    pki = data_dir / "pki"
    if not (pki / "ca.crt").exists():
        raise DataDirError(f"{data_dir} has no certificate authority", "give the --data-dir of the server")
    removed = [name for name in (FORMER_SERVING, FORMER_CA) if (pki / name).exists()]
    for name in removed:
        (pki / name).unlink()
    return removed
