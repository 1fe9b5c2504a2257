"""Write a robot file and its URDF with other parameters."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pinocchio as pin

from idcontrol.errors import InputError
from idcontrol.robots.robot import Robot
from idcontrol.robots.schema import Description
from idcontrol.robots.urdf import mesh_file

MESHES = ".meshes"
"""Suffix of the folder of meshes beside a robot file."""
BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that TOML accepts without quotes."""
AXES = ("x", "y", "z")


def save(robot: Robot, file: Path, description: Description, inertias: Mapping[str, Any]) -> None:
    """Write a robot file, and beside it a URDF with other inertias and copies of all meshes that exist.

    The meshes are in a folder with the name of the robot file and the suffix ``.meshes``, so that the files can move
    together. Files to which meshes refer, such as textures, are not copied.

    Args:
        robot: The robot; its own files stay unchanged.
        file: The new robot file; the URDF has the same name with the suffix ``.urdf``.
        description: Content of the new robot file; its `urdf` is replaced.
        inertias: Inertia (`pinocchio.Inertia`) of each moving link with all links fixed to it, by name of the link.

    Raises:
        InputError: One of the files or the folder of meshes exists already or cannot be written, or their folder does
            not exist.
    """
    require_new(file)
    urdf, folder = file.with_suffix(".urdf"), file.with_suffix(MESHES)
    tree = urdf_with(robot.urdf, inertias)
    meshes = _renamed_meshes(tree, robot.urdf, folder.name)
    text = toml(_plain(msgspec.structs.replace(description, urdf=urdf.name)))
    try:
        for path, content in ((urdf, ET.tostring(tree, encoding="unicode") + "\n"), (file, text)):
            with path.open("x", encoding="utf-8") as out:
                out.write(content)
        if meshes:
            folder.mkdir()
        for name, mesh in meshes.items():
            shutil.copyfile(mesh, folder / name)
    except FileExistsError as error:
        raise InputError(f"{error.filename} exists already; give another file") from None
    except OSError as error:
        raise InputError(f"cannot write {error.filename}: {error.strerror}; give another file") from None


def require_new(file: Path) -> None:
    """Raise `InputError` if a robot file, its URDF or its meshes exist already, or its folder does not."""
    for path in (file.with_suffix(".urdf"), file.with_suffix(MESHES), file):
        if path.exists():
            raise InputError(f"{path} exists already; give another file")
    if not file.parent.is_dir():
        raise InputError(f"{file.parent} is not a folder; make it, or give another file")


def moved_links(model: Any) -> dict[str, int]:
    """Return the indices of the joints of a Pinocchio model, by name of the link that each joint moves directly."""
    links: dict[int, str] = {}
    for frame in model.frames:
        if frame.type == pin.FrameType.BODY and frame.parentJoint > 0 and frame.placement.isIdentity():
            links.setdefault(frame.parentJoint, frame.name)
    return {name: joint for joint, name in links.items()}


def urdf_with(urdf: Path, inertias: Mapping[str, Any]) -> ET.Element:
    """Return the root of a URDF whose links have the inertias in `inertias`, by name; links fixed to them have none.

    Each is a `pinocchio.Inertia` of the link with all links fixed to it, in the link's frame.
    """
    tree = ET.parse(urdf).getroot()
    links = {link.get("name", ""): link for link in tree.iter("link")}
    fixed: dict[str, list[str]] = {}
    for joint in tree.iter("joint"):
        parent, child = joint.find("parent"), joint.find("child")
        if joint.get("type") == "fixed" and parent is not None and child is not None:
            fixed.setdefault(parent.get("link", ""), []).append(child.get("link", ""))
    for name, inertia in inertias.items():
        rigid = [name]
        for part in rigid:
            rigid += fixed.get(part, [])
            for old in links[part].findall("inertial"):
                links[part].remove(old)
        links[name].insert(0, _inertial(inertia))
    return tree


def _renamed_meshes(tree: ET.Element, urdf: Path, folder: str) -> dict[str, Path]:
    """Let the meshes of `tree`, the URDF of the file `urdf`, refer to `folder`; return the mesh files by new name.

    Meshes that do not exist keep their names.
    """
    files: dict[str, Path] = {}
    for mesh in tree.iter("mesh"):
        try:
            source = mesh_file(mesh.get("filename", ""), urdf)
        except InputError:
            continue
        name = source.name
        while files.setdefault(name, source) != source:
            name = f"{len(files)}-{name}"
        mesh.set("filename", f"{folder}/{name}")
    return files


def _inertial(inertia: Any) -> ET.Element:
    """Return the element of an inertia, about its mass centre."""
    element, moments = ET.Element("inertial"), inertia.inertia
    ET.SubElement(element, "origin", xyz=" ".join(repr(float(x)) for x in inertia.lever), rpy="0 0 0")
    ET.SubElement(element, "mass", value=repr(float(inertia.mass)))
    upper = {f"i{AXES[i]}{AXES[j]}": repr(float(moments[i, j])) for i in range(3) for j in range(i, 3)}
    ET.SubElement(element, "inertia", upper)
    return element


def _plain(value: Any) -> Any:
    """Return a value with structs as tables and tuples as lists.

    The table of a struct omits entries that are empty tables or have their default.
    """
    if isinstance(value, msgspec.Struct):
        entries = {field.name: (getattr(value, field.name), field.default) for field in msgspec.structs.fields(value)}
        return {name: _plain(entry) for name, (entry, default) in entries.items() if entry not in (default, {})}
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def toml(table: Mapping[str, Any]) -> str:
    """Return a table of numbers, texts, lists and tables as TOML."""
    return "\n".join(_lines(table, ())).strip() + "\n"


def _lines(table: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: its values, then its tables under their headings."""
    nested = {name: value for name, value in table.items() if _is_table(value)}
    for name, value in table.items():
        if name not in nested:
            yield f"{_key(name)} = {_value(value)}"
    for name, value in nested.items():
        path = (*at, name)
        heading = ".".join(map(_key, path))
        for each in value if isinstance(value, list) else [value]:
            if not all(map(_is_table, each.values())):
                yield from ("", f"[[{heading}]]" if isinstance(value, list) else f"[{heading}]")
            yield from _lines(each, path)


def _is_table(value: Any) -> bool:
    """True for a table, and for a list of tables."""
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)
    )


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
