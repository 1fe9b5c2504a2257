"""Locate robot files and their URDFs, without fixed paths.

Files are checked with `os.path`: it returns False for names that are too long, whereas pathlib may raise an exception.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os.path
from pathlib import Path

from idcontrol.errors import InputError, UnknownName, install_command
from idcontrol.robots.wording import shown

ROBOT_FILE = "robot.toml"
_HERE = Path(__file__).parent
_PACKAGE = "package:"


class NotInstalled(InputError):
    """The distribution of a URDF is not installed.

    Attributes:
        remedy: The command that installs it.
    """

    def __init__(self, missing: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(f"{missing}; {remedy}")


def names() -> tuple[str, ...]:
    """Return the names of the robots of the project, sorted."""
    return tuple(sorted(path.parent.name for path in _HERE.glob(f"*/{ROBOT_FILE}")))


def robot_file(name_or_path: str | Path) -> Path:
    """Return the robot file of a name, or of a path to the file, its folder, or a URDF next to it.

    Raises:
        UnknownName: `name_or_path` is a plain name, but not of a known robot.
        InputError: `name_or_path` is a path that does not exist or leads to no robot file.
    """
    text = str(name_or_path)
    if text in names():
        return _HERE / text / ROBOT_FILE
    path = Path(text)
    if path.suffix.lower() == ".toml" and os.path.isfile(path):
        return path
    if os.path.isdir(path) or path.suffix.lower() == ".urdf":
        beside = (path if os.path.isdir(path) else path.parent) / ROBOT_FILE
        if not os.path.exists(path):
            raise InputError(f"{path}: no such file; give the path of an existing URDF")
        if not os.path.isfile(beside):
            where = "in" if os.path.isdir(path) else "beside"
            raise InputError(f"{path}: no {ROBOT_FILE} {where} it; write one as in the tutorial 'Your own robot'")
        return beside
    if os.path.exists(path):
        raise InputError(f"{path} is no robot file; give a {ROBOT_FILE}, its folder or the URDF beside it")
    if path.suffix or path.name != text:
        raise InputError(f"{path}: no such robot file; give a {ROBOT_FILE}, its folder or the URDF beside it")
    raise UnknownName("robot", text, names())


@functools.cache  # reading the list of example-robot-data takes longer than everything else in `load`
def files_of(distribution: str) -> list[importlib.metadata.PackagePath]:
    """Return the paths of all files of an installed distribution."""
    return importlib.metadata.distribution(distribution).files or []


def urdf_file(urdf: str, beside: Path) -> Path:
    """Return the path of the URDF of a robot file.

    Args:
        urdf: Path relative to the robot file, or ``package:DISTRIBUTION/path`` in an installed Python distribution.
        beside: The robot file.

    Raises:
        NotInstalled: The distribution is not installed.
        InputError: The file does not exist.
    """
    if not urdf.startswith(_PACKAGE):
        path = beside.parent / urdf
        if not os.path.isfile(path):
            raise InputError(
                f"{beside}: urdf: no file at {shown(str(path), 200)}; correct the path, which starts at the robot file"
            )
        return path
    inside = urdf.removeprefix(_PACKAGE)
    distribution = inside.partition("/")[0]
    try:
        files = files_of(distribution)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        command = f"pip install {shown(distribution)}"
        if distribution == "example-robot-data":
            command = install_command("robots")
        missing = f"{beside}: urdf: {shown(distribution)} is not installed"
        raise NotInstalled(missing, command) from None
    # a wheel may install its data below its own prefix
    listed = next((file for file in files if f"/{file.as_posix()}".endswith(f"/{inside}")), None)
    if listed is None or not os.path.isfile(str(listed.locate())):
        raise InputError(
            f"{beside}: urdf: {shown(distribution)} has no file {shown(inside)}; correct the path or its version"
        )
    return Path(str(listed.locate()))
