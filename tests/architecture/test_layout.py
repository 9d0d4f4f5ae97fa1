"""Where things lie: stage folders look alike, tests mirror the code and can fail."""

import ast
import re

import pytest

ASSERTING_CALL = re.compile(r"(^|\.)(assert_?\w*|raises|warns|fail)$")


def stage_folders(paths):
    """Folders of components/ that hold code, without the shared core."""
    names = {path.split("/")[1] for path in paths if path.startswith("components/") and path.count("/") >= 2 and path.endswith(".py")}
    return sorted(names - {"core"})


def incomplete_stages(paths):
    wanted = ("__init__.py", "component.py", "executor.py")
    return [
        f"components/{stage}: no {name}" for stage in stage_folders(paths) for name in wanted if f"components/{stage}/{name}" not in paths
    ]


def packages_of_tests(paths):
    return [path for path in paths if path.startswith("tests/") and path.endswith("__init__.py")]


def asserts(node, known, seen=frozenset()):
    """Whether running `node` can fail: an assertion, pytest.raises and the like, or a call of a function in the file that has one."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assert) and not is_constant(inner.test):
            return True
        if isinstance(inner, ast.Call):
            name = ast.unparse(inner.func)
            last = name.rsplit(".", 1)[-1]
            if ASSERTING_CALL.search(name):
                return True
            if last in known and last not in seen and asserts(known[last], known, seen | {last}):
                return True
    return False


def is_constant(test):
    """`assert True`, `assert (x, "message")` and `assert x or True` always pass."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(is_constant(value) for value in test.values)
    return (isinstance(test, ast.Constant) and bool(test.value)) or (isinstance(test, ast.Tuple) and bool(test.elts))


def powerless_tests(source, shared=()):
    """Tests of a file without any assertion; `shared` are the trees of conftest files, whose functions count as known."""
    trees = [source.tree, *shared]
    known = {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    tests = [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return [f"{source.path}:{test.lineno} {test.name} asserts nothing" for test in tests if not asserts(test, known)]


def test_every_stage_has_component_and_executor(tracked):
    assert stage_folders(tracked)
    faults = incomplete_stages(tracked)
    assert not faults, "\n".join(faults)


def test_tests_are_no_packages(tracked):
    assert packages_of_tests(tracked) == []


def test_every_test_can_fail(files_of_tests):
    shared = {source.path.rsplit("/", 1)[0]: source.tree for source in files_of_tests if source.path.endswith("/conftest.py")}
    faults = []
    for source in files_of_tests:
        if source.path.rsplit("/", 1)[-1].startswith("test_"):
            faults += powerless_tests(source, [tree for folder, tree in shared.items() if source.path.startswith(folder)])
    assert not faults, "\n".join(faults)


def test_test_files_are_named_so_that_pytest_finds_them(files_of_tests):
    with_tests = [
        source.path
        for source in files_of_tests
        if any(isinstance(n, ast.FunctionDef) and n.name.startswith("test_") for n in source.tree.body)
    ]
    assert [path for path in with_tests if not re.search(r"/test_\w+\.py$", path)] == []


def unmirrored(paths):
    """Folders of tests/unit with tests whose counterpart in the code does not exist."""
    folders = {folder for path in paths for folder in parents(path)}
    tests = [path for path in paths if re.search(r"^tests/unit/.+/test_\w+\.py$", path)]
    return sorted({path.rsplit("/", 1)[0] for path in tests} - {f"tests/unit/{folder}" for folder in folders})


def parents(path):
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def test_unit_tests_mirror_the_code(tracked):
    assert unmirrored(tracked) == []


def test_a_folder_of_tests_without_code_is_found():
    paths = ["components/pusher/push.py", "tests/unit/components/pusher/test_push.py", "tests/unit/components/test_all.py"]
    assert unmirrored(paths) == []
    assert unmirrored([*paths, "tests/unit/components/gone/test_it.py"]) == ["tests/unit/components/gone"]


def test_an_incomplete_stage_is_found():
    paths = ["components/core/files.py", "components/pusher/__init__.py", "components/pusher/component.py", "components/__init__.py"]
    assert incomplete_stages(paths) == ["components/pusher: no executor.py"]
    assert incomplete_stages([*paths, "components/pusher/executor.py"]) == []


def test_a_package_of_tests_is_found():
    assert packages_of_tests(["tests/unit/__init__.py", "tests/unit/test_a.py"]) == ["tests/unit/__init__.py"]


@pytest.mark.parametrize(
    ("body", "powerless"),
    [
        ("f()", True),
        ("assert True", True),
        ("assert (f(), 'message')", True),
        ("assert f() or True", True),
        ("check()", True),
        ("assert f()", False),
        ("with pytest.raises(ValueError):\n        f()", False),
        ("np.testing.assert_allclose(f(), 1)", False),
        ("verify(f())", False),
        ("through(f())", False),
        ("again()", True),
    ],
)
def test_a_test_that_cannot_fail_is_found(body, powerless, snippet):
    text = f"""\
def verify(x):
    assert x
def through(x):
    verify(x)
def again():
    again()
def test_it():
    {body}
"""
    assert len(powerless_tests(snippet(text, "tests/unit/test_it.py"))) == int(powerless)
