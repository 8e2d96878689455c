"""Opens a store in etcd: in the cluster given by flags, or in a local etcd that is started for it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shoal.assemble.local_etcd import LocalEtcd
from shoal.assemble.store_settings import Opened, StoreSettings
from shoal.store.etcd import EtcdSettings, EtcdStore
from shoal.store.etcd.copying import EtcdSnapshot


async def open_etcd(directory: Path, settings: StoreSettings, known: str) -> Opened:
    if settings.servers:
        there = remote(settings)
        store = await EtcdStore.open(there, known)
        return Opened(store, store.close, partial(EtcdSnapshot.open, there), store, shared=True)
    local = await LocalEtcd.start(directory)
    try:
        here = EtcdSettings((local.endpoint,), settings.prefix, exclusive=True)
        store = await EtcdStore.open(here, known)
    except BaseException:
        await local.stop()
        raise

    async def close() -> None:
        await store.close()
        await local.stop()

    return Opened(store, close, partial(EtcdSnapshot.open, here), store)


def remote(settings: StoreSettings) -> EtcdSettings:
    return EtcdSettings(
        endpoints=settings.servers,
        prefix=settings.prefix,
        ca_file=_path(settings.ca_file),
        cert_file=_path(settings.cert_file),
        key_file=_path(settings.key_file),
        username=settings.username,
        password=settings.password,
    )


def _path(text: str) -> Path | None:
    return Path(text) if text else None
