"""`shoal fsck`: reads a whole store, in use or not, or a backup, and reports problems. Read-only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from shoal.assemble.inspecting import RESTORE, Finding, Inspection
from shoal.assemble.snapshots import is_etcd, open_snapshot
from shoal.assemble.store_settings import StoreSettings
from shoal.assemble.stores import ID_FILE
from shoal.objects.errors import StoreError
from shoal.store.backup.format import Reader
from shoal.store.backup.snapshot import Snapshot
from shoal.store.encrypted.keys import KeyRing
from shoal.store.sqlite.checking import check_file
from shoal.store.sqlite.file import FILE_NAME


@dataclass(frozen=True, slots=True)
class Checked:
    store: str
    kind: str
    revision: int
    records: int
    encrypted: int
    findings: list[Finding]

    @property
    def sound(self) -> bool:
        return not any(finding.problem for finding in self.findings)


def fsck(data_dir: Path, settings: StoreSettings) -> Checked:
    """Raises DataDirError if there is no store, EncryptionError if the key file cannot be used."""
    ring = KeyRing.load(Path(settings.encryption_key_file)) if settings.encryption_key_file else None
    below: list[Finding] = []
    file = data_dir / FILE_NAME
    if not is_etcd(data_dir, settings) and file.exists():
        below = [Finding(f"{file}: {wrong}", RESTORE) for wrong in check_file(file)]
        if below:
            # The content of a corrupt file is unreliable.
            return Checked("", "sqlite", 0, 0, 0, below)
    return asyncio.run(_check(data_dir, settings, ring))


def fsck_backup(file: Path, settings: StoreSettings) -> Checked:
    """Checks a backup. Raises InvalidBackup if it is not complete."""
    ring = KeyRing.load(Path(settings.encryption_key_file)) if settings.encryption_key_file else None
    with file.open("rb") as opened:
        reader = Reader(opened, str(file))
        header = reader.header
        inspection = Inspection(header.revision, ring, settings.encrypted_kinds)
        for record in reader.records():
            inspection.add(record)
    about = header.store, header.kind, header.revision, inspection.records, inspection.sealed
    return Checked(*about, inspection.findings())


async def _check(data_dir: Path, settings: StoreSettings, ring: KeyRing | None) -> Checked:
    async with open_snapshot(data_dir, settings) as snapshot:
        inspection = Inspection(snapshot.newest, ring, settings.encrypted_kinds)
        beside = await _beside(snapshot, data_dir, settings)
        try:
            async for page in snapshot.pages():
                for record in page:
                    inspection.add(record)
        except StoreError as error:
            beside.append(Finding(f"not all of it can be read: {error}", RESTORE))
        about = snapshot.id, snapshot.kind, snapshot.revision, inspection.records, inspection.sealed
        return Checked(*about, [*beside, *inspection.findings()])


async def _beside(snapshot: Snapshot, data_dir: Path, settings: StoreSettings) -> list[Finding]:
    found = []
    file = data_dir / ID_FILE
    known = file.read_text().strip() if file.exists() and not settings.servers else snapshot.id
    if known != snapshot.id and known not in snapshot.ancestors:
        what = f"{data_dir} belongs to the store {known}, but {snapshot.id} is in it; a server refuses to start"
        found.append(Finding(what, RESTORE))
    for folder, count in (await snapshot.strays()).items():
        what = f"{count} keys below {folder} are not of the store: it was restored in their place, or that did not end"
        found.append(Finding(what, f"when nobody needs them: etcdctl del --prefix {folder}", False))
    return found
