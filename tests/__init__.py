"""Tests of idcontrol."""

GUARD_S = 600.0
"""After this time a test gives up waiting; on an idle computer it waits for seconds, on a busy one for many."""
