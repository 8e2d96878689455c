"""Solver: repacks the pods of a scheduling simulation by column generation and local search, in a child process."""
