"""Install the folders robots/, planners/ and experiments/ as idcontrol.robots, idcontrol.planners and so on.

The symbolic links with these names in idcontrol/ serve editors and type checkers. An installation does not need them: a
zip download, or a clone without symbolic links, has text files instead.
"""

from pathlib import Path

from setuptools import find_packages, setup

ROOMS = ("experiments", "planners", "robots")

for room in ROOMS:
    if not Path(room, "__init__.py").is_file():
        raise SystemExit(f"{room}/ is missing beside idcontrol/: build from a whole checkout or source distribution")

apart = ["idcontrol.docs*", *(f"idcontrol.{room}*" for room in ROOMS)]
setup(
    packages=[
        *find_packages(include=["idcontrol*"], exclude=apart),
        *(f"idcontrol.{package}" for room in ROOMS for package in find_packages(include=[f"{room}*"])),
    ],
    package_dir={f"idcontrol.{room}": room for room in ROOMS},
)
