"""What makes a logical cluster a cluster: the loops every API server needs, as clients of the API."""
