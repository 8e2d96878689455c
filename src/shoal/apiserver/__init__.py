"""The API server: everything between a parsed HTTP request and the store."""
