"""Relations with the traits of those in Table 3 of Schelter et al., VLDB 2018; all values texts."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

LANGUAGES = ("en", "es", "ja", "pt", "ar", "fr", "th", "ko", "id", "ru")
RARE = ("tr", "hu", "en-gb", "en-GB", "pl", "el", "uk", "fi", "sv", "cs", "da", "nb")


def twitter_users(rows: int = 5_180, seed: int = 3) -> list[dict[str, str]]:
    """Users of which 28 % tell a location, in ten common languages and a few rare ones.

    `statuses_count` has about 64 % of its values once, and nearly all of them once in a sample.
    """
    draw = np.random.default_rng(seed)
    ids = draw.choice(10**9, rows, replace=False)
    rare = draw.random(rows) < 0.009
    common = draw.choice(LANGUAGES, rows, p=np.array([40, 15, 12, 8, 7, 5, 4, 4, 3, 2]) / 100)
    lang = np.where(rare, draw.choice(RARE, rows), common)
    places = ("London", "São Paulo", "東京", "O'Fallon, IL", 'somewhere "nice"', "Paris")
    return [
        {
            "id": str(ids[i]),
            "screen_name": f"user{ids[i] * 7 % 10**9:x}",
            "lang": str(lang[i]),
            "location": f"{draw.choice(places)} {draw.integers(300)}"
            if draw.random() < 0.28
            else "",
            "followers_count": str(int(draw.lognormal(5, 1.6))),
            "statuses_count": str(draw.integers(10_300)),
            "verified": str(bool(draw.random() < 0.02)).lower(),
            "geo_enabled": str(bool(draw.random() < 0.4)).lower(),
        }
        for i in range(rows)
    ]


def reddit_comments(rows: int = 6_000, seed: int = 5) -> list[dict[str, str]]:
    """Comments whose columns are all complete, texts or whole numbers."""
    draw = np.random.default_rng(seed)
    words = ("this", "is", "why", "we", "cannot", "have", "nice", "things", "lol", "source?")
    return [
        {
            "id": f"c{draw.integers(16**4):04x}{i:05x}",
            "created_utc": str(1430438400 + int(draw.integers(30 * 86400))),
            "subreddit": f"r{int(draw.zipf(1.4)) % 900}",
            "author": f"a{int(draw.zipf(1.3)) % 4_000}",
            "ups": str(1 + int(draw.zipf(2))),
            "downs": "0",
            "score": str(int(draw.normal(2, 20))),
            "edited": str(int(draw.random() < 0.03) * int(draw.integers(1, 10**9))),
            "controversiality": str(int(draw.random() < 0.05)),
            "text": " ".join(draw.choice(words, 6)) + f" {i}",
        }
        for i in range(rows)
    ]


def write_csv(rows: list[dict[str, str]], file: Path) -> None:
    """Write rows as CSV; an empty text is a missing value."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(frame: pd.DataFrame, file: Path) -> None:
    """Write a frame; in a column `nan`, NaN stays a number."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if "nan" in frame:
        values = pa.array([float(v) for v in frame["nan"]], type=pa.float64(), from_pandas=False)
        table = table.set_column(table.column_names.index("nan"), "nan", values)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file)
