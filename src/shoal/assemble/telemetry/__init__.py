"""Metrics of a whole process, and the exporter of its spans."""
