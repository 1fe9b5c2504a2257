"""Contact problems and machines: built in code, drawn at random, or recorded along walks.

Tests, `idcontrol.bench` and experiments share them.
"""
