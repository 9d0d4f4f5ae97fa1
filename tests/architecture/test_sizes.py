"""Files, functions and parameter lists stay small. There is no list of exceptions."""

import ast
import re
import statistics

import pytest

FILE_LINES = 400
TEST_FILE_LINES = 500
FUNCTION_LINES = 60
DO_LINES = 40
FUNCTION_LINES_MEDIAN = 10
FUNCTION_LINES_P90 = 35
PARAMETERS = 6
POSITIONAL = 2
ATEN_ROWS = re.compile(r"^components/exporter/lowering/ops_\w+\.py$")


def functions(source):
    return [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def line_count(function):
    """Lines from `def` to the end, docstring included, decorators not."""
    return function.end_lineno - function.lineno + 1


def long_file(source):
    limit = TEST_FILE_LINES if source.path.startswith("tests/") else FILE_LINES
    count = len(source.text.splitlines())
    return [f"{source.path}: {count} lines, at most {limit}"] if count > limit else []


def long_functions(source):
    faults = []
    for function in functions(source):
        limit = DO_LINES if function.name == "Do" else FUNCTION_LINES
        if line_count(function) > limit:
            faults.append(f"{source.path}:{function.lineno} {function.name}: {line_count(function)} lines, at most {limit}")
    return faults


def parameters(function, owner):
    """(positional, keyword-only) names, without self and cls; *args and **kwargs are no parameters of ours."""
    positional = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in function.decorator_list)
    if owner is not None and not static:
        positional = positional[1:]
    return positional, [argument.arg for argument in function.args.kwonlyargs]


def owned_functions(source):
    """Every function with the class that it is a method of, or None."""
    owners = {id(child): node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef) for child in node.body}
    return [(function, owners.get(id(function))) for function in functions(source)]


def many_parameters(source):
    faults = []
    for function, owner in owned_functions(source):
        positional, keyword = parameters(function, owner)
        if len(positional) + len(keyword) > PARAMETERS:
            faults.append(
                f"{source.path}:{function.lineno} {function.name}: {len(positional) + len(keyword)} parameters, at most {PARAMETERS}"
            )
    return faults


def positional_options(source):
    """Parameters with a default are keyword-only from the third on, in public functions whose signature is ours to choose.

    It is not where a class with a base overrides a method, nor in the lowering rows: those have the signature of torch's ATen op.
    """
    faults = []
    for function, owner in owned_functions(source):
        prescribed = (owner is not None and owner.bases) or ATEN_ROWS.search(source.path)
        positional, _ = parameters(function, owner)
        if not function.name.startswith("_") and not prescribed and function.args.defaults and len(positional) > POSITIONAL:
            faults.append(f"{source.path}:{function.lineno} {function.name}: options after {POSITIONAL} parameters are keyword-only")
    return faults


def gather(rule, sources):
    return [fault for source in sources for fault in rule(source)]


@pytest.mark.parametrize("rule", [long_file, long_functions], ids=lambda rule: rule.__name__)
def test_files_and_functions_are_small(rule, python_files):
    faults = gather(rule, python_files)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("rule", [many_parameters, positional_options], ids=lambda rule: rule.__name__)
def test_parameter_lists_are_small(rule, code):
    """Of the product alone: the parameters of a test are its fixtures and cases, nobody calls it."""
    faults = gather(rule, code)
    assert not faults, "\n".join(faults)


def test_most_functions_are_short(code):
    lengths = [line_count(function) for source in code for function in functions(source)]
    assert statistics.median(lengths) <= FUNCTION_LINES_MEDIAN
    assert statistics.quantiles(lengths, n=10)[-1] <= FUNCTION_LINES_P90


def body(lines):
    return "".join(f"    x{number} = {number}\n" for number in range(lines))


@pytest.mark.parametrize(("path", "limit"), [("trainers/fit.py", 400), ("tests/unit/test_fit.py", 500)])
def test_a_file_over_its_limit_is_found(path, limit, snippet):
    assert long_file(snippet("x = 1\n" * limit, path)) == []
    assert long_file(snippet("x = 1\n" * (limit + 1), path)) == [f"{path}: {limit + 1} lines, at most {limit}"]


@pytest.mark.parametrize(("name", "limit"), [("fit", 60), ("Do", 40)])
def test_a_function_over_its_limit_is_found(name, limit, snippet):
    assert long_functions(snippet(f"def {name}():\n{body(limit - 1)}")) == []
    assert len(long_functions(snippet(f"def {name}():\n{body(limit)}"))) == 1


def test_decorators_do_not_count(snippet):
    assert long_functions(snippet(f"@a\n@b\ndef fit():\n{body(59)}")) == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("def fit(a, b, c, *, d, e, f): pass", 0),
        ("def fit(a, b, c, *, d, e, f, g): pass", 1),
        ("def fit(a, b, /, c, d, e, f, *rest, **more): pass", 0),
        ("class A:\n    def fit(self, a, b, c, d, e, f): pass", 0),
        ("class A:\n    def fit(self, a, b, c, d, e, f, g): pass", 1),
        ("class A:\n    @staticmethod\n    def fit(a, b, c, d, e, f, g): pass", 1),
        ("def outer():\n    def inner(a, b, c, d, e, f, g): pass", 1),
    ],
)
def test_a_seventh_parameter_is_found(text, faults, snippet):
    assert len(many_parameters(snippet(text))) == faults


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("def fit(a, b, *, c=1): pass", 0),
        ("def fit(a, b=1): pass", 0),
        ("def fit(a, b, c): pass", 0),
        ("def fit(a, b, c=1): pass", 1),
        ("def _fit(a, b, c=1): pass", 0),
        ("class A:\n    def fit(self, a, b=1): pass", 0),
        ("class A:\n    def fit(self, a, b, c=1): pass", 1),
        ("class A(Base):\n    def on_step(self, a, b, c=1): pass", 0),
    ],
)
def test_a_third_parameter_with_a_default_is_found(text, faults, snippet):
    assert len(positional_options(snippet(text))) == faults
    assert positional_options(snippet(text, "components/exporter/lowering/ops_index.py")) == []
