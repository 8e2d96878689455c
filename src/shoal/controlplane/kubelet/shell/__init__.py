"""Interpreter of a small subset of sh that starts no process, for simulated containers. Pure; raises `UnknownOutcome`
for anything else.
"""
