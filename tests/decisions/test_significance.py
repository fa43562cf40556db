"""Which of many decisions stand, against statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from dqsql.decisions.significance import discoveries, least_history
from dqsql.errors import DecisionError


def test_least_history() -> None:
    assert least_history(0.01) == 199
    assert least_history(0.01, two_sided=False) == 99
    for wrong in (0, 1, float("nan")):
        with pytest.raises(DecisionError, match="between 0 and 1"):
            least_history(wrong)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.sampled_from([True, False]))
def test_discoveries_are_those_of_statsmodels(p_values: list[float], dependent: bool) -> None:
    method = "fdr_by" if dependent else "fdr_bh"
    wanted = multipletests(p_values, alpha=0.1, method=method)[0]
    assert discoveries(p_values, 0.1, dependent).tolist() == wanted.tolist()


def test_decisions_without_a_p_value_never_stand() -> None:
    found = discoveries([np.nan, 1e-9, np.nan, 0.9], 0.05)
    assert found.tolist() == [False, True, False, False]
    assert not discoveries([np.nan], 0.05).any()
    assert discoveries([], 0.05).size == 0
