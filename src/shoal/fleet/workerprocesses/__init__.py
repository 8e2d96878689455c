"""Worker processes that a hub runs for Workers with infrastructure process."""
