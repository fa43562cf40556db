"""Suggestions written into an annotated model of a dbt project: comments only, and once."""

from __future__ import annotations

import codecs
from pathlib import Path

from dqsql.monitors.subjects import Subject
from dqsql.runner.compilation import Where
from dqsql.suggestions.existing import Existing
from dqsql.suggestions.files import write
from dqsql.suggestions.profiles import Profile
from dqsql.suggestions.proposal import Proposal
from dqsql.suggestions.suggestion import Suggestion, SuggestionVerdict

DBT = Path(__file__).parents[1] / "loading" / "dbt"
ORDERS = "models/marts/orders.sql"
FOUND = (
    Suggestion("Complete", "completeness", "order_id", "not_null", "complete"),
    Suggestion("HasMin", "lower", "customer_id", "min", "smallest", comparison=">= 1"),
    Suggestion("Complete", "completeness", "status", "not_null", "{{ complete }}"),
    Suggestion(
        "Values", "values", "channel", "accepted_values", "two", arguments=("'web'", "'shop'")
    ),
    Suggestion("Type", "schema", None, "schema", "types", takes_column=False),
)


def proposed(where: Where) -> Proposal:
    """What `dqsql suggest orders` would hand over, with the model's annotations as they are."""
    model = next(m for m in where.project().models if m.name == "orders")
    types = {p.name: "string" for p in model.projections if p.name is not None}
    subject = Subject("orders", "orders", types, "", model=model)
    marked = tuple(Existing.from_annotations(model.annotations).marked(FOUND))
    return Proposal(subject, Profile("orders", 1_000, ()), 1_000, 100, 900, 0, marked)


def test_an_annotated_dbt_model(shop: Path) -> None:
    where = Where(shop)
    before = (shop / ORDERS).read_text(encoding="utf-8")
    proposal = proposed(where)
    stand = [s.column for s in proposal.suggestions if s.verdict is SuggestionVerdict.EXISTS]
    assert stand == ["order_id", "customer_id"]

    made = write(where.project, proposal, proposal.new)
    text = (shop / ORDERS).read_text(encoding="utf-8")
    assert (made.path, made.before, made.after) == (ORDERS, before, text)
    changed = [x for x in made.diff.splitlines() if x[0] in "+-" and x[:3] not in ("+++", "---")]
    assert len(changed) == 3
    assert all(x[0] == "+" and x[1:].lstrip().startswith("-- ") for x in changed)
    # Without its new lines the file is what it was, Jinja, commas and comments.
    new = {x[1:] for x in changed}
    assert "".join(x for x in text.splitlines(True) if x.rstrip("\n") not in new) == before
    place = text.splitlines().index("    -- (( complete )): @not_null")
    assert "as status," in text.splitlines()[place + 1]
    assert "@accepted_values('web', 'shop')" in text

    again = proposed(where)
    assert again.new == ()
    assert not write(where.project, again, again.new).changed
    assert (shop / ORDERS).read_text(encoding="utf-8") == text


def test_a_byte_order_mark_and_line_ends_stay(shop: Path) -> None:
    where, file = Where(shop), shop / ORDERS
    file.write_bytes(codecs.BOM_UTF8 + file.read_bytes().replace(b"\n", b"\r\n"))
    proposal = proposed(where)
    assert write(where.project, proposal, proposal.new).changed
    written = file.read_bytes()
    assert written.startswith(codecs.BOM_UTF8) and written.count(codecs.BOM_UTF8) == 1
    assert b"@accepted_values('web', 'shop')" in written
    assert written.count(b"\n") == written.count(b"\r\n") > 0
