"""Garbage collection of NodeClaims without an instance."""
