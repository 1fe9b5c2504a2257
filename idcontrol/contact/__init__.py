"""From geometry to `Contacts`.

`contacts` holds the data and its rows, `terrain` the ground, `spheres` the quick detector of feet, `collision` the
general one on coal (with `shapes` and `manifold`), `landing` the velocity that a controller asks of its contacts.
Another detector needs no base class: anything that returns `Contacts` will do.
"""
