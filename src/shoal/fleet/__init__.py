"""The fleet: ManagedClusters on Workers. The hub schedules, monitors and migrates them; workers host them and
report.
"""
