"""The league: public contact problems through every solver that is installed, and one judge for all of them.

`idcontrol.league.problems` has the problems and their file format, `idcontrol.league.judge` says whether an answer
solves one, `idcontrol.league.solvers` has the solvers. ``idcontrol league`` plays it (`idcontrol.experiments.league`).
"""
