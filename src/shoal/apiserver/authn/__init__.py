"""Authentication: credentials to users, and impersonation."""
