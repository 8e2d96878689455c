"""The audit log: who asked for what, and what came of it. Off unless a file is named."""

from shoal.apiserver.audit.settings import AuditSettings, open_audit
from shoal.apiserver.audit.trail import HEADER as AUDIT_ID
from shoal.apiserver.audit.trail import Audit, Record, audit_id

__all__ = ["AUDIT_ID", "Audit", "AuditSettings", "Record", "audit_id", "open_audit"]
