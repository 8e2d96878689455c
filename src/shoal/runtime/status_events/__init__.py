"""Records Events from status changes, for kinds whose controllers report only in the status."""
