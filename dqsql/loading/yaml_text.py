"""PyYAML's safe loader with limits: depth, and what merged keys may add up to."""

from __future__ import annotations

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

DEPTH = 50
MERGED_KEYS = 10_000


class LimitedLoader(yaml.SafeLoader):
    """Refuses deep nesting, which Python's stack would not hold, and bombs of merged keys."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one node and what is below it."""
        self._depth += 1
        try:
            if self._depth > DEPTH:
                event = self.peek_event()  # type: ignore[no-untyped-call]
                raise ComposerError(
                    problem=f"nested deeper than {DEPTH} levels", problem_mark=event.start_mark
                )
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put merged keys into a mapping."""
        super().flatten_mapping(node)
        if len(node.value) > MERGED_KEYS:
            raise ConstructorError(
                problem=f"a mapping with more than {MERGED_KEYS} merged keys",
                problem_mark=node.start_mark,
            )


def load_yaml(text: str) -> object:
    """The value of a short YAML text. Raises yaml.YAMLError; ValueError: a date or number."""
    return yaml.load(text, Loader=LimitedLoader)
