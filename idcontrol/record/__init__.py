"""The record of a run.

`recording` writes and reads the folder of a run, `log` the file that grows while the run lasts, and `channels` lays out
its rows. `scenery` describes the scene for the replay. `metrics` computes numbers from the arrays, and `quantities`
defines their labels and units.
"""
