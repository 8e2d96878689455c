"""Authorization: role-based access control per logical cluster, and the guard against escalation."""

from shoal.apiserver.authz.rbac import Attributes, Authorizer, Decision, RoleSource, forbidden

__all__ = ["Attributes", "Authorizer", "Decision", "RoleSource", "forbidden"]
