"""From geometry to `Contacts`.

- `contacts`: the contact data and rows; `terrain`: the ground; `soles`: wrenches on feet.
- Detectors: `spheres` for feet (fast), `fingertips` for a hand, `body_contacts` for many free bodies, `collision` for
  all convex shapes of a robot. All except `spheres` need `detection`, `distance`, `shapes`, `manifold` and the library
  coal.
- `stops`: joint limits as contacts.
- `landing`: the contact velocities that a controller demands; `sensitivity`: derivatives of the rows.

A user's detector needs no base class: it only has to return `Contacts`.
"""

TERRAINS = {
    "heightmap": "smooth ground through a grid of heights from a CSV or NPZ file",
    "plane": "flat ground, level or inclined",
}
"""Kinds of ground, each with a description."""
