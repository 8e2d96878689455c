"""The splitter: creates, updates and deletes the leaves of placed objects, and aggregates their status."""
