"""rbac.authorization.k8s.io/v1: roles and bindings."""
