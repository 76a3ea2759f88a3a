"""House rules: layers, sizes, annotations, docstrings, names and words, read from the source itself."""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TREES = ("dags", "plugins", "spark", "lab")
FILES = sorted(p for tree in TREES for p in (ROOT / tree).rglob("*.py"))
PARSED = {p.relative_to(ROOT).as_posix(): ast.parse(p.read_text(encoding="utf-8")) for p in FILES}
PRODUCT = [p for p in PARSED if p.startswith("plugins/kafka_dr/")]
DOMAIN = [p for p in PRODUCT if "/domain/" in p]
LAYERS = ("domain", "hooks", "operators", "web")
OPEN_TO_ALL = ("kafka_dr.vocabulary", "kafka_dr.errors")
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


def public(names: list[str]) -> bool:
    """Whether no part of a dotted name begins with an underscore."""
    return not any(name.startswith("_") for name in names)


def definitions(tree: ast.AST, inside: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
    """Public classes, functions and methods, not those inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function | ast.ClassDef):
            yield (*inside, node.name), node
            if isinstance(node, ast.ClassDef):
                yield from definitions(node, (*inside, node.name))


def report(title: str, found: list[str]) -> None:
    """Fail with the places."""
    assert not found, f"{title}: " + "; ".join(found[:15])


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_go_one_way(layer: str) -> None:
    """No layer imports one above it: dags -> operators -> hooks -> domain."""
    above = tuple(f"kafka_dr.{other}" for other in LAYERS[LAYERS.index(layer) + 1 :])
    found = [f"{p}: {m}" for p in PRODUCT if f"/{layer}/" in p for m in imports(p) if above and m.startswith(above)]
    report("imports upwards", found)


def test_dags_import_operators_and_policy_only() -> None:
    """A DAG orders steps: it reaches for no hook, no domain, no client."""
    allowed = (
        "kafka_dr.operators.",
        "kafka_dr.sensors.",
        "kafka_dr.dag_policy.",
        "airflow.",
        "__future__.",
        "datetime.",
    )
    report(
        "a DAG imports",
        [f"{p}: {m}" for p in PARSED if p.startswith("dags/") for m in imports(p) if not m.startswith(allowed)],
    )


@pytest.mark.parametrize("module", ["vocabulary", "errors"])
def test_words_and_errors_import_nothing_of_ours(module: str) -> None:
    """What every layer may import imports none."""
    assert not [m for m in imports(f"plugins/kafka_dr/{module}.py") if m.startswith("kafka_dr")]


IMPURE = (
    "time os io socket random secrets subprocess threading asyncio pathlib tempfile shutil sqlite3 urllib.request http"
    " airflow confluent_kafka requests jinja2 sqlalchemy pyspark pandas numpy yaml tenacity".split()
)


def impure(path: str) -> list[str]:
    """What a domain module imports of clocks, I/O and clients."""
    return [f"{path}: {m}" for m in imports(path) for bad in IMPURE if m == bad or m.startswith(bad + ".")]


def test_the_domain_is_pure() -> None:
    """The domain imports no clock, no I/O, no Airflow, no client, no templates."""
    report("the domain imports", [line for p in DOMAIN for line in impure(p)])


def test_the_domain_never_asks_for_the_time() -> None:
    """No call of now, today, utcnow, open or print in the domain: the time is given."""
    banned = {"now", "today", "utcnow", "open", "print", "input"}
    calls = [(p, n) for p in DOMAIN for n in ast.walk(PARSED[p]) if isinstance(n, ast.Call)]
    names = [
        (p, n.lineno, n.func.attr if isinstance(n.func, ast.Attribute) else getattr(n.func, "id", "")) for p, n in calls
    ]
    report("asked in the domain", [f"{p}:{line} {name}" for p, line, name in names if name in banned])


def test_the_domain_imports_only_itself_and_words() -> None:
    """Of ours, the domain knows only the domain, the vocabulary and the errors."""
    ours = [(p, m) for p in DOMAIN for m in imports(p) if m.startswith("kafka_dr")]
    report("the domain imports", [f"{p}: {m}" for p, m in ours if not m.startswith(("kafka_dr.domain", *OPEN_TO_ALL))])


@pytest.mark.parametrize(
    ("tree", "banned"),
    [
        ("spark/", ("kafka_dr.", "airflow", "lab")),
        ("plugins/", ("kafka_dr_spark", "pyspark", "lab.")),
        ("lab/", ("kafka_dr.", "kafka_dr_spark")),
    ],
)
def test_the_trees_do_not_know_each_other(tree: str, banned: tuple[str, ...]) -> None:
    """spark/ and plugins/ share a schema, not code; lab/ imports neither, the judge above all."""
    report(
        f"{tree} imports",
        [f"{p}: {m}" for p in PARSED if p.startswith(tree) for m in imports(p) if m.startswith(banned)],
    )


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


def test_returns_are_annotated() -> None:
    """At least 95 % of all functions say what they return."""
    bare = [f"{p}:{f.name}" for p, f in ALL if f.returns is None]
    share = 1 - len(bare) / len(ALL)
    print(f"annotated: {share:.1%}")
    assert share >= 0.95, bare


def test_what_is_public_is_documented() -> None:
    """At least 95 % of public classes, functions and methods have a docstring; every module has one."""
    found = [
        (p, names, node)
        for p, tree in PARSED.items()
        for names, node in definitions(tree)
        if public([*Path(p).with_suffix("").parts[1:], *names])
    ]
    bare = [f"{p}:{'.'.join(names)}" for p, names, node in found if ast.get_docstring(node) is None]
    share = 1 - len(bare) / len(found)
    print(f"documented: {share:.1%} of {len(found)}")
    assert share >= 0.95, bare
    report(
        "modules without a docstring",
        [p for p, tree in PARSED.items() if tree.body and ast.get_docstring(tree) is None],
    )


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
        for name in ("README.md", "CHANGELOG.md", "Makefile", "pyproject.toml", "requirements.txt")
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
    """Hooks and operators raise the tree's errors (and Airflow's, at its border), never bare ones."""
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
