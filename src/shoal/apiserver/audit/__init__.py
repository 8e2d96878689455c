"""The audit log: one audit.k8s.io/v1 Event per request. Off unless a file is configured."""

from shoal.apiserver.audit.settings import AuditSettings, open_audit
from shoal.apiserver.audit.trail import HEADER as AUDIT_ID
from shoal.apiserver.audit.trail import Audit, Record, audit_id

__all__ = ["AUDIT_ID", "Audit", "AuditSettings", "Record", "audit_id", "open_audit"]
