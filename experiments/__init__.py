"""One file for each experiment: its presets, its run, and the checks of its results.

The command line finds experiments by the entry point group ``idcontrol.experiments``. To add one, write a module with
an object that has `name`, `summary`, `presets`, `run` and `rehearsals` (`idcontrol.config.entries.Experiment`), and
list the object in ``pyproject.toml``; `idcontrol.experiments.trot` is an example. A test case is a
`idcontrol.experiments.case.Case`: settings, a function that computes numbers and checks, and drawings. The table
``paper/EXPERIMENT.toml`` describes each number, with the paper's value and its location
(`idcontrol.experiments.findings`).
"""
