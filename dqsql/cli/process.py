"""What the commands may know of the process they run in."""

from __future__ import annotations

ends_with_command = False
"""Whether nothing comes after the command, so that no memory need be given back."""
