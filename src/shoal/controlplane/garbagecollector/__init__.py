"""Garbage collector over all logical clusters."""
