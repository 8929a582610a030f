"""How values are served: as JSON, one on a line."""

import json


def json_line(value: object) -> bytes:
    """A value as JSON in UTF-8, and a newline."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
