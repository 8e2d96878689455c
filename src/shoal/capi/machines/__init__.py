"""The Machine reconciler."""
