"""Table 3 of Schelter et al., VLDB 2018: what is suggested from a tenth of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dqsql.runner.compilation import Where
from dqsql.runner.suggest import suggest
from dqsql.suggestions.proposal import Proposal
from dqsql.suggestions.suggestion import Suggestion, SuggestionVerdict
from tests.conftest import MakeProject
from tests.suggestions.generators import reddit_comments, twitter_users, write_csv

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = """\
sources:
  - name: social
    tables:
      - name: twitter_users
        path: data/twitter_users.csv
        format: csv
        options: {inferSchema: "false", escape: '"'}
      - name: reddit_comments
        path: data/reddit_comments.csv
        format: csv
        options: {inferSchema: "false"}
"""


def of(proposal: Proposal, column: str, rule: str) -> Suggestion:
    found = [s for s in proposal.suggestions if (s.column, s.rule) == (column, rule)]
    assert found, f"no {rule} for {column}"
    return found[0]


def rules(proposal: Proposal, column: str) -> set[str]:
    return {
        s.rule
        for s in proposal.suggestions
        if s.column == column and s.verdict is SuggestionVerdict.SUGGESTED
    }


@pytest.fixture
def social(make_project: MakeProject) -> Where:
    root = make_project({"checks/sources.yml": SOURCES})
    write_csv(twitter_users(), root / "data/twitter_users.csv")
    write_csv(reddit_comments(), root / "data/reddit_comments.csv")
    return Where(root)


def test_twitter_users(social: Where, spark: SparkSession) -> None:
    proposal = suggest(social, "social.twitter_users", sample=0.1, spark=spark)
    assert proposal.rows == 5_180
    assert 400 < proposal.learned < 650
    for column in ("id", "screen_name", "lang", "followers_count", "statuses_count", "verified"):
        found = of(proposal, column, "CompleteIfComplete")
        assert (found.verdict, found.measured) == (SuggestionVerdict.SUGGESTED, 1.0)
    for column in ("id", "followers_count", "statuses_count"):
        assert {"RetainType", "NonNegativeNumbers"} <= rules(proposal, column)
    for column in ("verified", "geo_enabled"):
        assert of(proposal, column, "RetainType").reason == "all values read as boolean"

    unique = of(proposal, "id", "UniqueIfApproximatelyUnique")
    assert (unique.verdict, unique.measured) == (SuggestionVerdict.SUGGESTED, 1.0)
    assert unique.score is not None and unique.score > 0.5

    # Looks unique in the sample, is not; its name gives it away.
    count = of(proposal, "statuses_count", "UniqueIfApproximatelyUnique")
    assert count.verdict is SuggestionVerdict.REFUSED and "name" in count.reason
    assert count.score is not None and count.score < 0.1
    assert count.measured == pytest.approx(0.636, abs=0.05)
    # The paper's classifier has this false negative too.
    name = of(proposal, "screen_name", "UniqueIfApproximatelyUnique")
    assert (name.verdict, name.measured) == (SuggestionVerdict.REFUSED, 1.0)

    location = of(proposal, "location", "RetainCompleteness")
    assert location.verdict is SuggestionVerdict.SUGGESTED and location.envelope is not None
    assert 0.2 < (location.envelope.lower or 0) < 0.28

    languages = of(proposal, "lang", "CategoricalRange")
    assert languages.verdict is SuggestionVerdict.REFUSED
    assert languages.measured is not None and 0.98 < languages.measured < 1
    assert "FractionalCategoricalRange" in rules(proposal, "lang")


def test_reddit_comments(social: Where, spark: SparkSession) -> None:
    proposal = suggest(social, "social.reddit_comments", sample=0.1, spark=spark)
    for column in proposal.subject.types:
        found = of(proposal, column, "CompleteIfComplete")
        assert (found.verdict, found.measured) == (SuggestionVerdict.SUGGESTED, 1.0)
    for column in ("created_utc", "ups", "downs", "edited", "controversiality"):
        for rule in ("RetainType", "NonNegativeNumbers"):
            found = of(proposal, column, rule)
            assert (found.verdict, found.measured) == (SuggestionVerdict.SUGGESTED, 1.0)
    assert "RetainType" in rules(proposal, "score")
    assert "NonNegativeNumbers" not in rules(proposal, "score")
    unique = of(proposal, "id", "UniqueIfApproximatelyUnique")
    assert (unique.verdict, unique.measured) == (SuggestionVerdict.SUGGESTED, 1.0)
    text = of(proposal, "text", "UniqueIfApproximatelyUnique")
    assert text.verdict is SuggestionVerdict.REFUSED
    both = of(proposal, "controversiality", "CategoricalRange")
    assert both.expression(inside=True) == "accepted_values('0', '1')"
    assert both.measured == 1.0
