"""From geometry to `Contacts`.

`contacts` holds the data and its rows, `terrain` the ground, `spheres` the fast detector of feet, `collision` the
general one on coal (with `shapes` and `manifold`), `landing` the contact velocities that a controller demands. Another
detector needs no base class: anything that returns `Contacts` works.
"""

TERRAINS = {
    "heightmap": "smooth ground through a grid of heights from a CSV or NPZ file",
    "plane": "flat ground, level or inclined",
}
"""Kinds of ground, each with a description."""
