"""A run in three dimensions: what its record says there is to see, and the page in the browser that shows it.

`idcontrol.show.view.scenery` is what a record stores and needs nothing but the library; `machine`, `shapes` and `stage`
turn it and a row of the record into meshes, poses and arrows; `page` hands those to the browser (extra ``viz``).
"""
