"""Backups: one file with a whole store at one revision, in the same format for every store.

format.py    the file format snapshot.py  what a store provides for a backup
"""
