"""Text from a file for messages: short, on one line, without terminal control characters."""

from __future__ import annotations

LONGEST_LINE = 500
"""Maximum number of characters in a message."""


def shown(text: str, most: int = 60) -> str:
    """Return `text` cut to `most` characters, with unprintable characters replaced."""
    cut = text if len(text) <= most else text[: most - 3] + "..."
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in cut)
