"""Audit configuration from the command line, and the Auditor built from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shoal.apiserver.audit.log import AuditFile
from shoal.apiserver.audit.policy import EVERYTHING, PolicyError, read_policy
from shoal.apiserver.audit.trail import Audit
from shoal.clock import Clock
from shoal.objects.errors import ShoalError


class AuditError(ShoalError):
    pass


@dataclass(frozen=True, slots=True)
class AuditSettings:
    path: str = ""
    """Empty: there is no audit log. `-`: the standard output."""
    megabytes: int = 100
    backups: int = 0
    policy: Path | None = None
    """None: every request is recorded at level Metadata."""


def open_audit(settings: AuditSettings, clock: Clock) -> Audit | None:
    if not settings.path:
        return None
    try:
        policy = EVERYTHING if settings.policy is None else read_policy(settings.policy.read_bytes())
    except PolicyError as error:
        raise PolicyError(f"{settings.policy}: {error}") from None
    except OSError as error:
        raise AuditError(f"the audit policy cannot be read: {error}") from None
    try:
        file = AuditFile(settings.path, settings.megabytes, settings.backups)
    except OSError as error:
        raise AuditError(f"the audit log cannot be written: {error}") from None
    return Audit(file, policy, clock)
