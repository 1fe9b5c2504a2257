"""The league: every installed solver on public contact problems, and one judge for all of them.

`problems` has the problems and their file format, `idcontrol.bench.judge` decides if an answer solves a problem,
`solvers` has the solvers. ``idcontrol league`` runs the league (`idcontrol.experiments.league`).
"""
