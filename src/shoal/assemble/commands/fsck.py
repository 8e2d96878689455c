"""`shoal fsck`: reads a whole store, in use or not, or a backup, and reports problems. Read-only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from shoal.assemble.commands.store_inspection import RESTORE_HINT, Finding, StoreInspection
from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.factory import STORE_ID_FILE
from shoal.assemble.storage.snapshot import is_etcd, open_snapshot
from shoal.objects.errors import StoreError
from shoal.store.backup.format import BackupReader
from shoal.store.backup.snapshot import StoreSnapshot
from shoal.store.encrypted.keys import KeyRing
from shoal.store.sqlite.file import FILE_NAME
from shoal.store.sqlite.fsck import check_file


@dataclass(frozen=True, slots=True)
class FsckResult:
    store_id: str
    kind: str
    revision: int
    records: int
    encrypted: int
    findings: list[Finding]

    @property
    def is_sound(self) -> bool:
        return not any(finding.is_problem for finding in self.findings)


def fsck(data_dir: Path, settings: StoreSettings) -> FsckResult:
    """Raises DataDirError if there is no store, EncryptionError if the key file cannot be used."""
    key_ring = KeyRing.load(Path(settings.encryption_key_file)) if settings.encryption_key_file else None
    file_findings: list[Finding] = []
    file = data_dir / FILE_NAME
    if not is_etcd(data_dir, settings) and file.exists():
        file_findings = [Finding(f"{file}: {problem}", RESTORE_HINT) for problem in check_file(file)]
        if file_findings:
            # The content of a corrupt file is unreliable.
            return FsckResult("", "sqlite", 0, 0, 0, file_findings)
    return asyncio.run(_check_store(data_dir, settings, key_ring))


def fsck_backup(file: Path, settings: StoreSettings) -> FsckResult:
    """Checks a backup. Raises InvalidBackup if it is not complete."""
    key_ring = KeyRing.load(Path(settings.encryption_key_file)) if settings.encryption_key_file else None
    with file.open("rb") as opened:
        reader = BackupReader(opened, str(file))
        header = reader.header
        inspection = StoreInspection(header.revision, key_ring, settings.encrypted_kinds)
        for record in reader.records():
            inspection.add(record)
    summary = header.store, header.kind, header.revision, inspection.records, inspection.encrypted
    return FsckResult(*summary, inspection.findings())


async def _check_store(data_dir: Path, settings: StoreSettings, key_ring: KeyRing | None) -> FsckResult:
    async with open_snapshot(data_dir, settings) as snapshot:
        inspection = StoreInspection(snapshot.newest_revision, key_ring, settings.encrypted_kinds)
        findings = await _identity_findings(snapshot, data_dir, settings)
        try:
            async for page in snapshot.pages():
                for record in page:
                    inspection.add(record)
        except StoreError as error:
            findings.append(Finding(f"the store cannot be read completely: {error}", RESTORE_HINT))
        summary = snapshot.id, snapshot.kind, snapshot.revision, inspection.records, inspection.encrypted
        return FsckResult(*summary, [*findings, *inspection.findings()])


async def _identity_findings(snapshot: StoreSnapshot, data_dir: Path, settings: StoreSettings) -> list[Finding]:
    findings = []
    file = data_dir / STORE_ID_FILE
    expected_id = file.read_text().strip() if file.exists() and not settings.servers else snapshot.id
    if expected_id != snapshot.id and expected_id not in snapshot.ancestors:
        message = f"{data_dir} belongs to store {expected_id} but contains store {snapshot.id}; a server will not start"
        findings.append(Finding(message, RESTORE_HINT))
    for folder, count in (await snapshot.orphaned_prefixes()).items():
        message = f"{count} keys below {folder} are left over from a replaced store or an interrupted restore"
        findings.append(Finding(message, f"if they are not needed: etcdctl del --prefix {folder}", False))
    return findings
