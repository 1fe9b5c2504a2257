"""Read a URDF as XML and report all its problems before Pinocchio reads it.

Pinocchio and urdfdom stop at the first error, report no line number, and accept invalid values, such as a zero axis or
a negative mass. Document types and entities are rejected: URDFs do not need them, and their expansion can fill the
memory. Files far larger than any robot are rejected before any computation.
"""

from __future__ import annotations

import difflib
import math
import os
import stat
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import numpy as np

from idcontrol.errors import InputError
from idcontrol.robots.wording import shown
from idcontrol.types import Array

_NUMBERS = {
    ("origin", "xyz"): 3,
    ("origin", "rpy"): 3,
    ("axis", "xyz"): 3,
    ("mass", "value"): 1,
    **{("inertia", key): 1 for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")},
    **{("limit", key): 1 for key in ("lower", "upper", "effort", "velocity")},
    **{("dynamics", key): 1 for key in ("damping", "friction")},
    **{("mimic", key): 1 for key in ("multiplier", "offset")},
    **{("safety_controller", key): 1 for key in ("k_velocity", "k_position", "soft_lower_limit", "soft_upper_limit")},
    **{("calibration", key): 1 for key in ("rising", "falling")},
    ("box", "size"): 3,
    ("sphere", "radius"): 1,
    ("cylinder", "radius"): 1,
    ("cylinder", "length"): 1,
    ("mesh", "scale"): 3,
}
"""Number of values in each attribute."""

_NOT_NEGATIVE = {("limit", "effort"), ("limit", "velocity"), ("dynamics", "damping"), ("dynamics", "friction")}
_BOUNDED = ("origin", "axis", "mass", "inertia")
LARGEST = 1e9
"""Largest number in a URDF [m, rad, kg, kg m²]: computations with larger numbers soon overflow."""

_JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
_WITH_AXIS = ("revolute", "continuous", "prismatic", "planar")
_WITH_LIMIT = ("revolute", "prismatic")
_NOT_ACTUATED = ("fixed", "floating", "planar")
_RESERVED = ("universe", "root_joint")
"""Pinocchio's names for the world and for the joint under a floating base."""

MOST_BYTES = 1 << 24
"""Largest size of a URDF [bytes]: a hundred times the size of a humanoid's URDF."""
MOST_LINKS = 1000
MOST_MOVING = 300
"""Largest number of moving joints; the time of a control step grows with their third power."""
_MOST_DEPTH = 100
_MOST_ELEMENTS = 100 * MOST_LINKS
_MOST_GUESSES = 5
"""Maximum number of problems for which a similar name is sought: each search takes time proportional to the number of
names."""

_ROUNDING_KG_M2 = 1e-15
"""Tolerance of moments of inertia [kg m²]: CAD programs write zeros as tiny numbers of either sign. A cube of 1 mg with
sides of 1 mm has 170 times this inertia."""
_TRIANGLE = 1e-3
"""Relative tolerance of the triangle inequality of moments of inertia: URDFs contain few digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The mistakes in a URDF; each line has the fault, its location and how to fix it.

    Attributes:
        problems: Mistakes that prevent the dynamics, or make them wrong.
        geometry: Mistakes in collision geometry; the dynamics do not need it.
        warnings: Suspicious values; the robot can still be simulated.
        frames: Names of links and joints; empty if the file is unreadable.
        joints: Lower and upper limit of each joint with one velocity [rad or m]; infinite for no limit.
    """

    problems: tuple[str, ...] = ()
    geometry: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    joints: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Document:
    """The XML tree with the lines of its elements."""

    path: Path
    root: ET.Element
    line: Mapping[ET.Element, int]

    def at(self, element: ET.Element) -> str:
        """Return the location of an element, e.g. ``line 12: joint hip``."""
        name = element.get("name")
        return f"line {self.line[element]}: {shown(element.tag)}{f' {shown(name)}' if name else ''}"


def inspect(path: Path, *, free_flyer: bool = True) -> Findings:
    """Return the mistakes in the text of a URDF.

    Args:
        path: The file.
        free_flyer: True if the root link floats, so that it needs mass.
    """
    try:
        document = _read(path)
    except InputError as error:
        return Findings(problems=(str(error),))
    if document.root.tag != "robot":
        return Findings(problems=(f"line 1: the root element is <{shown(document.root.tag)}>; a URDF has <robot>",))
    if unexpanded := next(_unexpanded(document), ""):
        return Findings(problems=(unexpanded,))  # elements that seem to be missing may come from xacro
    problems = [*_bad_numbers(document), *_bad_names(document), *_bad_joints(document)]
    if not problems:
        problems += [*_no_tree(document)]
    problems += [*_bad_inertials(document)]
    massless, light = ([], []) if problems else _massless(document, free_flyer)
    problems += massless
    geometry, warnings = _bad_meshes(document)
    warnings = [*_ignored(document), *light, *_unphysical_inertias(document), *warnings]
    frames = tuple(str(one.get("name")) for one in document.root if one.tag in ("link", "joint"))
    limits = {
        joint.attrib["name"]: _limits(joint)
        for joint in document.root.findall("joint")
        if joint.get("name") and joint.get("type") not in _NOT_ACTUATED
    }
    return Findings(
        problems=tuple(problems), geometry=tuple(geometry), warnings=tuple(warnings), frames=frames, joints=limits
    )


def mesh_file(filename: str, urdf: Path) -> Path:
    """Return the file of a mesh name in `urdf`.

    ``package://NAME/...`` is looked up in the nearest folder NAME next to or above the URDF, but not in the root; more
    slashes before NAME are ignored, as by Pinocchio. Any other name is relative to the URDF and must stay in its
    package: the nearest folder above with a ``package.xml`` or a ``robot.toml``, else the URDF's folder.

    Raises:
        InputError: The name leaves its package, has an unknown scheme, or there is no such file.
    """
    urdf = Path(os.path.abspath(urdf))
    if filename.startswith("package://"):
        name, _, inside = filename.removeprefix("package://").lstrip("/").partition("/")
        folders = [folder / name for folder in urdf.parents[:-1]]  # a folder of the system is no package
        package = next((folder for folder in folders if name not in ("", ".", "..") and os.path.isdir(folder)), None)
        if package is None:
            raise InputError(f"no folder {shown(name)!r} beside or above the URDF; put the package there")
        path = Path(os.path.normpath(package / inside))
    else:
        plain = filename.removeprefix("file://")
        if "://" in plain:
            raise InputError("its scheme is unknown; use package://, or a path that starts at the URDF")
        marked = (f for f in urdf.parents if (f / "package.xml").is_file() or (f / "robot.toml").is_file())
        package = next(marked, urdf.parent)
        path = Path(os.path.normpath(urdf.parent / plain))
    # compare paths as written, without resolving symbolic links: package installers link to files elsewhere
    if not path.is_relative_to(package):
        raise InputError(f"it leaves the package folder {package.name}; move the file into it")
    if not os.path.isfile(path):
        raise InputError("no such file; add it or correct the name")
    return path


def content(path: Path) -> bytes:
    """Return the content of a URDF.

    Raises:
        InputError: The file cannot be read, or is too large.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe or a device may never end
            raise InputError("cannot be read: it is no ordinary file")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise InputError(f"it is larger than {MOST_BYTES >> 20} MiB; give the URDF itself, its meshes in other files")
    return data


def _read(path: Path) -> _Document:
    data = content(path)
    if b"\0" in data[:4]:  # expat accepts these encodings, Pinocchio does not
        raise InputError("line 1: it is UTF-16 or UTF-32 text; save it as UTF-8")
    builder = ET.TreeBuilder()
    parser = expat.ParserCreate()
    line: dict[ET.Element, int] = {}
    depth = links = moving = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth, links, moving
        depth += 1
        if depth == 2:
            links += tag == "link"
            moving += tag == "joint" and attributes.get("type") != "fixed"
        for count, most, what in (
            (links, MOST_LINKS, "links; merge those that are fixed to each other"),
            (moving, MOST_MOVING, "moving joints; fix some"),
            (len(line), _MOST_ELEMENTS, "elements; leave out what is not needed"),
            (depth, _MOST_DEPTH, "elements within each other; close them"),
        ):
            if count > most:
                raise InputError(f"line {parser.CurrentLineNumber}: more than {most} {what}")
        line[builder.start(tag, attributes)] = parser.CurrentLineNumber

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def refuse(*_: object) -> None:
        raise InputError(f"line {parser.CurrentLineNumber}: it declares a document type or an entity; delete that")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise InputError(f"line {error.lineno}: no valid XML: {expat.ErrorString(error.code)}") from None
    except LookupError:
        raise InputError("line 1: its encoding is unknown; save it as UTF-8") from None
    return _Document(path, builder.close(), line)


def _floats(text: str) -> list[float]:
    """Return the numbers of a text by C's rules; Python would also accept 1_000 and non-Latin digits.

    Raises:
        ValueError: A word of the text is not a number.
    """
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return [float(word) for word in text.split()]


def _numbers(element: ET.Element | None, key: str, default: tuple[float, ...]) -> Array:
    """Return the numbers of an attribute, or `default` if they are missing or bad (`_bad_numbers` reports them)."""
    text = element.get(key) if element is not None else None
    try:
        values = np.array(_floats(text)) if text is not None else np.array(default)
    except ValueError:
        values = np.array(default)
    return values if values.shape == (len(default),) and np.isfinite(values).all() else np.array(default)


def _unexpanded(document: _Document) -> Iterator[str]:
    """Yield a problem for each xacro element or expression in a name: URDF readers would read an incomplete robot."""
    for element, line in document.line.items():
        if element.tag.startswith("xacro:"):
            yield f"line {line}: <{shown(element.tag)}> is not expanded; run xacro first"
    for element in [*document.root.findall("link"), *document.root.findall("joint")]:
        if "${" in element.get("name", ""):
            yield f"{document.at(element)}: the name is not expanded; run xacro first"


def _bad_numbers(document: _Document) -> Iterator[str]:
    for owner in [*document.root.findall("link"), *document.root.findall("joint")]:
        for element in owner.iter():
            for key, text in element.attrib.items():
                size = _NUMBERS.get((element.tag, key))
                if size is None:
                    continue
                where = (
                    f"line {document.line[element]}: {owner.tag} {shown(owner.get('name', ''))}: {element.tag} {key}"
                )
                try:
                    values = _floats(text)
                except ValueError:
                    hint = "; run xacro first" if "$" in text else ""
                    yield f"{where} is {shown(text)!r}, not {'a number' if size == 1 else f'{size} numbers'}{hint}"
                    continue
                if len(values) != size:
                    yield f"{where} has {len(values)} numbers; give {size}"
                elif not all(math.isfinite(value) for value in values):
                    yield f"{where} is {shown(text.strip())}; give a finite number"
                elif element.tag in _BOUNDED and max(map(abs, values)) > LARGEST:
                    yield f"{where} is {shown(text.strip())}; give numbers below {LARGEST:.0e}, no machine needs larger"
                elif (element.tag, key) in _NOT_NEGATIVE and values[0] < 0.0:
                    yield f"{where} is negative ({shown(text.strip())}); correct the sign"


def _bad_names(document: _Document) -> Iterator[str]:
    for tag in ("link", "joint", "material"):
        seen: set[str] = set()
        for element in document.root.findall(tag):
            name = element.get("name", "")
            if not name:
                yield f"{document.at(element)} has no name; give it one"
            elif name in seen:
                yield f"{document.at(element)}: the name is taken; rename one of the two"
            elif tag == "joint" and name in _RESERVED:
                yield f"{document.at(element)}: Pinocchio keeps that name for itself; rename the joint"
            seen.add(name)
    if not document.root.findall("link"):
        yield "line 1: robot has no links; a URDF needs at least one"


def _bad_joints(document: _Document) -> Iterator[str]:
    links = {link.get("name", ""): None for link in document.root.findall("link")}
    guesses = 0
    for joint in document.root.findall("joint"):
        at, kind = document.at(joint), joint.get("type", "")
        if kind not in _JOINT_TYPES:
            yield f"{at}: type {shown(kind)!r} is unknown; known: {', '.join(_JOINT_TYPES)}"
        elif kind == "floating":
            yield (
                f'{at}: it is a floating joint, the robot file says what floats (base = "free-flyer": the root link); '
                "delete it, and its parent if that is the world"
            )
        for end in ("parent", "child"):
            element = joint.find(end)
            name = element.get("link", "") if element is not None else ""
            if name not in links:
                guesses += 1
                suggestions = (
                    difflib.get_close_matches(name[:100], links, n=1, cutoff=0.0) if guesses <= _MOST_GUESSES else []
                )
                hint = f"the nearest is {shown(suggestions[0])}" if suggestions else "correct the name"
                yield f"{at}: {end} link {shown(name)!r} does not exist; {hint}"
        axis = joint.find("axis")
        if kind in _WITH_AXIS and axis is not None:
            if axis.get("xyz") is None:
                yield f"{at}: its axis has no xyz; give a direction such as 0 1 0"
            elif not sum(x * x for x in _numbers(axis, "xyz", (1.0, 0.0, 0.0)).tolist()):  # the norm
                yield f"{at}: its axis is zero; give a direction such as 0 1 0"
        for tag, key in (("mimic", "joint"), ("safety_controller", "k_velocity")):
            element = joint.find(tag)
            if element is not None and element.get(key) is None:
                yield f"{at}: {tag} has no {key}; add it or delete the {tag}"
        limit = joint.find("limit")
        if kind in _WITH_LIMIT:
            missing = [key for key in ("effort", "velocity") if limit is None or limit.get(key) is None]
            if limit is None:
                yield f"{at}: a {kind} joint needs <limit lower= upper= effort= velocity=>"
            elif missing:
                yield f"{at}: limit has no {' and no '.join(missing)}; add it"
            elif _numbers(limit, "lower", (0.0,)) > _numbers(limit, "upper", (0.0,)):
                yield f"{at}: its lower limit is above its upper one; exchange them"


def _ends(joint: ET.Element) -> tuple[str, str]:
    parent, child = joint.find("parent"), joint.find("child")
    return (parent.get("link", "") if parent is not None else "", child.get("link", "") if child is not None else "")


def _few(names: list[str]) -> str:
    """Return names as one text: at most ten, and the number of remaining names."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(shown(name) for name in names[:10]) + more


def _no_tree(document: _Document) -> Iterator[str]:
    """Return the reasons why links and joints form no tree: two parents, no root, several roots, loops."""
    links = [link.get("name", "") for link in document.root.findall("link")]
    children: dict[str, list[str]] = {name: [] for name in links}
    mover: dict[str, str] = {}
    for joint in document.root.findall("joint"):
        parent, child = _ends(joint)
        if child in mover:
            other = shown(mover[child])
            yield f"{document.at(joint)}: its child {shown(child)} is moved by joint {other} already; remove one"
        mover[child] = joint.get("name", "")
        children[parent].append(child)
    roots = [name for name in links if name not in mover]
    if len(roots) > 1:
        yield f"line 1: robot has {len(roots)} roots ({_few(roots)}); connect them with joints"
    reached = set(roots)
    frontier = list(roots)
    while frontier:
        new = [child for child in children[frontier.pop()] if child not in reached]
        reached.update(new)
        frontier += new
    if loop := [name for name in links if name not in reached]:
        yield f"line 1: the links {_few(loop)} form a loop, or hang on one; a URDF is a tree: cut it open"


def _inertia(element: ET.Element) -> Array:
    """Return the inertia matrix of an <inertia> element, shape (3, 3) [kg m²]."""
    xx, xy, xz, yy, yz, zz = (
        float(_numbers(element, f"i{key}", (0.0,))[0]) for key in ("xx", "xy", "xz", "yy", "yz", "zz")
    )
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _bad_inertials(document: _Document) -> Iterator[str]:
    for link in document.root.findall("link"):
        inertial = link.find("inertial")
        if inertial is None:
            continue
        at = f"line {document.line[inertial]}: link {shown(link.get('name', ''))}"
        mass, inertia = inertial.find("mass"), inertial.find("inertia")
        if mass is None or mass.get("value") is None:
            yield f"{at}: inertial has no <mass value=>; add it"
        elif (kilograms := float(_numbers(mass, "value", (0.0,))[0])) < 0.0:
            yield f"{at}: its mass is negative ({kilograms:g} kg); correct the sign"
        if inertia is None or any(inertia.get(f"i{key}") is None for key in ("xx", "xy", "xz", "yy", "yz", "zz")):
            yield f"{at}: inertial has no <inertia> with ixx, ixy, ixz, iyy, iyz and izz; complete it"
            continue
        moments = np.linalg.eigvalsh(_inertia(inertia))
        if moments[0] < -max(_TRIANGLE * abs(moments[2]), _ROUNDING_KG_M2):
            yield f"{at}: a principal moment of its inertia is negative ({moments[0]:.3g} kg m²); correct the matrix"


def _ignored(document: _Document) -> Iterator[str]:
    """Return warnings of URDF elements that have no effect here: <mimic>, and <limit> without a range."""
    for joint in document.root.findall("joint"):
        mimic, limit = joint.find("mimic"), joint.find("limit")
        if leader := mimic.get("joint") if mimic is not None else None:
            yield f"{document.at(joint)}: it should follow joint {shown(leader)}; here it moves on its own"
        if joint.get("type") in _WITH_LIMIT and limit is not None:
            lower, upper = _range(limit)
            if lower == upper:
                yield f"{document.at(joint)}: its limits leave it only {lower:g}; give lower and upper"


def _range(limit: ET.Element | None) -> tuple[float, float]:
    """Return the lower and the upper number of a <limit>; missing numbers are zero."""
    return float(_numbers(limit, "lower", (0.0,))[0]), float(_numbers(limit, "upper", (0.0,))[0])


def _limits(joint: ET.Element) -> tuple[float, float]:
    """Return a joint's limits; infinite if they leave no range (`idcontrol.dynamics.system.position_limits`)."""
    lower, upper = _range(joint.find("limit"))
    return (lower, upper) if joint.get("type") in _WITH_LIMIT and lower < upper else (-math.inf, math.inf)


def _unphysical_inertias(document: _Document) -> Iterator[str]:
    for link in document.root.findall("link"):
        element = link.find("inertial/inertia")
        if element is None:
            continue
        a, b, c = np.linalg.eigvalsh(_inertia(element)).tolist()
        if a >= 0.0 and c > (a + b) * (1.0 + _TRIANGLE):
            yield (
                f"line {document.line[element]}: link {shown(link.get('name', ''))}: no mass distribution has the "
                f"principal moments {a:.4g}, {b:.4g}, {c:.4g} kg m²; the largest must not exceed the sum of the others"
            )


def _massless(document: _Document, free_flyer: bool) -> tuple[list[str], list[str]]:
    """Return problems and warnings about moving links without mass; links fixed to a link count as its parts.

    A link is a problem if none of its descendants has mass, or if it is the root of a floating robot. Massless
    links between consecutive joints, e.g. of a ball joint, are only warnings: the mass of the last link is sufficient.
    """
    links = {link.get("name", ""): link for link in document.root.findall("link")}
    fixed: dict[str, list[str]] = {name: [] for name in links}
    below: dict[str, list[str]] = {name: [] for name in links}
    moved: dict[str, str] = {}
    for joint in document.root.findall("joint"):
        parent, child = _ends(joint)
        below[parent].append(child)
        if joint.get("type") == "fixed":
            fixed[parent].append(child)
        else:
            moved[child] = f"which joint {shown(joint.get('name', ''))} moves"
    problems, warnings = list[str](), list[str]()
    for name, how in moved.items():
        if not _mass(links, fixed, name) > 0.0:
            hangs = _mass(links, below, name) > 0.0
            (warnings if hangs else problems).append(_weightless(document, links[name], how))
    roots = links.keys() - {child for children in below.values() for child in children}
    if free_flyer:
        problems += [
            _weightless(document, links[name], "which floats") for name in roots if not _mass(links, fixed, name) > 0.0
        ]
    return problems, warnings


def _mass(links: Mapping[str, ET.Element], children: Mapping[str, list[str]], name: str) -> float:
    """Return the mass of a link and all its descendants [kg]."""
    bodies = [name]
    for body in bodies:
        bodies += children[body]
    return sum(float(_numbers(links[body].find("inertial/mass"), "value", (0.0,))[0]) for body in bodies)


def _weightless(document: _Document, link: ET.Element, how: str) -> str:
    what = "no <inertial>" if link.find("inertial") is None else "no mass"
    return f"{document.at(link)}, {how}, has {what}; give its mass and inertia"


def _bad_meshes(document: _Document) -> tuple[list[str], list[str]]:
    """Return messages about missing mesh files: for collision, and for display only."""
    lines: dict[str, list[str]] = {"collision": [], "visual": []}
    reported = set()
    for link in document.root.findall("link"):
        for use, named in lines.items():
            for mesh in link.iterfind(f"{use}/geometry/mesh"):
                name = mesh.get("filename", "")
                try:
                    mesh_file(name, document.path)
                except InputError as error:
                    if (use, name) not in reported:
                        at = f"line {document.line[mesh]}: link {shown(link.get('name', ''))}"
                        named.append(f"{at}: {use} mesh {shown(name)!r}: {error}")
                    reported.add((use, name))
    return lines["collision"], lines["visual"]
