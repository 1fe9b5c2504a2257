"""The league: public contact problems through every solver that is installed, and one judge for all of them.

`problems` has the problems and their file format, `judge` says whether an answer solves one, `solvers` has the solvers.
``idcontrol league`` plays it (`idcontrol.experiments.league`).
"""
