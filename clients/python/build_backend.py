"""The build of the package by pip: maturin's, with the server's program `forebay` in the wheel.

pyproject.toml names this file. A change of the program alone needs `pip install` once more.
"""

import argparse
import contextlib
import json
import pathlib
import subprocess

import maturin

# The rest of the interface between pip and a build is maturin's own.
from maturin import (  # noqa: F401
    get_requires_for_build_editable,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

_PACKAGE = pathlib.Path(__file__).resolve().parent
# What lies here is installed as programs; git ignores it.
_SCRIPTS = _PACKAGE / "forebay._native.data" / "scripts"


class UnsupportedOperation(Exception):
    """What is not built."""


def build_sdist(sdist_directory, config_settings=None):
    """Refuses: the package is built of the whole repository, whose root is not this folder."""
    raise UnsupportedOperation(
        "there is no source distribution of forebay: build a wheel in its repository, "
        "by `pip wheel clients/python`"
    )


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
    """Has the program be where maturin looks for it, built as the library is."""
    command = _command(maturin.get_maturin_pep517_args(config_settings))
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


def _command(arguments):
    """Returns how cargo builds the program where maturin is told `arguments`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", default="release")
    parser.add_argument("--target")
    told, _ = parser.parse_known_args(arguments)
    command = ["cargo", "build", "--package", "forebay-server", "--bin", "forebay"]
    command += ["--profile", told.profile, "--message-format", "json-render-diagnostics"]
    return command if told.target is None else [*command, "--target", told.target]
