"""What several commands print as JSON, one object a line."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from pynacount.keys import ItemKey


def key_record(key: ItemKey) -> dict[str, Any]:
    """A key without its types, which the model's declaration tells; numbers are text."""
    return {name: value for name, (_, value) in zip(key.names, key.values, strict=True)}


def json_line(record: Mapping[str, Any]) -> str:
    """The object in one line: bytes in base64; a Decimal and a moment as text."""
    return json.dumps(record, default=_text)


def _text(value: Any) -> str:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)
