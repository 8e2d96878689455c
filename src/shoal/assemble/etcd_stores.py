"""Opens a store in etcd: in the cluster the flags name, or in a local etcd that is started for it."""

from __future__ import annotations

from pathlib import Path

from shoal.assemble.local_etcd import LocalEtcd
from shoal.assemble.store_settings import Opened, StoreSettings
from shoal.store.etcd import EtcdSettings, EtcdStore


async def open_etcd(directory: Path, settings: StoreSettings, known: str) -> Opened:
    if settings.servers:
        store = await EtcdStore.open(_remote(settings), known)
        return Opened(store, store.close, store, shared=True)
    local = await LocalEtcd.start(directory)
    try:
        store = await EtcdStore.open(EtcdSettings((local.endpoint,), settings.prefix, exclusive=True), known)
    except BaseException:
        await local.stop()
        raise

    async def close() -> None:
        await store.close()
        await local.stop()

    return Opened(store, close, store)


def _remote(settings: StoreSettings) -> EtcdSettings:
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
