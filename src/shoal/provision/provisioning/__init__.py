"""Provisioning: batches pending pods, plans new nodes and creates their NodeClaims."""
