"""Objects that nobody may change: for finding a loop that changes what it shares with others."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from shoal.client.reflector import Key
from shoal.runtime.informer_store import InformerStore

Object = dict[str, Any]


class Changed(TypeError):
    pass


def _refuse(*_: object, **__: object) -> NoReturn:
    raise Changed("a loop changes an object that it shares with others")


class FrozenDict(dict[str, Any]):
    __setitem__ = __delitem__ = clear = popitem = setdefault = update = __ior__ = _refuse

    def pop(self, key: str, *default: Any) -> Any:
        return default[0] if default and key not in self else _refuse()


class FrozenList(list[Any]):
    __setitem__ = __delitem__ = append = clear = extend = insert = pop = remove = _refuse
    reverse = sort = __iadd__ = __imul__ = _refuse


def frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return FrozenDict({key: frozen(each) for key, each in value.items()})
    if isinstance(value, list):
        return FrozenList(map(frozen, value))
    return value


def freeze_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, what shared copies hold cannot be changed."""
    replace, apply, show = InformerStore.replace, InformerStore.apply, InformerStore._show

    def replace_frozen(self: InformerStore, objects: dict[Key, Object], revision: int) -> None:
        replace(self, {key: frozen(obj) for key, obj in objects.items()}, revision)

    monkeypatch.setattr(InformerStore, "replace", replace_frozen)
    monkeypatch.setattr(
        InformerStore, "apply", lambda self, key, obj, revision: apply(self, key, frozen(obj), revision)
    )
    monkeypatch.setattr(InformerStore, "_show", lambda self, key, obj, written: show(self, key, frozen(obj), written))
