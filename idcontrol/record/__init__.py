"""The record of a run: its folder (`recording`), the log that grows while it lasts (`log`), metrics and their table."""
