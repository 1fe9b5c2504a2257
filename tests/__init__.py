"""Tests of idcontrol."""

GUARD_S = 600.0
"""Longest wait in a test [s]. On an idle computer tests wait for seconds, on a busy computer much longer."""
