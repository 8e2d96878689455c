"""Expires Events."""
