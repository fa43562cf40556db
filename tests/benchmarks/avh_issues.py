"""The ten data-quality issues of the paper's Appendix B, injected into raw values.

The paper's text and the authors' code give different magnitudes (1/10/100 % against
10/50/100 %); `TEXT` and `CODE` are the two. `BOTH` is what bounds are chosen by: their union
without repetitions, and real missing values, which the paper's issues have none of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Variants = dict[str, np.ndarray]

LETTERS = np.array([ord(c) for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"])
DIGITS = np.arange(48, 58)
OTHERS = np.array([ord(c) for c in "!#$%&()*+-./:;<=>?@[]^_{|}~"])
ANY = np.concatenate([LETTERS, DIGITS, OTHERS])


@dataclass(frozen=True)
class Magnitudes:
    """Fractions of values (or characters) hit, per issue type."""

    schema: tuple[float, ...]
    unit: tuple[float, ...]
    casing: tuple[float, ...]
    nulls: tuple[float, ...]
    perturb: tuple[float, ...]
    padding: tuple[float, ...]
    missing: tuple[float, ...] = ()
    shrunk: tuple[float, ...] = ()
    minus: tuple[float, ...] = ()


CODE = Magnitudes(*((0.1, 0.5, 1.0), (0.1, 1.0)), *((0.1, 0.5, 1.0),) * 4)
TEXT = Magnitudes(
    schema=(0.01, 0.1, 1.0),
    unit=(1.0,),
    casing=(0.01, 0.1, 1.0),
    nulls=(0.01, 0.5, 1.0),
    perturb=(0.01, 0.1, 1.0),
    padding=(0.1, 0.5, 1.0),
)
BOTH = Magnitudes(
    *(
        tuple(sorted(set(getattr(TEXT, name)) | set(getattr(CODE, name))))
        for name in ("schema", "unit", "casing", "nulls", "perturb", "padding")
    ),
    missing=(0.01, 0.05, 0.1, 0.2, 0.5, 1.0),
    shrunk=(0.1, 1.0),
    minus=(0.05, 0.5),
)


def inject(
    values: np.ndarray,
    kind: str,
    neighbor: np.ndarray | None,
    seed: int,
    magnitudes: Magnitudes = CODE,
) -> Variants:
    """Return the variants of one batch, by name `issue_parameters`.

    Without a neighbour the batch itself, reversed, stands in for it.
    """
    rng = np.random.default_rng(seed)
    source = values[::-1] if neighbor is None else neighbor
    out = _schema(values, source, rng, magnitudes)
    if kind == "numeric":
        out |= _unit(values, rng, magnitudes)
    else:
        out |= _casing(values, rng, magnitudes) | _padding(values, rng, magnitudes)
    out |= _nulls(values, kind, rng, magnitudes) | _volume(values, rng)
    out |= _distribution(values, kind) | _characters(values, kind, rng, magnitudes)
    # Last, so that all others are drawn as they are without it.
    out |= _missing(values, kind, rng, magnitudes)
    return out | _below(values, rng, magnitudes) if kind == "numeric" else out


def _below(values: np.ndarray, rng: np.random.Generator, magnitudes: Magnitudes) -> Variants:
    """Too small, without their sign, and -1 for nothing."""
    out = {}
    for fraction in magnitudes.shrunk:
        for name, factor in (("shrunk_x0.1", 0.1), ("shrunk_x0.001", 0.001), ("sign", -1)):
            changed = values.copy()
            changed[_pick(rng, len(values), fraction)] *= factor
            out[f"{name}_{fraction}"] = changed
    for fraction in magnitudes.minus:
        changed = values.copy()
        changed[_pick(rng, len(values), fraction)] = -1
        out[f"minus_{fraction}"] = changed
    return out


def _pick(rng: np.random.Generator, size: int, fraction: float) -> np.ndarray:
    return rng.choice(size, int(size * fraction), replace=False)


def _schema(
    values: np.ndarray, source: np.ndarray, rng: np.random.Generator, magnitudes: Magnitudes
) -> Variants:
    out = {}
    for fraction in magnitudes.schema:
        changed = values.copy()
        rows = _pick(rng, len(values), fraction)
        changed[rows] = rng.choice(source, len(rows), replace=len(rows) > len(source))
        out[f"schema_{fraction}"] = changed
    return out


def _unit(values: np.ndarray, rng: np.random.Generator, magnitudes: Magnitudes) -> Variants:
    out = {}
    for fraction in magnitudes.unit:
        for factor in (10, 100, 1000):
            changed = values.copy()
            changed[_pick(rng, len(values), fraction)] *= factor
            out[f"unit_x{factor}_{fraction}"] = changed
    return out


def _replace(values: np.ndarray, rows: np.ndarray, function: Callable[[str], str]) -> np.ndarray:
    changed = values.copy()
    for row in rows:
        if changed[row] is not None:
            changed[row] = function(changed[row])
    return changed


def _casing(values: np.ndarray, rng: np.random.Generator, magnitudes: Magnitudes) -> Variants:
    return {
        f"case_{name}_{fraction}": _replace(values, _pick(rng, len(values), fraction), function)
        for name, function in (("upper", str.upper), ("lower", str.lower))
        for fraction in magnitudes.casing
    }


def _padding(values: np.ndarray, rng: np.random.Generator, magnitudes: Magnitudes) -> Variants:
    return {
        f"pad_{name}_{fraction}": _replace(values, _pick(rng, len(values), fraction), function)
        for name, function in (("lead", lambda v: " " + v), ("trail", lambda v: v + " "))
        for fraction in magnitudes.padding
    }


def _nulls(
    values: np.ndarray, kind: str, rng: np.random.Generator, magnitudes: Magnitudes
) -> Variants:
    out = {}
    for fraction in magnitudes.nulls:
        changed = values.copy()
        changed[_pick(rng, len(values), fraction)] = 0.0 if kind == "numeric" else ""
        out[f"null_{fraction}"] = changed
    return out


def _missing(
    values: np.ndarray, kind: str, rng: np.random.Generator, magnitudes: Magnitudes
) -> Variants:
    out = {}
    for fraction in magnitudes.missing:
        changed = values.copy()
        changed[_pick(rng, len(values), fraction)] = np.nan if kind == "numeric" else None
        out[f"missing_{fraction}"] = changed
    return out


def _volume(values: np.ndarray, rng: np.random.Generator) -> Variants:
    return {
        "volume_x2": np.tile(values, 2),
        "volume_x10": np.tile(values, 10),
        "volume_0.5": values[_pick(rng, len(values), 0.5)],
        "volume_0.1": values[_pick(rng, len(values), 0.1)],
    }


def _distribution(values: np.ndarray, kind: str) -> Variants:
    if kind == "numeric":
        ordered = np.sort(values[~np.isnan(values)])
    else:
        ordered = np.array(sorted(v for v in values if v is not None), dtype=object)
    out = {}
    for fraction in (0.1, 0.5):
        size = max(1, int(len(ordered) * fraction))
        out[f"dist_first_{fraction}"] = ordered[:size]
        out[f"dist_last_{fraction}"] = ordered[-size:]
    return out


def _characters(
    values: np.ndarray, kind: str, rng: np.random.Generator, magnitudes: Magnitudes
) -> Variants:
    if kind == "numeric":
        present = ~np.isnan(values)
        texts = [f"{v:.0f}" if v == int(v) else repr(float(v)) for v in values[present]]
        alphabet = DIGITS
    else:
        present = np.array([v is not None for v in values], dtype=bool)
        texts, alphabet = list(values[present]), ANY
    codes = to_codes(texts)

    def rebuild(changed: np.ndarray) -> np.ndarray:
        strings = from_codes(changed)
        out = values.copy()
        out[present] = _to_numbers(strings) if kind == "numeric" else np.array(strings, object)
        return out

    numeric = kind == "numeric"
    out = {f"perturb_{p}": rebuild(_perturb(codes, p, rng, numeric)) for p in magnitudes.perturb}
    out |= {f"insert_{p}": rebuild(_insert(codes, p, rng, alphabet)) for p in (0.1, 0.5)}
    out |= {f"delete_{p}": rebuild(_delete(codes, p, rng, numeric)) for p in (0.1, 0.5)}
    return out


def to_codes(texts: list[str]) -> np.ndarray:
    """Return texts as a matrix of code points, zero-padded on the right."""
    if not texts:
        return np.zeros((0, 1), dtype=np.uint32)
    array = np.array(texts, dtype=str)
    width = max(1, array.dtype.itemsize // 4)
    return (
        array.view(np.uint32).reshape(len(texts), width).copy()
        if array.dtype.itemsize
        else (np.zeros((len(texts), 1), dtype=np.uint32))
    )


def from_codes(codes: np.ndarray) -> list[str]:
    """Return the texts of a matrix of code points."""
    if not len(codes):
        return []
    flat = np.ascontiguousarray(codes.astype(np.uint32))
    return list(flat.view(f"<U{codes.shape[1]}").ravel().tolist())


def is_digit(codes: np.ndarray) -> np.ndarray:
    return (codes >= 48) & (codes <= 57)


def is_letter(codes: np.ndarray) -> np.ndarray:
    ascii_letter = ((codes | 32) >= 97) & ((codes | 32) <= 122)
    return ascii_letter


def _perturb(
    codes: np.ndarray, fraction: float, rng: np.random.Generator, numeric: bool
) -> np.ndarray:
    lengths = (codes > 0).sum(axis=1)
    keys = np.where(codes > 0, rng.random(codes.shape), 2.0)
    ranks = keys.argsort(axis=1).argsort(axis=1)
    chosen = (ranks < (lengths * fraction).astype(int)[:, None]) & (codes > 0)
    digits = DIGITS[rng.integers(0, 10, codes.shape)]
    letters = LETTERS[rng.integers(0, 52, codes.shape)]
    if numeric:
        digits[:, 0] = rng.integers(49, 58, len(codes))
        return np.where(chosen & is_digit(codes), digits, codes)
    return np.where(chosen, np.where(is_digit(codes), digits, letters), codes)


def _insert(
    codes: np.ndarray, fraction: float, rng: np.random.Generator, alphabet: np.ndarray
) -> np.ndarray:
    rows, width = codes.shape
    wide = np.zeros((rows, 2 * width + 1), dtype=np.uint32)
    wide[:, 1::2] = codes
    lengths = (codes > 0).sum(axis=1)
    slots = np.arange(width + 1)[None, :]
    hit = (rng.random((rows, width + 1)) < fraction) & (slots <= lengths[:, None])
    fresh = alphabet[rng.integers(0, len(alphabet), hit.shape)]
    if alphabet is DIGITS:
        hit[:, 0] &= codes[:, 0] != ord("-")
        fresh[:, 0] = rng.integers(49, 58, rows)
    wide[:, 0::2] = np.where(hit, fresh, 0)
    return _compact(wide)


def _delete(
    codes: np.ndarray, fraction: float, rng: np.random.Generator, numeric: bool
) -> np.ndarray:
    drop = rng.random(codes.shape) < fraction
    if numeric:
        drop &= is_digit(codes)
        drop[:, 0] = False
    return _compact(np.where(drop, 0, codes))


def _compact(codes: np.ndarray) -> np.ndarray:
    order = np.argsort(codes == 0, axis=1, kind="stable")
    return np.take_along_axis(codes, order, axis=1)


def _to_numbers(strings: list[str]) -> np.ndarray:
    out = np.empty(len(strings))
    for i, text in enumerate(strings):
        try:
            out[i] = float(text)
        except ValueError:
            out[i] = 0.0 if text else np.nan
    return out
