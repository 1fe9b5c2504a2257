"""Words from a file, as a message may show them: short, on one line, nothing that a terminal would obey."""

from __future__ import annotations

LONGEST_LINE = 500
"""Letters of a whole message."""


def shown(text: str, most: int = 60) -> str:
    """`text` cut to `most` characters, those that cannot be printed replaced."""
    cut = text if len(text) <= most else text[: most - 3] + "..."
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in cut)
