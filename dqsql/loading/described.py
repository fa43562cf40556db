"""The names of all settings, and what each of them means: the page of settings is made of it."""

from __future__ import annotations

from collections.abc import Mapping

from dqsql.loading import config, profiles, settings
from dqsql.loading.documents import read_document
from dqsql.resources import resource_dir

_FILE = "settings.yml"


def described_settings() -> Mapping[str, Mapping[str, str]]:
    """What each setting means, by place: `check`, `model`, `project`, `profile`."""
    found = read_document(resource_dir("templates") / "reference" / _FILE, _FILE)
    return found.data


def names_in_code() -> Mapping[str, frozenset[str]]:
    """The settings that the readers know, by place; those of monitors are left out."""
    monitors = settings.configurable_monitors()
    return {
        "check": settings.check_words(),
        "model": settings.model_words() - monitors,
        "project": config.known_keys() - monitors,
        "profile": profiles.OWN_KEYS | {"type", "dqsql"},
    }
