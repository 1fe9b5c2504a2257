"""Sweeps: many runs of an experiment, each with its own settings, and one table of what came out.

A sweep is plain data, a list of `plan.PlannedRun`. `execute` makes each run as ``idcontrol run`` in a process of its
own, here or on a Dask cluster, which leaves a run folder; `record` reads the folders back and writes the tables.
`comparison` does all of this. A `study` is a named sweep that draws its own conclusions.

On disk::

    comparison.json      format, schema, experiment, study, the rows, versions       written when the sweep begins
    runs/NAME            the folder of a run that came to its end: that row is done  (`idcontrol.record.recording`)
    runs/NAME.failed     what is left of one that did not, and ``reason.txt``
    rows.json            settings and metrics of every row                            written when the sweep ends
    table.csv            the same, flat
    tables.json, *.csv   tables of the study

NAME is made from the row's settings, so a sweep that was cut off continues where it was when it is called again with
the same folder: what is done is not run again, what failed is tried again.
"""
