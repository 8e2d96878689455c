"""Opens stores: SQLite or etcd, the data directory, the shared identity of servers, snapshots for backups."""
