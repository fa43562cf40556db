"""The corpus index: for each pattern the columns that it matches and how impure they are.

Auto-Validate, section 2.4. A column D contributes to every pattern p of its values one column and
its impurity, Imp_D(p) = share of rows of D that p does not match (Definition 3); so that

    Cov_T(p) = number of columns with at least one match
    FPR_T(p) = sum of Imp_D(p) over those columns / Cov_T(p)         (Definition 7)

Both are sums, kept for each table, so that contributions can be added, replaced and merged in any
order. Impurity is counted in whole millionths, so that merging is exact and not subject to the
order of floating-point additions.

On disk an index is a folder:

    index.json        format, settings, totals
    patterns.parquet  pattern, coverage, impurity; sorted by pattern, without patterns of so few
                      columns that no inference may use them; this alone is read for look-ups
    contributions/    one Parquet file per bucket of tables: table, pattern, coverage, impurity;
                      read only to add or replace tables
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dqsql.errors import PatternError
from dqsql.patterns.generation import column_sample, pattern_masks
from dqsql.patterns.language import parse_pattern
from dqsql.patterns.validate import alarm_threshold

FORMAT_VERSION = 1
IMPURITY_SCALE = 1_000_000
BUCKETS = 32

#: The rehearsal on columns of the corpus, see `Backtest`.
MIN_TRAINING_ROWS = 10
TRAINING_SHARE = 0.9
FEW_DISTINCT = 3
_JUDGED_ROWS = 100
_PRIOR_ALARMS, _PRIOR_TRIALS = 0.5, 5.0

#: What is summed for each pattern, in this order wherever counts are kept as a list.
COUNTS = (
    "coverage",
    "impurity",
    "trials_one",
    "alarms_one",
    "trials_few",
    "alarms_few",
    "trials_many",
    "alarms_many",
)

_SERVED_SCHEMA = pa.schema([("pattern", pa.string()), *((name, pa.int64()) for name in COUNTS)])
CONTRIBUTION_SCHEMA = pa.schema([("table", pa.string()), *_SERVED_SCHEMA])


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How columns are turned into patterns. Fixed for the life of an index.

    Attributes:
        tau: values of more tokens are left out; at least 1.
        max_values: rows sampled from a column; at least 1.
        min_share: patterns that match a smaller share of a column's rows are left out, in [0, 1).
        min_coverage: patterns of fewer columns are left out of the served part; at least 1.
    """

    tau: int = 8
    max_values: int = 1_000
    min_share: float = 0.01
    min_coverage: int = 3

    def __post_init__(self) -> None:
        if self.tau < 1 or self.max_values < 1 or self.min_coverage < 1:
            raise PatternError("tau, max_values and min_coverage must be at least 1")
        if not 0 <= self.min_share < 1:
            raise PatternError(f"min_share {self.min_share} is not in [0, 1)")


@dataclass(slots=True)
class Contribution:
    """What columns contribute: for each pattern the sums named in `COUNTS`.

    Attributes:
        columns: number of columns, those without any pattern included.
        value_bytes: UTF-8 bytes of the sampled values.
        patterns: pattern -> sums, in the order of `COUNTS`.
    """

    columns: int
    value_bytes: int
    patterns: dict[str, list[int]]

    @classmethod
    def empty(cls) -> Contribution:
        """Return the neutral element of merging."""
        return cls(0, 0, {})

    def add_column(self, values: Iterable[str | None], settings: IndexSettings) -> None:
        """Add one column's values; beyond `max_values` they are ignored."""
        kept = [value for value in values if value is not None][: settings.max_values]
        self.columns += 1
        self.value_bytes += sum(map(len, kept))
        for pattern, counts in column_patterns(kept, settings).items():
            _add(self.patterns, pattern, counts)

    def merged(self, other: Contribution) -> Contribution:
        """Return the contribution of both sets of columns together."""
        patterns = {pattern: entry.copy() for pattern, entry in self.patterns.items()}
        for pattern, counts in other.patterns.items():
            _add(patterns, pattern, counts)
        return Contribution(
            self.columns + other.columns, self.value_bytes + other.value_bytes, patterns
        )


def _add(patterns: dict[str, list[int]], pattern: str, counts: Sequence[int]) -> None:
    entry = patterns.get(pattern)
    if entry is None:
        patterns[pattern] = list(counts)
    else:
        for position, count in enumerate(counts):
            entry[position] += count


def column_patterns(values: Sequence[str], settings: IndexSettings) -> dict[str, tuple[int, ...]]:
    """Return what one column contributes to each of its patterns, in the order of `COUNTS`."""
    sample = column_sample(values)
    if not sample.rows:
        return {}
    min_rows = max(1, int(settings.min_share * sample.rows))
    masks = pattern_masks(sample, tau=settings.tau, min_rows=min_rows)
    scale = IMPURITY_SCALE / sample.rows
    trial = Backtest.of(values)
    return {
        pattern: (1, round((sample.rows - mask.bit_count()) * scale), *trial.outcome(mask))
        for pattern, mask in masks.items()
    }


@dataclass(frozen=True, slots=True)
class Backtest:
    """A rehearsal on a column of the corpus: learn from its first tenth, test on the rest.

    Attributes:
        rows: rows of the column.
        train: rows of the first part, 0 where the column is too short to be cut in two.
        stratum: of the first part, see `stratum_of`.
    """

    rows: int
    train: int
    stratum: int

    @classmethod
    def of(cls, values: Sequence[str]) -> Backtest:
        """Return the rehearsal on the column's values, in their order."""
        train = max(MIN_TRAINING_ROWS, len(values) // 10)
        if len(values) < 2 * train:
            return cls(len(values), 0, 0)
        return cls(len(values), train, stratum_of(len(set(values[:train]))))

    def outcome(self, mask: int) -> tuple[int, ...]:
        """Return trials and alarms by stratum for one pattern: `COUNTS` from the third on.

        A pattern is on trial where it matches nine tenths of the first part; an alarm is what
        `validate` would have raised on the rest. All rest is good data, so each alarm is false.
        """
        if not self.train:
            return _NO_TRIAL
        first = (mask & ((1 << self.train) - 1)).bit_count()
        if first < TRAINING_SHARE * self.train:
            return _NO_TRIAL
        rest = self.rows - self.train
        nonconforming = rest - (mask.bit_count() - first)
        # Ten training rows give the test no power: judge as if there had been a hundred.
        scale = max(1.0, _JUDGED_ROWS / self.train)
        alarm = nonconforming > 0 and nonconforming >= alarm_threshold(
            round((self.train - first) * scale), round(self.train * scale), rest
        )
        counts = [0] * len(_NO_TRIAL)
        counts[2 * self.stratum : 2 * self.stratum + 2] = (1, int(alarm))
        return tuple(counts)


_NO_TRIAL = (0,) * (len(COUNTS) - 2)


def stratum_of(distinct: int) -> int:
    """Return 0, 1 or 2 for one, few or many distinct values in training.

    A hundred equal values say less about what will come than a hundred different ones, so
    rehearsals are counted by it.
    """
    return 0 if distinct <= 1 else 1 if distinct <= FEW_DISTINCT else 2


@dataclass(frozen=True, slots=True)
class PatternStatistics:
    """One pattern of an index: coverage in columns, and FPR in [0, 1]."""

    pattern: str
    coverage: int
    fpr: float


@dataclass(frozen=True, slots=True)
class SizeReport:
    """What an index holds and weighs.

    Attributes:
        served_bytes, contribution_bytes: file sizes.
        corpus_bytes: UTF-8 bytes of the sampled values that were read.
    """

    tables: int
    columns: int
    patterns: int
    served_bytes: int
    contribution_bytes: int
    corpus_bytes: int


class PatternIndex:
    """The served part of an index: look-ups of coverage and FPR by pattern.

    Attributes:
        settings: how the index was built; inference must generate patterns the same way.
        columns: number of columns in the corpus.
    """

    def __init__(
        self,
        patterns: pa.Array | Sequence[str],
        counts: npt.ArrayLike,
        *,
        columns: int,
        settings: IndexSettings | None = None,
    ) -> None:
        """Make an index of patterns and their sums, shape (len(patterns), len(COUNTS))."""
        self._patterns = (
            patterns if isinstance(patterns, pa.Array) else pa.array(patterns, pa.string())
        )
        self.settings = settings or IndexSettings()
        self.columns = columns
        self._counts = np.asarray(counts, dtype=np.int64).reshape(-1, len(COUNTS))
        hashes = _hashes(self._patterns)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def __len__(self) -> int:
        return len(self._counts)

    @classmethod
    def from_contribution(
        cls, contribution: Contribution, settings: IndexSettings | None = None
    ) -> PatternIndex:
        """Return the index of columns held in memory."""
        settings = settings or IndexSettings()
        rows = sorted(
            (pattern, *entry)
            for pattern, entry in contribution.patterns.items()
            if entry[0] >= settings.min_coverage
        )
        return cls(
            [row[0] for row in rows],
            np.array([row[1:] for row in rows], dtype=np.int64),
            columns=contribution.columns,
            settings=settings,
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> PatternIndex:
        """Read the served part of an index folder.

        Raises:
            PatternError: there is no index, or one of another format.
        """
        path = Path(folder)
        meta = read_meta(path)
        table = pq.read_table(path / "patterns.parquet", schema=_SERVED_SCHEMA)
        return cls(
            table["pattern"].combine_chunks(),
            np.column_stack([table[name].to_numpy() for name in COUNTS]),
            columns=meta.columns,
            settings=meta.settings,
        )

    def merged(self, other: PatternIndex) -> PatternIndex:
        """Return the index of both corpora together, for example the lake's and the shipped one.

        Exact up to patterns that are left out of a served part for their small coverage.

        Raises:
            PatternError: the indexes were built with different tau.
        """
        if self.settings.tau != other.settings.tau:
            raise PatternError(
                f"indexes with tau {self.settings.tau} and {other.settings.tau} cannot be merged"
            )
        rows = pa.concat_tables([self._table(), other._table()])
        total = _summed(rows).sort_by("pattern")
        return PatternIndex(
            total["pattern"].combine_chunks(),
            np.column_stack([total[name].to_numpy() for name in COUNTS]),
            columns=self.columns + other.columns,
            settings=self.settings,
        )

    def _table(self) -> pa.Table:
        columns = {name: self._counts[:, position] for position, name in enumerate(COUNTS)}
        return pa.table({"pattern": self._patterns, **columns}, schema=_SERVED_SCHEMA)

    def lookup(self, patterns: Sequence[str]) -> Evidence:
        """Return what the corpus says of each pattern, in one batch; zeros for unknown ones."""
        counts = np.zeros((len(patterns), len(COUNTS)), dtype=np.int64)
        if len(self) and len(patterns):
            wanted = _hashes(pa.array(patterns, pa.string()))
            place = np.minimum(np.searchsorted(self._hashes, wanted), len(self) - 1)
            found = self._hashes[place] == wanted
            counts[found] = self._counts[self._order[place[found]]]
        return Evidence(counts)

    def head(self, limit: int = 50, *, max_fpr: float = 0.1) -> list[PatternStatistics]:
        """Return the common domains: patterns of largest coverage with FPR <= max_fpr.

        Of patterns with the same coverage and FPR, which match the same columns as a rule, only
        the most specific is shown.
        """
        evidence = Evidence(self._counts)
        rows = np.flatnonzero(evidence.fpr <= max_fpr)
        rows = rows[np.argsort(-evidence.coverage[rows], kind="stable")]
        best: dict[tuple[int, int], tuple[int, str]] = {}
        for row in rows:
            key = (int(self._counts[row, 0]), int(self._counts[row, 1]))
            if key not in best and len(best) == limit:
                break
            text = self._patterns[int(row)].as_py()
            rank = (parse_pattern(text).generality, text)
            best[key] = min(best.get(key, rank), rank)
        return [
            PatternStatistics(text, coverage, impurity / (IMPURITY_SCALE * coverage))
            for (coverage, impurity), (_, text) in best.items()
        ]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a corpus says of a batch of patterns.

    Attributes:
        counts: sums, shape (patterns, len(COUNTS)).
    """

    counts: npt.NDArray[np.int64]

    @property
    def coverage(self) -> npt.NDArray[np.int64]:
        """Cov_T: columns with at least one match, shape (patterns,)."""
        return self.counts[:, 0]

    @property
    def fpr(self) -> npt.NDArray[np.float64]:
        """FPR_T: mean impurity over those columns, in [0, 1], NaN for unknown patterns."""
        coverage = np.where(self.coverage > 0, self.coverage, np.nan)
        rate: npt.NDArray[np.float64] = self.counts[:, 1] / (IMPURITY_SCALE * coverage)
        return rate

    def false_alarm_rate(self, stratum: int) -> npt.NDArray[np.float64]:
        """Share of rehearsals that ended in a false alarm, in (0, 1), shape (patterns,).

        Only rehearsals of the given stratum (see `stratum_of`) count. The share is the mean of the
        posterior under the prior Beta(1/2, 9/2), so that a pattern without rehearsals is at 10 %.
        """
        first = COUNTS.index("trials_one") + 2 * stratum
        trials, alarms = self.counts[:, first], self.counts[:, first + 1]
        rate: npt.NDArray[np.float64] = (alarms + _PRIOR_ALARMS) / (trials + _PRIOR_TRIALS)
        return rate


_WEIGHTS = np.random.default_rng(20_210_620).integers(
    1, 2**64 - 1, size=4_096, dtype=np.uint64, endpoint=True
) | np.uint64(1)


def _hashes(patterns: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each string: its bytes weighted by random numbers, summed."""
    hashes = np.zeros(len(patterns), dtype=np.uint64)
    step = 65_536
    for start in range(0, len(patterns), step):
        chunk = pa.concat_arrays([patterns.slice(start, step)]).cast(pa.large_binary())
        buffers = chunk.buffers()
        offsets = np.frombuffer(buffers[1], dtype=np.int64, count=len(chunk) + chunk.offset + 1)
        offsets = offsets[chunk.offset :]
        if buffers[2] is None:
            continue
        data = np.frombuffer(buffers[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
        lengths = np.diff(offsets)
        positions = np.arange(len(data)) - np.repeat(offsets[:-1] - offsets[0], lengths)
        products = (data.astype(np.uint64) + np.uint64(1)) * _WEIGHTS[positions % len(_WEIGHTS)]
        sums = np.concatenate([[np.uint64(0)], np.cumsum(products, dtype=np.uint64)])
        hashes[start : start + len(chunk)] = (
            sums[offsets[1:] - offsets[0]] - sums[offsets[:-1] - offsets[0]]
        )
    return hashes


@dataclass(frozen=True, slots=True)
class IndexMeta:
    """The content of `index.json`: settings, and tables with their [columns, bytes of values]."""

    settings: IndexSettings
    tables: dict[str, tuple[int, int]]

    @property
    def columns(self) -> int:
        """Number of columns of all tables."""
        return sum(columns for columns, _ in self.tables.values())


def read_meta(folder: Path) -> IndexMeta:
    """Read `index.json`.

    Raises:
        PatternError: there is no index, it is damaged, or it has another format.
    """
    try:
        content = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        if content["format"] != FORMAT_VERSION:
            raise PatternError(
                f"pattern index {folder} has format {content['format']}, not {FORMAT_VERSION}",
                hint="build it again with `dqsql index build`",
            )
        tables = {name: (int(c), int(b)) for name, (c, b) in content["tables"].items()}
        return IndexMeta(IndexSettings(**content["settings"]), tables)
    except FileNotFoundError as error:
        raise PatternError(
            f"no pattern index in {folder}", hint="build one with `dqsql index build`"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise PatternError(f"{folder / 'index.json'} is damaged: {error}") from error


def write_meta(folder: Path, meta: IndexMeta) -> None:
    """Write `index.json` in one step."""
    content = {
        "format": FORMAT_VERSION,
        "settings": asdict(meta.settings),
        "tables": meta.tables,
    }
    temporary = folder / "index.json.tmp"
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(folder / "index.json")


def bucket_of(table: str) -> int:
    """Return the bucket, in [0, BUCKETS), in which a table's contribution is kept."""
    return zlib.crc32(table.encode("utf-8", "surrogatepass")) % BUCKETS


def contribution_rows(table: str, contribution: Contribution) -> pa.Table:
    """Return a table's contribution as rows of `CONTRIBUTION_SCHEMA`, sorted by pattern."""
    patterns = sorted(contribution.patterns)
    return pa.table(
        {
            "table": [table] * len(patterns),
            "pattern": patterns,
            **{
                name: [contribution.patterns[p][position] for p in patterns]
                for position, name in enumerate(COUNTS)
            },
        },
        schema=CONTRIBUTION_SCHEMA,
    )


def update_index(
    folder: str | os.PathLike[str],
    contributions: Mapping[str, Contribution],
    settings: IndexSettings | None = None,
    *,
    remove: Iterable[str] = (),
) -> SizeReport:
    """Add tables to an index, replacing the contribution of those already in it.

    The folder is made when there is none; then `settings` may be given. The corpus is not read.

    Raises:
        PatternError: the folder holds an index of other settings.
    """
    rows = {name: contribution_rows(name, c) for name, c in contributions.items()}
    totals = {name: (c.columns, c.value_bytes) for name, c in contributions.items()}
    return replace_tables(folder, rows, totals, settings, remove=remove)


def replace_tables(
    folder: str | os.PathLike[str],
    rows: Mapping[str, pa.Table],
    totals: Mapping[str, tuple[int, int]],
    settings: IndexSettings | None = None,
    *,
    remove: Iterable[str] = (),
    serve: bool = True,
) -> SizeReport:
    """As `update_index`, for contributions that are rows of `CONTRIBUTION_SCHEMA` already.

    With `serve` false the served part is left as it is, for callers that add tables in several
    steps; the last step has to fold them.
    """
    path = Path(folder)
    parts = path / "contributions"
    parts.mkdir(parents=True, exist_ok=True)
    if (path / "index.json").exists():
        meta = read_meta(path)
        if settings is not None and settings != meta.settings:
            raise PatternError(
                f"pattern index {path} was built with {meta.settings}",
                hint="use the same settings, or build a new index",
            )
    else:
        meta = IndexMeta(settings or IndexSettings(), {})
    gone = set(remove) | set(totals)
    for bucket in sorted({bucket_of(name) for name in gone}):
        file = parts / f"bucket-{bucket:02d}.parquet"
        kept = pq.read_table(file).cast(CONTRIBUTION_SCHEMA) if file.exists() else None
        pieces = [] if kept is None else [_without(kept, gone)]
        pieces += [table for name, table in rows.items() if bucket_of(name) == bucket]
        _write(pa.concat_tables(pieces) if pieces else CONTRIBUTION_SCHEMA.empty_table(), file)
    tables = {name: total for name, total in meta.tables.items() if name not in gone}
    meta = replace(meta, tables={**tables, **totals})
    if serve or not (path / "patterns.parquet").exists():
        _serve(path, meta.settings)
    write_meta(path, meta)
    return size_report(path)


def _without(rows: pa.Table, tables: set[str]) -> pa.Table:
    import pyarrow.compute as pc

    return rows.filter(pc.invert(pc.is_in(rows["table"], pa.array(sorted(tables), pa.string()))))


def _serve(folder: Path, settings: IndexSettings) -> None:
    """Fold the contributions of all tables to the served part.

    Bucket by bucket; what is held in memory are the distinct patterns, not the contributions.
    """
    total: pa.Table = _SERVED_SCHEMA.empty_table()
    for file in sorted((folder / "contributions").glob("bucket-*.parquet")):
        rows = pq.read_table(file, columns=["pattern", *COUNTS])
        total = _summed(pa.concat_tables([total, rows.cast(_SERVED_SCHEMA)]))
    import pyarrow.compute as pc

    served = total.filter(pc.greater_equal(total["coverage"], settings.min_coverage))
    _write(served.sort_by("pattern"), folder / "patterns.parquet")


def _summed(rows: pa.Table) -> pa.Table:
    grouped = rows.group_by("pattern").aggregate([(name, "sum") for name in COUNTS])
    grouped = grouped.select(["pattern", *(f"{name}_sum" for name in COUNTS)])
    return grouped.rename_columns(_SERVED_SCHEMA.names).cast(_SERVED_SCHEMA)


def _write(rows: pa.Table, file: Path) -> None:
    temporary = file.with_suffix(".tmp")
    pq.write_table(
        rows,
        temporary,
        compression="zstd",
        compression_level=9,
        use_dictionary=["table"] if "table" in rows.column_names else False,
        column_encoding={
            "pattern": "DELTA_BYTE_ARRAY",
            **dict.fromkeys(COUNTS, "DELTA_BINARY_PACKED"),
        },
    )
    temporary.replace(file)


def tables_with(folder: str | os.PathLike[str], pattern: str) -> dict[str, int]:
    """Return the tables of an index in which columns match a pattern, with how many columns do.

    Reads the contributions, not the corpus.
    """
    read_meta(Path(folder))
    found: dict[str, int] = {}
    for file in sorted((Path(folder) / "contributions").glob("bucket-*.parquet")):
        rows = pq.read_table(
            file, columns=["table", "coverage"], filters=[("pattern", "=", pattern)]
        )
        for table, columns in zip(
            rows["table"].to_pylist(), rows["coverage"].to_pylist(), strict=True
        ):
            found[table] = found.get(table, 0) + columns
    return found


def size_report(folder: str | os.PathLike[str]) -> SizeReport:
    """Return what an index folder holds and weighs."""
    path = Path(folder)
    meta = read_meta(path)
    parts = (path / "contributions").glob("bucket-*.parquet")
    return SizeReport(
        tables=len(meta.tables),
        columns=meta.columns,
        patterns=pq.read_metadata(path / "patterns.parquet").num_rows,
        served_bytes=(path / "patterns.parquet").stat().st_size,
        contribution_bytes=sum(file.stat().st_size for file in parts),
        corpus_bytes=sum(size for _, size in meta.tables.values()),
    )
