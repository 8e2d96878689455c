"""The Cluster loop."""
