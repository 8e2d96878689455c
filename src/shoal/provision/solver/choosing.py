"""Removes dominated options: another option holds as much of the same items for no higher price. Pure."""

from __future__ import annotations

import numpy as np

from shoal.provision.solver.instance import Bools, Floats, Ints


def undominated(capacity: Ints, prices: Floats, allowed: Bools, takes: Ints) -> Ints:
    """Indexes of the undominated options. `limit_usage`: q x k, as in an instance."""
    names = [row.tobytes() for row in np.packbits(allowed, axis=1)]
    first = {name: number for number, name in reversed(list(enumerate(names)))}
    number_of = {name: number for number, name in enumerate(first)}
    of = np.asarray([number_of[name] for name in names], np.int64)
    kinds = allowed[list(first.values())]
    # Whether the other kind may hold all items of the one.
    within = np.asarray([(~one | kinds).all(axis=1) for one in kinds], np.bool_).reshape(len(kinds), len(kinds))
    kept: list[int] = []
    for option in np.lexsort((-capacity.sum(axis=1), -allowed.sum(axis=1), prices)).tolist():
        if not allowed[option].any():
            continue
        others = np.asarray(kept, np.int64)
        better = within[of[option]][of[others]]
        better &= (capacity[others] >= capacity[option]).all(axis=1)
        better &= (takes[:, others] <= takes[:, [option]]).all(axis=0)
        if not better.any():
            kept.append(option)
    return np.sort(np.asarray(kept, np.int64))
