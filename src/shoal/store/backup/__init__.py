"""Backups: one file with a whole store at one revision, the same for every store.

format.py    the file: what is written, what is refused
snapshot.py  what a store gives to be backed up
"""
