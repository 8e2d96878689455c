"""Removes dominated options: another option holds as much of the same items for no higher price. Pure."""

from __future__ import annotations

import numpy as np

from shoal.provision.solver.instance import Bools, Floats, Ints


def undominated_options(capacity: Ints, prices: Floats, allowed: Bools, limit_usage: Ints) -> Ints:
    """Indexes of the undominated options. `limit_usage`: q x k, as in an instance."""
    keys = [row.tobytes() for row in np.packbits(allowed, axis=1)]
    first = {key: number for number, key in reversed(list(enumerate(keys)))}
    number_of = {key: number for number, key in enumerate(first)}
    kind_of = np.asarray([number_of[key] for key in keys], np.int64)
    kinds = allowed[list(first.values())]
    # Whether the other kind may hold all items of the one.
    within = np.asarray([(~one | kinds).all(axis=1) for one in kinds], np.bool_).reshape(len(kinds), len(kinds))
    kept: list[int] = []
    for option in np.lexsort((-capacity.sum(axis=1), -allowed.sum(axis=1), prices)).tolist():
        if not allowed[option].any():
            continue
        others = np.asarray(kept, np.int64)
        better = within[kind_of[option]][kind_of[others]]
        better &= (capacity[others] >= capacity[option]).all(axis=1)
        better &= (limit_usage[:, others] <= limit_usage[:, [option]]).all(axis=0)
        if not better.any():
            kept.append(option)
    return np.sort(np.asarray(kept, np.int64))
