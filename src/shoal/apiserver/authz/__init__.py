"""Authorization: role-based access control per logical cluster, the node, worker and syncer authorizers, and the
escalation check.
"""

from shoal.apiserver.authz.rbac import Attributes, Authorizer, Decision, RoleSource, forbidden

__all__ = ["Attributes", "Authorizer", "Decision", "RoleSource", "forbidden"]
