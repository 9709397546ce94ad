"""The build of the package by pip: maturin's, with the server's program `forebay` in the wheel.

pyproject.toml names this file. A change of the program alone needs `pip install` once more.
"""

import contextlib
import json
import pathlib
import subprocess

import maturin

# The rest of the interface between pip and a build is maturin's own.
from maturin import (  # noqa: F401
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

_PACKAGE = pathlib.Path(__file__).resolve().parent
# What lies here is installed as programs; git ignores it.
_SCRIPTS = _PACKAGE / "forebay._native.data" / "scripts"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds the wheel into `wheel_directory`; returns its name."""
    with _program(config_settings):
        return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """As `build_wheel`, with references to the Python files in the place of these."""
    with _program(config_settings):
        return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


@contextlib.contextmanager
def _program(config_settings):
    """Has the program be where maturin looks for it, in the same profile as the library."""
    arguments = maturin.get_maturin_pep517_args(config_settings)
    is_told = "--profile" in arguments
    profile = arguments[arguments.index("--profile") + 1] if is_told else "release"
    command = ["cargo", "build", "--package", "forebay-server", "--bin", "forebay"]
    command += ["--profile", profile, "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, cwd=_PACKAGE, stdout=subprocess.PIPE, check=True)
    messages = map(json.loads, built.stdout.splitlines())
    (source,) = [message["executable"] for message in messages if message.get("executable")]
    _SCRIPTS.mkdir(parents=True, exist_ok=True)
    target = _SCRIPTS / "forebay"
    try:
        # Its debugging aids are most of it.
        subprocess.run(["strip", "-o", target, source], check=True)
        yield
    finally:
        target.unlink(missing_ok=True)
