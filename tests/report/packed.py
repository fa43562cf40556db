"""What the report's page holds: JSON, compressed, in letters."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any


def unpacked(text: str) -> Any:
    """What `dqsql.report.html.packed` was given, of JSON's types."""
    return json.loads(gzip.decompress(base64.b64decode(text)))
