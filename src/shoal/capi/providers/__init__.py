"""Infrastructure providers of Cluster API."""
