"""Keeps the roles of the hub's users in hosted clusters."""
