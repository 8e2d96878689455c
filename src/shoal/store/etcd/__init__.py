"""The distributed store: an etcd cluster, its mod revisions as ours, any number of servers on it.

store.py       EtcdStore: the contract; one transaction per object, compared by etcd itself
feed.py        the one live watch every answer and every watch here follows
history.py     watches that begin in the past, until they have caught up with the feed
guarding.py    is it still the store that was opened
freshness.py   has this server seen what others had been told? Asked once for everybody who waits
opening.py     whose prefix is it, which store, how far back does its history go
copying.py     a store read while it is written, and a store made from a backup
connection.py  endpoints, TLS, users, failover, and etcd's errors in our words
messages.py    the requests, and the keys of ours in etcd

Below the prefix: `objects/…` is the store's content (of a restored store
`objects-ID/…`), `store` says whose it is, `compaction` who compacts,
`notes/…` what the servers of one store share.
"""

from shoal.store.etcd.connection import EtcdSettings
from shoal.store.etcd.store import EtcdStore

__all__ = ["EtcdSettings", "EtcdStore"]
