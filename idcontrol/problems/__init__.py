"""Contact problems and machines: built here, drawn at random, recorded along walks.

Tests, `idcontrol.trust`, `idcontrol.bench` and experiments share them.
"""
