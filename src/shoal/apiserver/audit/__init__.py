"""The audit log: one audit.k8s.io/v1 Event per request. Off unless a file is configured."""

from shoal.apiserver.audit.config import AuditConfig, open_auditor
from shoal.apiserver.audit.event import AUDIT_ID_HEADER, AuditContext, Auditor, audit_id_of

__all__ = ["AUDIT_ID_HEADER", "AuditConfig", "AuditContext", "Auditor", "audit_id_of", "open_auditor"]
