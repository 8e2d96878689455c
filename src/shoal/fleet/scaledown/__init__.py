"""Scale-down: deletes auto-created Workers that have been empty for a while."""
