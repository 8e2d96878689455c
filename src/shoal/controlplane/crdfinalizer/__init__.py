"""Finalizes CustomResourceDefinitions."""
