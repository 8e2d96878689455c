"""Opens a store in etcd: in the cluster given by flags, or in a local etcd that is started for it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shoal.assemble.storage.config import OpenedStore, StoreSettings
from shoal.assemble.storage.local_etcd import LocalEtcd
from shoal.store.etcd import EtcdSettings, EtcdStore
from shoal.store.etcd.snapshot import EtcdSnapshot


async def open_etcd(directory: Path, settings: StoreSettings, expected_id: str) -> OpenedStore:
    if settings.servers:
        remote_settings = remote_etcd_settings(settings)
        store = await EtcdStore.open(remote_settings, expected_id)
        return OpenedStore(store, store.close, partial(EtcdSnapshot.open, remote_settings), store, is_shared=True)
    local = await LocalEtcd.start(directory)
    try:
        local_settings = EtcdSettings((local.endpoint,), settings.prefix, exclusive=True)
        store = await EtcdStore.open(local_settings, expected_id)
    except BaseException:
        await local.stop()
        raise

    async def close() -> None:
        await store.close()
        await local.stop()

    return OpenedStore(store, close, partial(EtcdSnapshot.open, local_settings), store)


def remote_etcd_settings(settings: StoreSettings) -> EtcdSettings:
    return EtcdSettings(
        endpoints=settings.servers,
        prefix=settings.prefix,
        ca_file=_optional_path(settings.ca_file),
        cert_file=_optional_path(settings.cert_file),
        key_file=_optional_path(settings.key_file),
        username=settings.username,
        password=settings.password,
    )


def _optional_path(text: str) -> Path | None:
    return Path(text) if text else None
