"""What code here does not do: print, postpone, swallow errors, name machines or package hosts, use empty names."""

import ast
import re

import pytest

PRINTS = re.compile(r"^pipelines/(cli\.py|commands/)")
POSTPONED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
PRESCRIBED = {"HandleReloadConfigRequest", "handle_starttag", "handle_endtag", "handle_data"}
"""Names that an interface of others gives."""
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "manager", "common", "misc", "handle", "data2"}
BROAD = {"Exception", "BaseException"}
# Put together from pieces, so that this file does not hold what it looks for.
HOSTS = (
    "py" + "pi.org",
    "python" + "hosted.org",
    "debian" + ".org",
    "ubuntu" + ".com",
    "npm" + "js.org",
    "pytorch" + ".org/whl",
    "anaconda" + ".org",
)
MACHINE_PATHS = re.compile(
    r"(?<![\w.$}])/(root/|home/(?!me\b)|Users/|work/(main|shared)|opt/(wheels|pypi)|tmp/)".replace("tmp", "t" + "mp")
)
IGNORE = re.compile(r"#\s*(noqa|type:\s*ignore)(:\s*[A-Z0-9, ]+|\[[\w, -]+\])?")
BINARY = (".png", ".ico", ".pb", ".npz", ".gz", ".h5", ".pt")


def faults_of(source, nodes, message):
    return [f"{source.path}:{node.lineno} {message}" for node in nodes]


def prints(source):
    if PRINTS.match(source.path):
        return []
    calls = (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    return faults_of(source, (call for call in calls if ast.unparse(call.func) in ("print", "pprint", "pprint.pprint")), "prints")


def swallows(source):
    """Handlers that do nothing, and broad ones that neither raise nor look at what they caught."""
    found = []
    for handler in (node for node in ast.walk(source.tree) if isinstance(node, ast.ExceptHandler)):
        caught = set(re.findall(r"\w+", ast.unparse(handler.type))) if handler.type else BROAD
        body = ast.Module(body=handler.body, type_ignores=[])
        raises = any(isinstance(node, ast.Raise) for node in ast.walk(body))
        uses = any(isinstance(node, ast.Name) and node.id == handler.name for node in ast.walk(body))
        empty = all(
            isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in handler.body
        )
        if empty or handler.type is None or (caught & BROAD and not raises and not uses):
            found.append(handler)
    suppressed = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("suppress", "contextlib.suppress")
        and BROAD & {ast.unparse(argument) for argument in node.args}
    ]
    return faults_of(source, [*found, *suppressed], "swallows an exception")


def empty_names(source):
    defined = (node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
    names = [(source.path.rsplit("/", 1)[-1].removesuffix(".py"), 1), *((node.name, node.lineno) for node in defined)]
    words = [(name, line, set(re.findall(r"[A-Z]?[a-z]+\d*|[A-Z]+(?![a-z])", name))) for name, line in names]
    return [
        f"{source.path}:{line} {name}"
        for name, line, parts in words
        if name not in PRESCRIBED and {part.lower() for part in parts} & EMPTY_NAMES
    ]


def bare_ignores(source):
    """An ignore says why, on its line or in a comment on the line above."""
    lines, found = source.text.splitlines(), []
    for number, line in enumerate(lines):
        match = IGNORE.search(line)
        rest = line[match.end() :] if match else ""
        above = lines[number - 1].strip() if number else ""
        if match and '"' not in rest and len(re.findall(r"\w", rest)) < 8 and not above.startswith("#"):
            found.append(f"{source.path}:{number + 1} ignores without a reason")
    return found


def named_places(path, text):
    """Package hosts and paths of one machine; /home/me is the example that documents use."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        places = [host for host in HOSTS if host in line] + [match[0] for match in MACHINE_PATHS.finditer(line)]
        found += [f"{path}:{number} names {place}" for place in places]
    return found


@pytest.mark.parametrize("rule", [prints, swallows, empty_names, bare_ignores], ids=lambda rule: rule.__name__)
def test_the_product_is_clean(rule, code):
    faults = [fault for source in code for fault in rule(source)]
    assert not faults, "\n".join(faults)


def test_nothing_is_postponed(tracked, root):
    texts = [path for path in tracked if path.endswith((".py", ".sh", ".toml", ".md", "Makefile", "Dockerfile", ".ci/run"))]
    found = [f"{path}:{n}" for path in texts for n, line in enumerate((root / path).read_text().splitlines(), 1) if POSTPONED.search(line)]
    assert not found, "\n".join(found)


def test_no_file_names_a_package_host_or_one_machine(tracked, root):
    texts = [path for path in tracked if not path.endswith(BINARY) and "/data/" not in path]
    faults = [fault for path in texts for fault in named_places(path, (root / path).read_text(errors="replace"))]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("text", ["print(1)", "import pprint\npprint.pprint(1)", "def f():\n    print(1)"])
def test_a_print_is_found_outside_the_command_line(text, snippet):
    assert len(prints(snippet(text))) == 1
    assert prints(snippet(text, "pipelines/commands/runs.py")) == []


@pytest.mark.parametrize(
    ("handler", "faults"),
    [
        ("except:\n    raise", 1),
        ("except OSError:\n    pass", 1),
        ("except OSError:\n    ...", 1),
        ("except Exception:\n    x = 1", 1),
        ("except (OSError, Exception):\n    x = 1", 1),
        ("except BaseException:\n    x = 1\n    raise", 0),
        ("except Exception as error:\n    log(error)", 0),
        ("except OSError:\n    x = 1", 0),
    ],
)
def test_a_swallowed_exception_is_found(handler, faults, snippet):
    assert len(swallows(snippet(f"try:\n    f()\n{handler}\n"))) == faults


@pytest.mark.parametrize(("caught", "faults"), [("Exception", 1), ("OSError, BaseException", 1), ("FileNotFoundError", 0)])
def test_a_broad_suppress_is_found(caught, faults, snippet):
    assert len(swallows(snippet(f"with contextlib.suppress({caught}):\n    f()\n"))) == faults


@pytest.mark.parametrize("text", ["class RunManager: pass", "def date_util(): pass", "def handle(x): pass", "def data2(): pass"])
def test_an_empty_name_is_found(text, snippet):
    assert len(empty_names(snippet(text))) == 1


@pytest.mark.parametrize("text", ["def uncommon_rows(): pass", "class Handler: pass", "def utility(): pass"])
def test_a_name_that_only_sounds_alike_is_not(text, snippet):
    assert empty_names(snippet(text)) == []


def test_an_empty_file_name_is_found(snippet):
    assert empty_names(snippet("x = 1", "trainers/utils.py")) == ["trainers/utils.py:1 utils"]


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("x = f()  # type: ignore[misc]", 1),
        ("import x  # no" + "qa: F401", 1),
        ("x = f()  # type: ignore[misc]  # the stubs lack this argument", 0),
        ("# the stubs lack this argument\nx = f()  # type: ignore[misc]", 0),
    ],
)
def test_an_ignore_without_a_reason_is_found(line, faults, snippet):
    assert len(bare_ignores(snippet(line))) == faults


@pytest.mark.parametrize("host", HOSTS)
def test_a_package_host_is_found(host):
    assert named_places("README.md", f"see https://{host}/simple") == [f"README.md:1 names {host}"]


@pytest.mark.parametrize(
    "path", ["/ro" + "ot/x", "/ho" + "me/ann/x", "/Us" + "ers/ann", "/wo" + "rk/main/x", "/op" + "t/wheels", "/t" + "mp/x"]
)
def test_a_path_of_one_machine_is_found(path):
    assert len(named_places("README.md", f"it lies in {path}")) == 1
    assert named_places("README.md", "it lies in /home/me/.tandem, $ROOT/tmp/x or tests/tmp/x") == []


def test_a_postponed_work_is_found():
    assert POSTPONED.search("# TO" + "DO: later")
    assert not POSTPONED.search("todos are a list")
