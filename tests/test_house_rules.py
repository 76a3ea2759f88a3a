"""House rules that no tool knows: sizes, names and words, read from the source itself."""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TREES = ("dags", "plugins", "spark", "lab")
FILES = sorted(p for tree in TREES for p in (ROOT / tree).rglob("*.py"))
PARSED = {p.relative_to(ROOT).as_posix(): ast.parse(p.read_text(encoding="utf-8")) for p in FILES}
PRODUCT = [p for p in PARSED if p.startswith("plugins/kafka_dr/")]
DOMAIN = [p for p in PRODUCT if "/domain/" in p]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from runtime_nodes(node)


def imports(path: str) -> set[str]:
    """Modules that a file imports when it runs, in full."""
    found = set()
    for node in runtime_nodes(PARSED[path]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} line {node.lineno}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def functions(path: str) -> list[Function]:
    """All functions and methods of a file."""
    return [node for node in ast.walk(PARSED[path]) if isinstance(node, Function)]


ALL = [(path, f) for path in PARSED for f in functions(path)]


def length(function: Function) -> int:
    """Lines from `def` to the last one, less the docstring."""
    doc = function.body[0] if ast.get_docstring(function) is not None else None
    return function.end_lineno - function.lineno + 1 - (doc.end_lineno - doc.lineno + 1 if doc else 0)


def report(title: str, found: list[str]) -> None:
    """Fail with the places."""
    assert not found, f"{title}: " + "; ".join(found[:15])


def test_dags_import_steps_and_policy_only() -> None:
    """A DAG orders steps: it reaches for no hook, no domain, no client."""
    allowed = (
        "kafka_dr.steps.",
        "kafka_dr.dag_policy.",
        "airflow.",
        "__future__.",
        "datetime.",
    )
    report(
        "a DAG imports",
        [f"{p}: {m}" for p in PARSED if p.startswith("dags/") for m in imports(p) if not m.startswith(allowed)],
    )


def test_the_domain_never_asks_for_the_time() -> None:
    """No call of now, today, utcnow, open or print in the domain: the time is given."""
    banned = {"now", "today", "utcnow", "open", "print", "input"}
    calls = [(p, n) for p in DOMAIN for n in ast.walk(PARSED[p]) if isinstance(n, ast.Call)]
    names = [
        (p, n.lineno, n.func.attr if isinstance(n.func, ast.Attribute) else getattr(n.func, "id", "")) for p, n in calls
    ]
    report("asked in the domain", [f"{p}:{line} {name}" for p, line, name in names if name in banned])


def test_dags_only_say_what_follows_what() -> None:
    """No if, for, while or try in a DAG, and at most 120 lines."""
    branching = (
        ast.If,
        ast.For,
        ast.While,
        ast.Try,
        ast.IfExp,
        ast.ListComp,
        ast.DictComp,
        ast.SetComp,
        ast.GeneratorExp,
        ast.Match,
    )
    report(
        "a DAG decides",
        [
            f"{p}:{n.lineno} {type(n).__name__}"
            for p in PARSED
            if p.startswith("dags/")
            for n in ast.walk(PARSED[p])
            if isinstance(n, branching)
        ],
    )
    report(
        "a DAG is long", [p for p in PARSED if p.startswith("dags/") and len((ROOT / p).read_text().splitlines()) > 120]
    )


def test_functions_are_short() -> None:
    """Median at most 10 lines, 90th percentile at most 30, none above 60."""
    lengths = sorted(length(f) for _, f in ALL)
    median, p90 = statistics.median(lengths), lengths[int(0.9 * (len(lengths) - 1))]
    print(f"{len(lengths)} functions: median {median}, p90 {p90}, longest {lengths[-1]}")
    assert median <= 10 and p90 <= 30
    report("above 60 lines", [f"{p}:{f.name} {length(f)}" for p, f in ALL if length(f) > 60])


def documented(tree: ast.AST) -> Iterator[ast.AST]:
    """The module, classes and functions that have a docstring."""
    kinds = (ast.Module, ast.ClassDef, *Function.__args__)
    yield from (node for node in ast.walk(tree) if isinstance(node, kinds) and ast.get_docstring(node) is not None)


def test_a_docstring_begins_with_a_short_line() -> None:
    """The first line of a docstring has at most 110 characters."""
    long = [
        f"{path}:{getattr(node, 'lineno', 1)}"
        for path, tree in PARSED.items()
        for node in documented(tree)
        if len(ast.get_docstring(node).splitlines()[0]) > 110
    ]
    report("long first lines", long)


def test_folders_hold_few_modules() -> None:
    """A folder has at most 20 modules: its listing can be read at a glance."""
    folders = Counter(p.parent.relative_to(ROOT).as_posix() for tree in (*TREES, "tests") for p in modules_of(tree))
    report("crowded folders", [f"{folder}: {count} modules" for folder, count in folders.items() if count > 20])


def test_files_are_short() -> None:
    """At most 400 lines a file, 700 in tests."""
    longest = {**dict.fromkeys(TREES, 400), "tests": 700}
    long = [
        f"{p.relative_to(ROOT)}: {lines} lines"
        for tree, most in longest.items()
        for p in modules_of(tree)
        if (lines := len(p.read_text(encoding="utf-8").splitlines())) > most
    ]
    report("long files", long)


def modules_of(tree: str) -> list[Path]:
    """The Python files of a tree."""
    return sorted((ROOT / tree).rglob("*.py"))


#: A program's entry point; commands of the lab; what the Spark jobs are called; what Alembic calls in a revision.
ONE_WORD = {"main", "up", "down", "assess", "find", "translate", "upgrade"}


def test_a_function_is_verb_and_object() -> None:
    """Names of public functions have two words at least."""
    top = [(p, n) for p, tree in PARSED.items() for n in tree.body if isinstance(n, Function)]
    names = [(p, n.name) for p, n in top if not n.name.startswith("_") and n.name not in ONE_WORD]
    report("functions of one word", [f"{p}: {name}" for p, name in names if "_" not in name])


def test_a_class_name_means_one_thing() -> None:
    """No two classes of product, Spark jobs and lab have the same name."""
    places: dict[str, list[str]] = {}
    for path, tree in PARSED.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path)
    report("classes of one name", [f"{name}: {', '.join(at)}" for name, at in places.items() if len(at) > 1])


def test_no_module_hides_another() -> None:
    """No file is called like a library that Airflow's loader would hide, nor by a name that explains nothing."""
    banned = {"kafka", "types", "logging", "queue", "spark", "utils", "helpers", "common", "util", "misc"}
    report("names", [p for p in PARSED if Path(p).stem in banned or banned & set(Path(p).parts[1:-1])])


def texts() -> Iterator[tuple[str, str]]:
    """Everything a person may read in the project."""
    places = [
        *FILES,
        *(
            p
            for tree in (*TREES, "runbooks")
            for p in (ROOT / tree).rglob("*")
            if p.suffix in {".md", ".j2", ".json", ".yaml", ".xml"}
        ),
    ]
    places += [
        ROOT / name
        # Not the locks: they hold names that others gave to their packages.
        for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "Makefile", "pyproject.toml")
        if (ROOT / name).exists()
    ]
    yield from ((p.relative_to(ROOT).as_posix(), p.read_text(encoding="utf-8")) for p in places)


FORBIDDEN = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "/work/", "design" + r"\.md"]))
MADE_BY = re.compile(
    r"\b("
    + "|".join(
        [
            "spice" + "rack",
            "pg" + "consul",
            "patr" + "oni",
            "vi" + "tess",
            "open" + "verse",
            "gen" + "tropy",
            "chat" + "gpt",
            "cla" + "ude",
            "ll" + "m",
            "ai" + "-generated",
            "pro" + "mpt",
        ]
    )
    + r")\b",
    re.IGNORECASE,
)


def test_nothing_is_left_to_do_and_no_source_is_named() -> None:
    """No open ends, and no word about how or after what the project was made."""
    found = [
        f"{p}:{n}: {line.strip()[:80]}"
        for p, text in texts()
        for n, line in enumerate(text.splitlines(), 1)
        if FORBIDDEN.search(line) or MADE_BY.search(line)
    ]
    report("words", found)


def test_no_cluster_is_named_in_the_product() -> None:
    """Direction is a parameter: no alias stands in code."""
    strings = [
        (p, n)
        for p in PARSED
        if p.startswith(("plugins/", "dags/", "spark/"))
        for n in ast.walk(PARSED[p])
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]
    report("aliases", [f"{p}:{n.lineno}" for p, n in strings if n.value in ("primary", "standby")])


def test_only_our_own_errors_are_raised() -> None:
    """Hooks, actions and steps raise the tree's errors (and Airflow's, at its border), never bare ones."""
    banned = {"Exception", "RuntimeError", "BaseException", "AssertionError"}
    raised = [
        (p, n.lineno, getattr(n.exc.func if isinstance(n.exc, ast.Call) else n.exc, "id", ""))
        for p in PRODUCT
        for n in ast.walk(PARSED[p])
        if isinstance(n, ast.Raise) and n.exc
    ]
    report("raised", [f"{p}:{line} {name}" for p, line, name in raised if name in banned])


def test_the_loader_skips_the_package(root: Path) -> None:
    """plugins/.airflowignore names the package."""
    assert "kafka_dr/" in (root / "plugins" / ".airflowignore").read_text().split()


def test_airflow_loads_our_plugins_without_errors() -> None:
    """Airflow's own loader reports no import error, and registers no module of ours under its bare name."""
    from airflow import plugins_manager

    assert plugins_manager.get_import_errors() == {}
    assert "switchback_plugin" in sys.modules, "the loader did not run"
    stems = {Path(p).stem for p in PRODUCT} - {"__init__"}
    ours = [s for s in stems if str(ROOT / "plugins" / "kafka_dr") in str(getattr(sys.modules.get(s), "__file__", ""))]
    report("bare stems", ours)


def test_journal_keys_are_read_as_strings_by_the_entries_alone() -> None:
    """Payloads of the journal are read as facts; only what reads evidence or moves whole payloads names no fact."""
    keyed = [
        f"{path}:{node.lineno}"
        for path in PRODUCT
        if "/procedure/entries/" not in path
        for node in ast.walk(PARSED[path])
        if reads_a_key(node)
    ]
    report("a payload is read by a key", keyed)


def reads_a_key(node: ast.AST) -> bool:
    """Whether an expression takes a key out of a `payload`, asks for one, or spreads it."""
    match node:
        case ast.Subscript(value=payload) | ast.Attribute(value=payload, attr="get" | "keys" | "items" | "values"):
            return is_payload(payload)
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[payload]):
            return is_payload(payload)
    return False


def is_payload(node: ast.AST) -> bool:
    """Whether an expression is a payload, by its name, or one made from a fact."""
    if isinstance(node, ast.Call):
        node = node.func
    return (isinstance(node, ast.Attribute) and node.attr == "payload") or (
        isinstance(node, ast.Name) and node.id == "payload"
    )
