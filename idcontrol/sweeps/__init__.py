"""Sweeps: many runs of an experiment with different settings, and a table of the results.

A sweep is plain data: a list of `plan.PlannedRun`, called its rows. `execute` runs each row as ``idcontrol run`` in its
own process, locally or on a Dask cluster; each process leaves a run folder. `record` reads the folders and writes the
tables, and `comparison` combines these steps. A `study` is a named sweep with conclusions.

On disk::

    comparison.json      format, schema, experiment, study, command, versions, rows  written when the sweep begins
    runs/NAME            the folder of a finished run (`idcontrol.record.recording`)
    runs/NAME.failed     remains of a failed run, and ``reason.txt``
    rows.json            settings and metrics of every row                            written when the sweep ends
    table.csv            the same as one table
    tables.json, *.csv   tables of the study

NAME is derived from the row's settings, so a second call with the same folder continues an interrupted sweep: finished
runs are kept, failed runs are repeated.
"""
