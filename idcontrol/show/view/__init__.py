"""Replay of a run in three dimensions, in a page in the browser.

`idcontrol.show.view.scenery` describes the scene as a record stores it and needs only the library. `machine`, `shapes`
and `stage` turn the scene and a row of the record into meshes, poses and arrows. `page` shows these in the browser
(extra ``viz``).
"""
