"""From geometry to `Contacts`.

`contacts` has the contact data and rows, `terrain` the ground, `spheres` the fast detector for feet, `collision` the
general detector on coal (with `shapes` and `manifold`), `landing` the contact velocities that a controller demands. A
user's detector needs no base class: it only has to return `Contacts`.
"""

TERRAINS = {
    "heightmap": "smooth ground through a grid of heights from a CSV or NPZ file",
    "plane": "flat ground, level or inclined",
}
"""Kinds of ground, each with a description."""
