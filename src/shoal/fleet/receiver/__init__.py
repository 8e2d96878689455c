"""Receives status reports of workers from NATS and writes them at the hub."""
