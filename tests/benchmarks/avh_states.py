"""Bounded states of raw values, as Spark makes them of its sketches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dqsql.decisions.distances import NumericState


def numeric_state(values: npt.ArrayLike, quantiles: int = 256) -> NumericState:
    """Return the bounded state of raw values; NaN are left out.

    Args:
        values: 1-D values of the batch.
        quantiles: number of equally spaced ranks to keep, > 0.
    """
    array = np.asarray(values, dtype=float)
    kept = np.sort(array[~np.isnan(array)])
    if not kept.size:
        return NumericState(kept, 0.0, float("nan"), float("nan"))
    ranks = (np.arange(quantiles) + 0.5) / quantiles * kept.size
    sd = float(kept.std(ddof=1)) if kept.size > 1 else float("nan")
    return NumericState(kept[ranks.astype(int)], float(kept.size), float(kept.mean()), sd)
