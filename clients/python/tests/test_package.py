"""The package as it is installed."""

import pathlib
import re
import shutil
import subprocess
import sys

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


def blocks(page):
    """Returns the code of Python in `page`, in order."""
    text = (REPOSITORY / page).read_text()
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


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
