"""The short version of the campaign, and inputs that once went wrong."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqsql.errors import DqsqlError
from tests.fuzz.campaign import HEAD, Tally, campaign, faults, feed, row
from tests.fuzz.targets import Refused, Workshop, targets

ALL = targets(Workshop())
# Targets and seeds of inputs that raised something else than an error of dqsql, or took too long.
# They depend on the seeds' texts and on the mutator: what they were is kept in tests of their own.
ONCE_WRONG: tuple[tuple[str, int], ...] = ()


def test_a_thousand_inputs() -> None:
    found = campaign(1000, first=1_000_000)
    lines = [HEAD, *(row(name, tally) for name, tally in found.items())]
    assert faults(found) == [], "\n".join(lines)
    assert sum(t.inputs for t in found.values()) > 900
    assert sum(t.accepted for t in found.values()) > 100


@pytest.mark.parametrize(("name", "seed"), ONCE_WRONG)
def test_what_once_went_wrong(name: str, seed: int) -> None:
    tally = Tally()
    feed(ALL[name], seed, tally)
    assert faults({name: tally}) == []


ANY_TEXT = st.text(max_size=200)
SQL_LIKE = st.lists(
    st.sampled_from(
        (
            *("select ", "a", ",", "(", ")", "--", "/*", "*/", "'", "`", "{{", "}}", "\n", " "),
            *("from t", "@mean", " > ", "1", "{", "}", "and ", "not ", "case ", "when ", "end "),
            *("::", "[", "]"),
        )
    ),
    max_size=60,
).map("".join)


@pytest.mark.parametrize(
    "name", ["scanner", "layout", "grammar", "comment", "vars", "yaml", "jinja", "pattern"]
)
@given(text=ANY_TEXT | SQL_LIKE)
@settings(max_examples=60)
def test_any_text(name: str, text: str) -> None:
    with suppress(DqsqlError, Refused):
        ALL[name].read(text)
