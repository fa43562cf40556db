"""The corpus index: definitions 3 and 7, merging, replacement, storage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqsql.errors import PatternError
from dqsql.patterns.contributions import COUNTS, Backtest, IndexSettings
from dqsql.patterns.general import general_index, load_index, with_general
from dqsql.patterns.index import INDEX_SCHEMA, PatternIndex, summed
from dqsql.patterns.parsing import parse_pattern
from tests.patterns.indexes import Contribution, index_of, save_index
from tests.patterns.strategies import is_trivial, texts

ALL = IndexSettings(min_coverage=1)

# The column D on the right of Figure 6: hours with one and two digits, the last with PM.
FIGURE_6 = [
    *(f"9/{day}/2019 {hour}:0{hour}:20" for day, hour in ((10, 7), (11, 8))),
    *(f"9/{day}/2019 10:02:2{day - 12}" for day in range(12, 20)),
    *("9/12/2019 12:01:32 PM", "9/13/2019 12:01:33 PM"),
]


def contribution(*columns: list[str]) -> Contribution:
    total = Contribution.empty()
    for values in columns:
        total.add_column(values, ALL)
    return total


def test_impurity_of_figure_6() -> None:
    # Section 2.2, Example 4: 2 of 12 values do not match h1, 10 of 12 not the single-digit hour.
    settings = IndexSettings(tau=13, min_coverage=1)
    total = Contribution.empty()
    total.add_column(FIGURE_6, settings)
    index = index_of(total, settings)
    time = "<digit>{1}/<digit>{2}/<digit>{4} <digit>+:<digit>{2}:<digit>{2}"
    narrow = time.replace(" <digit>+:", " <digit>{1}:")
    fpr = index.lookup([time, narrow]).fpr
    assert fpr == pytest.approx([2 / 12, 10 / 12], abs=1e-6)


def test_rate_is_the_mean_impurity_of_matching_columns() -> None:
    total = contribution(["1", "2", "a"], ["1", "22"], ["a", "b"], ["10:20"])
    found = index_of(total, ALL).lookup(["<digit>{1}", "<digit>+", "<upper>+"])
    assert found.coverage.tolist() == [2, 2, 0]
    assert found.fpr[:2] == pytest.approx([(1 / 3 + 1 / 2) / 2, 1 / 6], abs=1e-6)
    assert np.isnan(found.fpr[2])


columns = st.lists(st.lists(texts(max_size=5), max_size=5), max_size=4)


def rows_of(*columns: list[str]) -> pa.Table:
    return index_of(contribution(*columns), ALL).table


def merged(one: pa.Table, other: pa.Table) -> pa.Table:
    return summed(pa.concat_tables([one, other])).sort_by("pattern")


@settings(deadline=None)
@given(columns, columns, columns)
def test_merging_is_associative_and_commutative_with_a_neutral_element(
    a: list[list[str]], b: list[list[str]], c: list[list[str]]
) -> None:
    x, y, z, none = (rows_of(*some) for some in (a, b, c, []))
    assert merged(x, y).equals(merged(y, x))
    assert merged(merged(x, y), z).equals(merged(x, merged(y, z)))
    assert merged(x, none).equals(x)
    assert merged(x, y).equals(rows_of(*a, *b))


def test_rare_patterns_of_a_large_corpus_are_not_served() -> None:
    settings = IndexSettings(min_coverage=2)
    total = Contribution.empty()
    for values in [["1"]] * 999 + [["a"]]:
        total.add_column(values, settings)
    index = index_of(total, settings)
    assert index.lookup(["<digit>+", "<lower>+"]).coverage.tolist() == [999, 0]


def test_a_small_corpus_is_served_whole() -> None:
    total = Contribution.empty()
    for values in (["1"], ["2"], ["a"]):
        total.add_column(values, IndexSettings())
    index = index_of(total)
    assert index.lookup(["<digit>+", "<lower>+"]).coverage.tolist() == [2, 1]


def test_a_lake_is_enlarged_by_the_shipped_index() -> None:
    lake = index_of(contribution(["1"], ["2"]), ALL)
    both = with_general(lake)
    assert both.columns == general_index().columns + 2
    known = general_index().lookup(["<digit>+"]).coverage[0]
    assert both.lookup(["<digit>+"]).coverage[0] == known + 2
    other = PatternIndex(INDEX_SCHEMA.empty_table(), columns=0, settings=IndexSettings(tau=4))
    assert with_general(other).columns == 0


def test_an_index_is_read_as_it_was_saved(tmp_path: Path) -> None:
    index = index_of(contribution(["a1", "b2"], ["\n", "\\<{+"], ["שלום", "\U0001f600"]), ALL)
    save_index(index, tmp_path / "i")
    read = load_index(tmp_path / "i")
    assert read.table.equals(index.table)
    assert (read.columns, read.settings) == (3, ALL)


def test_broken_indexes_are_errors(tmp_path: Path) -> None:
    with pytest.raises(PatternError, match="cannot be read"):
        load_index(tmp_path)
    (tmp_path / "index.json").write_text("{", encoding="utf-8")
    with pytest.raises(PatternError, match="cannot be read"):
        load_index(tmp_path)
    save_index(index_of(contribution(["1"]), ALL), tmp_path / "i")
    (tmp_path / "i" / "patterns.parquet").write_bytes(b"PAR1")
    with pytest.raises(PatternError, match="cannot be read"):
        load_index(tmp_path / "i")


@pytest.mark.parametrize(
    "wrong", [{"tau": 0}, {"max_values": 0}, {"min_coverage": 0}, {"min_share": 1.0}]
)
def test_impossible_settings_are_errors(wrong: dict[str, int]) -> None:
    with pytest.raises(PatternError):
        IndexSettings(**wrong)


def test_rehearsal_counts_an_alarm_where_the_rest_of_a_column_differs() -> None:
    trial = Backtest.of(["a"] * 20 + ["1"] * 180)
    letters = (1 << 20) - 1
    everything = (1 << 200) - 1
    names = COUNTS[2:]
    assert dict(zip(names, trial.outcome(letters), strict=True))["alarms_one"] == 1
    assert dict(zip(names, trial.outcome(everything), strict=True))["trials_one"] == 1
    assert dict(zip(names, trial.outcome(everything), strict=True))["alarms_one"] == 0
    assert set(trial.outcome(everything - letters)) == {0}
    assert set(Backtest.of(["a"] * 19).outcome(1)) == {0}


def test_head_shows_each_domain_once_by_its_most_specific_pattern() -> None:
    months = [f"Mar {day:02d} 2019" for day in range(1, 31)]
    index = index_of(contribution(months, months, ["7", "8"]), ALL)
    head = index.head(2)
    assert head[0].coverage == 2
    assert head[0].fpr == 0
    assert len({(p.coverage, p.fpr) for p in head}) == len(head)


def test_general_index_is_small_and_knows_common_domains() -> None:
    index = general_index()
    found = index.lookup(
        ["<digit>{4}-<digit>{2}-<digit>{2}", "<letter>{3} <digit>{2} <digit>{4}", "<num>"]
    )
    assert (found.coverage >= 20).all()
    assert all(not is_trivial(parse_pattern(p.pattern)) for p in index.head(20))


def test_lookup_of_nothing_and_in_an_empty_index() -> None:
    empty = index_of(Contribution.empty())
    assert len(empty) == 0
    assert empty.lookup(["<num>"]).coverage.tolist() == [0]
    assert len(general_index().lookup([]).coverage) == 0
    assert empty.head() == []
