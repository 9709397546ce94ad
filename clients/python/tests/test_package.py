"""The package as it is installed."""

import ast
import collections.abc
import importlib.util
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv

import forebay
import forebay.aio
import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def test_import_needs_the_standard_library_alone():
    script = """
import sys
import forebay, forebay.aio
names = {name.split(".")[0] for name in sys.modules}
print(sorted(names - set(sys.stdlib_module_names) - {"forebay", "__main__"} - before))
"""
    script = "import sys; before = {name.split('.')[0] for name in sys.modules}\n" + script
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert output.stdout == "[]\n", output.stderr


def test_program_is_installed():
    program = shutil.which("forebay", path=str(pathlib.Path(sys.executable).parent))
    output = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert output.stdout.startswith("forebay "), output


def test_objects_are_measured_where_no_other_store_is_installed():
    pytest.importorskip("numpy")
    folder = str(pathlib.Path(sys.executable).parent)
    command = [shutil.which("forebay", path=folder), "bench", "objects", "--rounds", "1"]
    command += ["--seconds", "0.001", "--form", "one", "--cases", "array 1"]
    command += ["--rows", "plasma_store", "redis_unix", "forebay_shm"]
    output = subprocess.run(command, capture_output=True, text=True, env={"PATH": folder})
    assert output.returncode == 0, output.stderr
    assert "redis_unix is left out: redis-server is not on the PATH" in output.stdout
    assert "plasma_store is left out: --plasma names no interpreter" in output.stdout
    titles = re.findall("^one process: array 1, K = ([0-9]+), in microseconds", output.stdout, re.M)
    assert titles == ["1", "10"] and output.stdout.count("forebay_shm") == 2


ASYNCHRONOUS = ["aio", "aio.AsyncCache", "aio.AsyncDb", "aio.connect", "aio.open"]


@pytest.mark.parametrize("name", [*forebay.__all__, *ASYNCHRONOUS])
def test_public_names_have_docstrings(name):
    found = forebay
    for part in name.split("."):
        found = getattr(found, part)
    assert found.__doc__
    if isinstance(found, type) and not issubclass(found, Exception):
        names = [member for member in dir(found) if not member.startswith("_")]
        assert [member for member in names if not getattr(found, member).__doc__] == []


def test_page_lists_all_methods_with_their_arguments():
    page = (REPOSITORY / "docs/python.md").read_text()
    for name in dir(forebay.Db):
        method = getattr(forebay.Db, name)
        is_mapping = hasattr(collections.abc.MutableMapping, name) and name != "get"
        if not name.startswith("_") and callable(method) and not is_mapping:
            assert f"\n{name}{written(method)}" in page


def written(method):
    """Returns the arguments of `method` but the first, as one writes them down."""
    _, *parameters = inspect.signature(method).parameters.values()
    bare = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
    return str(inspect.Signature(bare))


def test_types_of_aio_have_the_methods_of_its_store():
    types = pathlib.Path(forebay.aio.__file__).with_suffix(".pyi")
    classes = [node for node in ast.parse(types.read_text()).body if isinstance(node, ast.ClassDef)]
    (store,) = [node for node in classes if node.name == "AsyncDb"]
    found = {node.name: node for node in store.body if hasattr(node, "name")}
    names = {name for name in dir(forebay.aio.AsyncDb) if not name.startswith("_")}
    assert {name for name in found if not name.startswith("_")} == names
    for name in names - {"url", "closed"}:
        method = getattr(forebay.Db, name)
        is_awaited = inspect.iscoroutinefunction(getattr(forebay.aio.AsyncDb, name))
        assert isinstance(found[name], ast.AsyncFunctionDef) == is_awaited, name
        told = found[name].args
        told = [*told.posonlyargs, *told.args, *told.kwonlyargs, told.vararg, told.kwarg]
        told = [argument.arg for argument in told if argument is not None]
        assert told == ["self", *list(inspect.signature(method).parameters)[1:]], name


def blocks(page):
    """Returns the code of Python in `page`, in order, where the libraries of each are installed."""
    text = (REPOSITORY / page).read_text()
    found = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    libraries = lambda block: re.findall(r"^(?:import|from) (\w+)", block, re.MULTILINE)
    return [block for block in found if all(map(importlib.util.find_spec, libraries(block)))]


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_snippets_run(page, tmp_path, monkeypatch):
    pytest.importorskip("numpy")
    pytest.importorskip("redis")
    monkeypatch.chdir(tmp_path)
    found = blocks(page)
    assert found
    # Classes that a snippet defines are pickled by their module's name.
    script = tmp_path / "snippets.py"
    script.write_text("\n".join(found))
    output = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert output.returncode == 0, output.stderr


def backend():
    """Returns the module that builds the package."""
    pytest.importorskip("maturin")
    path = REPOSITORY / "clients/python/build_backend.py"
    spec = importlib.util.spec_from_file_location("build_backend", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("arguments", "profile", "target"),
    [
        ([], "release", None),
        (["--profile", "dev", "--locked"], "dev", None),
        (["--profile=dev", "--target=a-b-c"], "dev", "a-b-c"),
        (["--target-dir", "elsewhere", "--target", "a-b-c"], "release", "a-b-c"),
    ],
)
def test_program_is_built_as_the_library_is(arguments, profile, target):
    command = backend()._command(arguments)
    assert command[command.index("--profile") + 1] == profile
    found = command[command.index("--target") + 1] if "--target" in command else None
    assert found == target


def test_source_distribution_is_refused(tmp_path):
    module = backend()
    with pytest.raises(module.UnsupportedOperation, match="build a wheel in its repository"):
        module.build_sdist(tmp_path)
    assert list(tmp_path.iterdir()) == []


_ALONE = """
import sys, forebay
with forebay.open() as db:
    db.put("key", b"v" * 100_000, ttl=60)
    assert db.get("key").is_pinned and db.take(db.put_auto({"a": 1})).load() == {"a": 1}
    assert db.call("PING") in (b"PONG", "PONG")
others = {name.split(".")[0] for name in sys.modules} & {"numpy", "redis", "pyarrow", "torch"}
assert not others, others
print("fine")
"""


def test_wheel_installs_alone_into_an_empty_environment(tmp_path):
    wheel = os.environ.get("FOREBAY_WHEEL")
    if wheel is None:
        pytest.skip("cargo xtask python says where the wheel is")
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index"]
    subprocess.run([*pip, wheel], check=True)
    found = subprocess.run([python, "-c", _ALONE], capture_output=True, text=True, cwd=tmp_path)
    assert found.stdout == "fine\n", found.stderr
    program = [folder / "bin" / "forebay", "--version"]
    version = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert version.startswith("forebay ")
