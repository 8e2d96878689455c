"""Authorization: role-based access control per logical cluster, the node, worker and syncer authorizers, and the
escalation check.
"""

from shoal.apiserver.authz.rbac import Attributes, AuthorizationDecision, Authorizer, RoleGetter, forbidden

__all__ = ["Attributes", "AuthorizationDecision", "Authorizer", "RoleGetter", "forbidden"]
