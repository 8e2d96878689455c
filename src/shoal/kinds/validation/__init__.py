"""Validation and defaulting helpers shared by all API groups."""
