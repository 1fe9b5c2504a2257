"""Replay of a run in three dimensions, in a page in the browser.

The record describes the scene (`idcontrol.record.scenery`). `machine`, `shapes` and `stage` turn this scene and a row
of the record into meshes, poses and arrows. `film` selects the rows, and `page` shows them in the browser. The packages
of the extra ``viz`` are needed.
"""
