"""What a run tells while it works; the report layer turns it into lines, bars or JSON."""

from __future__ import annotations

from collections.abc import Mapping

from dqsql.model.results import ModelResult, RunResult


class RunListener:
    """Receives the progress of a run, and ignores it. What overrides a method must not raise."""

    def run_started(self, run_id: str, models: int, checks: int, target: str) -> None:
        """The project is compiled; work on the models begins."""

    def inputs_found(self, sizes: Mapping[str, int]) -> None:
        """Bytes of the files that each model will read; models of unknown size are left out."""

    def session_starting(self) -> None:
        """A Spark session is about to be started, which takes seconds."""

    def model_started(self, index: int, total: int, model: str) -> None:
        """Model number `index` (from 1) of `total` begins."""

    def model_step(self, model: str, step: str) -> None:
        """The model enters a step, for example 'scanning 120 batches'."""

    def tasks_done(self, done: int, total: int) -> None:
        """So many tasks are done of the stages that Spark is at.

        Told every few seconds, from a thread of its own.
        """

    def model_finished(self, index: int, total: int, result: ModelResult) -> None:
        """The model is done; its rows are stored, or wait to be, with those of other models.

        Told again with an error of the model should they not be stored in the end.
        """

    def run_finished(self, result: RunResult) -> None:
        """Everything is done."""
