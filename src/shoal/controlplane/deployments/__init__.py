"""Deployment controller."""
