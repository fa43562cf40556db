"""Error injections of the novelty evaluation.

Source: Redyuk et al., "Automating Data Quality Validation for Dynamic Data Ingestion", EDBT 2021,
section 5.1. Each takes a batch and returns its corrupted columns, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

Columns = dict[str, pd.Series]
IMPLICIT_TEXT = "NONE"
IMPLICIT_NUMBER = 99999
# In a text chosen for typos, the share of its letters that slip to a neighbour on the keyboard.
LETTERS_PER_TEXT = 0.1

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _neighbors() -> dict[str, str]:
    place = {c: (y, x) for y, row in enumerate(_ROWS) for x, c in enumerate(row)}
    near = {
        c: "".join(
            o for o, (v, u) in place.items() if o != c and abs(v - y) <= 1 and abs(u - x) <= 1
        )
        for c, (y, x) in place.items()
    }
    return near | {c.upper(): others.upper() for c, others in near.items()}


NEIGHBORS = _neighbors()


def chosen(size: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Positions of a share of the rows, at least one, drawn without replacement."""
    return rng.choice(size, size=max(1, round(share * size)), replace=False)


def explicit_missing(batch: pd.DataFrame, name: str, rows: np.ndarray, _: object) -> Columns:
    """NULL instead of the value."""
    values = batch[name].astype(object if batch[name].dtype == object else float).copy()
    values.iloc[rows] = None if values.dtype == object else np.nan
    return {name: values}


def implicit_missing(batch: pd.DataFrame, name: str, rows: np.ndarray, _: object) -> Columns:
    """'NONE' or 99999 instead of the value."""
    values = batch[name].copy()
    values.iloc[rows] = IMPLICIT_TEXT if values.dtype == object else IMPLICIT_NUMBER
    return {name: values}


def numeric_anomalies(
    batch: pd.DataFrame, name: str, rows: np.ndarray, rng: np.random.Generator
) -> Columns:
    """Gaussian noise about the mean, 2 to 5 times as wide as the column."""
    values = batch[name].astype(float).copy()
    width = rng.uniform(2.0, 5.0) * float(values.std())
    values.iloc[rows] = rng.normal(float(values.mean()), max(width, 1e-9), size=len(rows))
    return {name: values}


def swapped_fields(batch: pd.DataFrame, names: str, rows: np.ndarray, _: object) -> Columns:
    """Values of two columns, 'a/b', exchanged."""
    one, other = names.split("/")
    kind = object if batch[one].dtype == object else float
    first, second = batch[one].astype(kind).copy(), batch[other].astype(kind).copy()
    first.iloc[rows], second.iloc[rows] = batch[other].iloc[rows], batch[one].iloc[rows]
    return {one: first, other: second}


def typos(batch: pd.DataFrame, name: str, rows: np.ndarray, rng: np.random.Generator) -> Columns:
    """Letters of the chosen texts slip to neighbours on a qwerty keyboard."""
    values = batch[name].copy()
    values.iloc[rows] = [_butterfinger(value, rng) for value in values.iloc[rows]]
    return {name: values}


def _butterfinger(text: object, rng: np.random.Generator) -> object:
    if not isinstance(text, str):
        return text
    hit = rng.random(len(text)) < LETTERS_PER_TEXT
    out = list(text)
    for place in np.flatnonzero(hit):
        near = NEIGHBORS.get(out[place])
        if near:
            out[place] = near[int(rng.integers(len(near)))]
    return "".join(out)


Injection = Callable[[pd.DataFrame, str, np.ndarray, np.random.Generator], Columns]
INJECTIONS: Mapping[str, Injection] = {
    "explicit missing": explicit_missing,
    "implicit missing": implicit_missing,
    "numeric anomalies": numeric_anomalies,
    "swapped numeric": swapped_fields,
    "swapped text": swapped_fields,
    "typos": typos,
}


def inject(
    batch: pd.DataFrame, kind: str, name: str, share: float, rng: np.random.Generator
) -> Columns:
    """The columns that change when a share of the rows suffers one kind of error."""
    return INJECTIONS[kind](batch, name, chosen(len(batch), share, rng), rng)


def inject_pair(
    batch: pd.DataFrame, kinds: tuple[str, str], name: str, share: float, rng: np.random.Generator
) -> Columns:
    """Two kinds of errors in one column; the second overrides the first where both strike.

    Each is drawn for a share of the rows; of the union, a share of all rows stays (section 5.4).
    """
    second = chosen(len(batch), share, rng)
    union = np.union1d(chosen(len(batch), share, rng), second)
    kept = rng.choice(union, size=min(len(union), max(1, round(share * len(batch)))), replace=False)
    later = np.intersect1d(kept, second)
    changed = INJECTIONS[kinds[0]](batch, name, np.setdiff1d(kept, later), rng)
    return INJECTIONS[kinds[1]](batch.assign(**changed), name, later, rng)
