"""Imports point one way, and the command line starts without the heavy libraries."""

import ast
import subprocess
import sys

import pytest

HEAVY = (
    "tensorflow", "tensorflow_transform", "tensorflow_model_analysis", "tensorflow_data_validation", "tfx", "tfx_bsl", "keras", "torch",
    "pytorch_lightning", "mlflow", "ml_metadata", "apache_beam", "kfp", "pandas", "numpy", "scipy", "sklearn", "pyarrow", "matplotlib",
)  # fmt: skip
STATEMENTS_THAT_RUN = (ast.If, ast.Try, ast.With, ast.ClassDef)


def module_level_imports(source):
    """Top-level names of what importing the module imports; functions and `if TYPE_CHECKING:` are not run then."""
    pending, found = list(source.tree.body), []
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Import):
            found += [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.module or "").split(".")[0])
        elif isinstance(node, STATEMENTS_THAT_RUN) and "TYPE_CHECKING" not in ast.unparse(getattr(node, "test", node)).split("\n")[0]:
            pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            pending += [child for handler in getattr(node, "handlers", []) for child in handler.body]
    return found


def heavy_imports(source):
    return [f"{source.path}: {name}" for name in module_level_imports(source) if name in HEAVY]


def loaded_by(module):
    """Heavy libraries in a fresh process after `import module`, and our own modules that it loaded."""
    program = f"import sys, {module}; print(*sorted(name for name in sys.modules))"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    names = finished.stdout.split()
    return [name for name in names if name in HEAVY], [name for name in names if name.split(".")[0] in ("pipelines", "components", "infra")]


def command_modules(root):
    return [f"pipelines.commands.{path.stem}" for path in sorted((root / "pipelines/commands").glob("*.py")) if path.stem != "__init__"]


def test_import_linter_contracts_hold(root):
    program = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    finished = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_every_package_and_stage_is_in_the_contracts(root):
    contracts = (root / "pyproject.toml").read_text()
    stages = [path.name for path in (root / "components").iterdir() if (path / "component.py").is_file()]
    assert stages
    assert [name for name in stages if f'"components.{name}"' not in contracts] == []


def test_the_command_line_starts_light(code):
    heavy, ours = loaded_by("pipelines.cli")
    assert heavy == []
    sources = {source.module: source for source in code}
    assert [fault for name in ours if name in sources for fault in heavy_imports(sources[name])] == []


def test_every_command_is_parsed_light(root):
    modules = command_modules(root)
    assert modules
    heavy, _ = loaded_by(", ".join(modules))
    assert heavy == []


def test_core_is_light_but_for_what_only_stages_load(code):
    tfx_side = {"components/core/artifacts.py", "components/core/execution.py"}
    core = [source for source in code if source.path.startswith("components/core/") and source.path not in tfx_side]
    assert core
    # NumPy is what arrays are; everything else waits until it is used.
    assert [fault for source in core for fault in heavy_imports(source) if not fault.endswith(": numpy")] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch", ["torch"]),
        ("import tensorflow.io as io", ["tensorflow"]),
        ("from tfx.dsl import x", ["tfx"]),
        ("try:\n    import mlflow\nexcept ImportError:\n    import pandas", ["mlflow", "pandas"]),
        ("if x:\n    import keras\nelse:\n    import torch", ["keras", "torch"]),
        ("class A:\n    import torch", ["torch"]),
        ("def f():\n    import torch", []),
        ("if TYPE_CHECKING:\n    import torch", []),
        ("import json", []),
    ],
)
def test_a_heavy_import_is_found(text, found, snippet):
    assert sorted(heavy_imports(snippet(text))) == sorted(f"components/example/work.py: {name}" for name in found)


def test_a_heavy_process_is_found():
    heavy, _ = loaded_by("numpy")
    assert heavy == ["numpy"]


def test_import_linter_finds_a_breach(tmp_path):
    for package in ("low", "high"):
        (tmp_path / package).mkdir()
    (tmp_path / "low/__init__.py").write_text("import high\n")
    (tmp_path / "high/__init__.py").write_text("")
    contract = '[[tool.importlinter.contracts]]\nname = "one way"\ntype = "layers"\nlayers = ["high", "low"]\n'
    (tmp_path / "pyproject.toml").write_text(f'[tool.importlinter]\nroot_packages = ["low", "high"]\n{contract}')
    program = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    finished = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 1
    assert "one way BROKEN" in finished.stdout
