"""Stored states mean the same in whatever order the checks of a model stand."""

from __future__ import annotations

import random
import shutil

from .conftest import NewProject, Project

HEAD = "{{ config(batch_by='day') }}\nselect day, shop, x, price, k from {{ source('raw', 't') }}\n"
CHECKS = (
    "@expect(histogram(k) is not null) {scope: cumulative}",
    "@expect(histogram(shop) is not null) {scope: cumulative}",
    "@expect(frequency(max(n), shop) between 35 and 200) {scope: cumulative}",
    "@expect(frequency(count_if(n > 1), k) > 10) {scope: cumulative}",
    "@expect(sum(k) filter (where x > 1000) > 100) {scope: cumulative}",
    "@expect(sum(k) filter (where x < 1000) > 100) {scope: cumulative}",
    "@expect(max(shop) = 'c') {scope: cumulative}",
    "@expect(max(price) > 90) {scope: cumulative}",
    "@expect(percentile(x, 0.5) > 999)",
    "@expect(percentile(x, 0.9) > 1000)",
)
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")


def write(project: Project, checks: tuple[str, ...]) -> None:
    text = HEAD + "".join(f"-- {check}\n" for check in checks)
    (project.root / "checks/m.sql").write_text(text)


def verdicts(project: Project, *days: str) -> dict[str, tuple[str, float | None, str | None]]:
    (found,) = project.run(*days).models
    assert not any("earlier" in note for note in found.notes)
    return {r.check_id: (r.status.value, r.observed, r.observed_text) for r in found.results}


def test_checks_that_change_places_keep_their_states(new_project: NewProject) -> None:
    grown = new_project("grown")
    shuffled = list(CHECKS)
    random.Random(7).shuffle(shuffled)
    grown.put(*DAYS)
    write(grown, CHECKS)
    grown.run(DAYS[0], DAYS[1])
    fresh = Project(shutil.copytree(grown.root, grown.root.with_name("fresh")), grown.spark)
    write(grown, tuple(reversed(CHECKS)))
    grown.run(DAYS[1])
    write(grown, tuple(shuffled))
    found = verdicts(grown, DAYS[2])

    # One whose checks have never moved.
    assert found == verdicts(fresh, DAYS[2])
    assert {status for status, _, _ in found.values()} == {"pass"}
