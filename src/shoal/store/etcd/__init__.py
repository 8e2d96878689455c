"""The distributed store: an etcd cluster whose mod revisions are the store's revisions, with any number of servers.

- `store`: EtcdStore, which implements the contract; one transaction per object, compared by etcd
- `live_watch`: the one live watch that all writes and watches of this server follow
- `watches`: watches that begin in the past, until they have caught up with the live watch
- `claim`: the owner of the prefix, the ID of the store, the start of its history; watched while the store is open
- `read_index`: the linearizable read barrier, batched for all waiters
- `snapshot`: reads a store while it is written, and restores a store from a backup
- `connection`: endpoints, TLS, users, failover, and translation of etcd's errors
- `messages`: the requests, and the layout of keys in etcd

Below the prefix, `objects/…` is the content of the store (`objects-ID/…` of a restored one), `store` is the claim,
`compaction` names the server that compacts, and `notes/…` is metadata that the servers of one store share.
"""

from shoal.store.etcd.connection import EtcdSettings
from shoal.store.etcd.store import EtcdStore

__all__ = ["EtcdSettings", "EtcdStore"]
