"""The distributed store: an etcd cluster whose mod revisions are the store's revisions, with any number of servers.

store.py       EtcdStore: the contract; one transaction per object, compared by etcd live_watch.py  the one live watch
that all writes and watches of this server follow watches.py     watches that begin in the past, until they have caught
up with the live watch claim_watch.py checks that it is still the store that was opened read_index.py  linearizable read
barrier, batched for all waiters claim.py       the owner of the prefix, the ID of the store, the start of its history
snapshot.py    reads a store while it is written, and restores a store from a backup connection.py  endpoints, TLS,
users, failover, and translation of etcd's errors messages.py    the requests and the layout of keys in etcd

Below the prefix: `objects/…` is the store's content (of a restored store `objects-ID/…`), `store` is the claim,
`compaction` says who compacts, `notes/…` is metadata that the servers of one store share.
"""

from shoal.store.etcd.connection import EtcdSettings
from shoal.store.etcd.store import EtcdStore

__all__ = ["EtcdSettings", "EtcdStore"]
