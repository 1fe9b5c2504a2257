"""Sweeps: many runs of an experiment with different settings, and a table of the results.

A sweep is plain data, a list of `plan.PlannedRun`. `execute` makes each run as ``idcontrol run`` in its own process,
here or on a Dask cluster, which leaves a run folder; `record` reads the folders and writes the tables. `comparison`
does all of this. A `study` is a named sweep with conclusions.

On disk::

    comparison.json      format, schema, experiment, study, the rows, versions       written when the sweep begins
    runs/NAME            the folder of a run that came to its end: that row is done  (`idcontrol.record.recording`)
    runs/NAME.failed     what is left of one that did not, and ``reason.txt``
    rows.json            settings and metrics of every row                            written when the sweep ends
    table.csv            the same, flat
    tables.json, *.csv   tables of the study

NAME is derived from the row's settings, so an interrupted sweep continues when it is called again with the same folder:
finished runs are kept, failed runs are repeated.
"""
