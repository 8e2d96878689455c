"""The audit log: one audit.k8s.io/v1 Event per request. Off unless a file is configured.

`event` builds the Events, `policy` decides at which level a request is recorded, `log_backend` writes the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shoal.apiserver.audit.event import AUDIT_ID_HEADER, AuditContext, Auditor, audit_id_of
from shoal.apiserver.audit.log_backend import AuditLogBackend
from shoal.apiserver.audit.policy import RECORD_METADATA, AuditPolicyError, parse_policy
from shoal.clock import Clock
from shoal.objects.errors import ShoalError

__all__ = [
    "AUDIT_ID_HEADER",
    "AuditConfig",
    "AuditConfigError",
    "AuditContext",
    "Auditor",
    "audit_id_of",
    "open_auditor",
]


class AuditConfigError(ShoalError):
    pass


@dataclass(frozen=True, slots=True)
class AuditConfig:
    path: str = ""
    """Empty: there is no audit log. `-`: the standard output."""
    max_size_mb: int = 100
    max_backups: int = 0
    policy_path: Path | None = None
    """None: every request is recorded at level Metadata."""


def open_auditor(config: AuditConfig, clock: Clock) -> Auditor | None:
    if not config.path:
        return None
    try:
        policy = RECORD_METADATA if config.policy_path is None else parse_policy(config.policy_path.read_bytes())
    except AuditPolicyError as error:
        raise AuditPolicyError(f"{config.policy_path}: {error}") from None
    except OSError as error:
        raise AuditConfigError(f"the audit policy cannot be read: {error}") from None
    try:
        file = AuditLogBackend(config.path, config.max_size_mb, config.max_backups)
    except OSError as error:
        raise AuditConfigError(f"the audit log cannot be written: {error}") from None
    return Auditor(file, policy, clock)
