"""Contact problems and machines that are built here, drawn at random, or recorded along walks.

Tests, `idcontrol.trust`, `idcontrol.bench` and experiments share them.
"""
