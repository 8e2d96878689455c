"""The watch cache and what depends on its state: triggers, compaction, idle clusters, readiness, purge."""
