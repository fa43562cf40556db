"""Details of stored verdicts: the dictionary that was stored, decoded late."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dqsql.engine.rows import StoredDetails

KEYS = st.sampled_from(["metrics", "clauses", "history", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES), KEYS)
def test_it_is_the_dictionary(stored: dict[str, Any], key: str) -> None:
    details = StoredDetails(json.dumps(stored, sort_keys=True))
    assert details.get(key) == stored.get(key)
    assert details.get(key, 7) == stored.get(key, 7)
    assert (key in details) == (key in stored)
    assert details == stored
    assert dict(details) == stored and len(details) == len(stored)
    assert repr(details) == repr(json.loads(json.dumps(stored, sort_keys=True)))


def test_what_cannot_be_there_decodes_nothing() -> None:
    assert StoredDetails("no JSON").get("clauses", ()) == ()
