"""`make check` finds one mutant of each of its rules, and nothing in the checkout as it is. No lab is needed."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.check import ROOT, TOOLS, run_tool

ACTIONS, DOMAIN, HOOKS, SPARK = (
    f"{folder}/mutant.py"
    for folder in (
        "plugins/kafka_dr/actions/scope",
        "plugins/kafka_dr/domain",
        "plugins/kafka_dr/hooks",
        "spark/kafka_dr_spark",
    )
)
DAG, LAB, TEST = "dags/mutant.py", "lab/mutant.py", "tests/mutant.py"
HOUSE_RULES = "tests/test_house_rules.py"
CACHES = ("__pycache__", ".pytest_cache", ".hypothesis", "*.pyc")


class Mutant(NamedTuple):
    """One edit of one file that breaks one rule.

    Attributes:
        rule: what the tool's output must hold.
        path: the file; made where it does not exist.
        text: what breaks the rule; it comes at the file's end.
        replaces: text of the file in whose place ``text`` comes instead.
        named: what the output calls the file; by default its path.
    """

    tool: str
    rule: str
    path: str
    text: str
    replaces: str = ""
    named: str = ""


def function(name: str, lines: int) -> str:
    """Return a function of so many lines."""
    return f"def {name}() -> None:\n" + "    print()\n" * (lines - 1)


def functions(count: int, lines: int) -> str:
    """Return so many functions of so many lines each."""
    return "".join(function(f"function_{number}", lines) for number in range(count))


TYPES = [
    Mutant("types", f"[{rule}]", path, text)
    for rule, path, text in (
        ("assignment", HOOKS, 'NUMBER: int = "one"\n'),
        ("ignore-without-code", LAB, 'NUMBER: int = "one"  # type: ignore\n'),
        ("no-any-return", SPARK, "import json\n\n\ndef first(text: str) -> str:\n    return json.loads(text)\n"),
        ("no-untyped-def", LAB, "def double(number):\n    return 2 * number\n"),
        ("no-untyped-def", SPARK, "def product(one: int, other) -> int:\n    return one * int(other)\n"),
        ("redundant-cast", LAB, "from typing import cast\n\nNUMBER = 1\nSAME = cast(int, NUMBER)\n"),
        ("type-arg", DOMAIN, "def first(names: list) -> str:\n    return str(names[0])\n"),
        ("unused-ignore", HOOKS, "NUMBER = 1  # type: ignore[assignment]\n"),
    )
]

LINT = [
    Mutant("lint", rule, path, text)
    for rule, path, text in (
        ("F401", HOOKS, "import json\n"),
        ("F841", TEST, "def one() -> None:\n    number = 1\n"),
        ("I001", HOOKS, "import sys\nimport os\n"),
        ("E501", HOOKS, f'NAME = "{"x" * 120}"\n'),
        ("D100", HOOKS, "NUMBER = 1\n"),
        ("D101", LAB, "class One:\n    number = 1\n"),
        ("D103", HOOKS, "def one() -> int:\n    return 1\n"),
        ("D200", HOOKS, '"""\nOne.\n"""\n'),
        ("ANN001", HOOKS, "def one(number) -> int:\n    return number\n"),
        ("BLE001", HOOKS, "try:\n    NUMBER = 1\nexcept Exception:\n    NUMBER = 2\n"),
        ("C901", HOOKS, "def one(n: int) -> None:\n" + "    if n:\n        n -= 1\n" * 11),
        ("DTZ005", HOOKS, "import datetime\n\nNOW = datetime.datetime.now()\n"),
        ("ERA001", HOOKS, "# number = 1\n"),
        ("PTH123", HOOKS, 'TEXT = open("one").read()\n'),
        ("S101", HOOKS, "assert __name__\n"),
        ("SLF001", HOOKS, "def one(other: object) -> object:\n    return other._one\n"),
        ("T201", HOOKS, 'print("one")\n'),
        ("T201", SPARK, 'print("one")\n'),
    )
]

FORMAT = [Mutant("format", "File would be reformatted", HOOKS, "NUMBER  =  1\n")]

#: By contract: a module, and what it imports.
LAYERS = [
    Mutant("layers", f"{contract} BROKEN", path, f"import {imported}\n", named=module)
    for contract, path, module, imported in (
        ("Each layer imports those below it only", HOOKS, "kafka_dr.hooks.mutant", "kafka_dr.steps"),
        ("Actions import those below them only", ACTIONS, "kafka_dr.actions.scope.mutant", "kafka_dr.actions.restore"),
        (
            "Airflow is imported by steps, commands, web and connections only",
            HOOKS,
            "kafka_dr.hooks.mutant",
            "airflow",
        ),
        ("The domain is pure: no clock, no I/O, no client", DOMAIN, "kafka_dr.domain.mutant", "time"),
        (
            "Product, Spark jobs and lab share no code: the lab's checker checks the others",
            LAB,
            "lab.mutant",
            "kafka_dr.vocabulary",
        ),
        ("The product imports no Spark", HOOKS, "kafka_dr.hooks.mutant", "pyspark"),
        ("Spark jobs import no Airflow", SPARK, "kafka_dr_spark.mutant", "airflow"),
        ("What production runs imports no package of lab and tests", HOOKS, "kafka_dr.hooks.mutant", "rich"),
    )
]

REQUIREMENTS = [
    Mutant("requirements", "DEP001", HOOKS, "import no_such_package\n"),
    Mutant("requirements", "DEP003", HOOKS, "import click\n"),
    Mutant("requirements", "DEP004", HOOKS, "import moto\n"),
    Mutant(
        "requirements",
        "'click' defined as a dependency",
        "pyproject.toml",
        'dependencies = [\n    "click",\n',
        "dependencies = [\n",
    ),
]

HOUSE = [
    Mutant("house rules", f"test_{rule}", path, text, *more)
    for rule, path, text, *more in (
        ("dags_import_steps_and_policy_only", DAG, "import kafka_dr.hooks\n"),
        ("the_domain_never_asks_for_the_time", DOMAIN, 'TEXT = open("one")\n'),
        ("dags_only_say_what_follows_what", DAG, "if True:\n    NUMBER = 1\n"),
        ("dags_only_say_what_follows_what", DAG, "# One line.\n" * 121),
        ("functions_are_short", LAB, function("long", 61)),
        ("functions_are_short", LAB, functions(900, 31), "", "p90 31"),
        ("functions_are_short", LAB, functions(9000, 11), "", "median 11"),
        ("a_docstring_begins_with_a_short_line", LAB, f'"""{"x" * 111}"""\n'),
        ("folders_hold_few_modules", "tests/support/mutant.py", '"""One."""\n', "", "tests/support: 21 modules"),
        ("files_are_short", LAB, "NUMBER = 1\n" * 401),
        ("a_function_is_verb_and_object", LAB, "def one() -> None:\n    pass\n"),
        ("a_class_name_means_one_thing", LAB, "class KafkaCluster:\n    pass\n"),
        ("no_module_hides_another", "lab/utils.py", '"""One."""\n'),
        # In two parts: a search of the sources for these words must find none.
        ("nothing_is_left_to_do_and_no_source_is_named", LAB, "# TO" + "DO: one\n"),
        ("nothing_is_left_to_do_and_no_source_is_named", "README.md", "\nLike patr" + "oni.\n"),
        ("no_cluster_is_named_in_the_product", HOOKS, 'ALIAS = "standby"\n'),
        (
            "journal_keys_are_read_as_strings_by_the_entries_alone",
            HOOKS,
            'def one(entry):\n    return entry.payload["key"]\n',
        ),
        ("only_our_own_errors_are_raised", HOOKS, "def one() -> None:\n    raise RuntimeError\n"),
        ("the_loader_skips_the_package", "plugins/.airflowignore", "other/\n", "kafka_dr/\n", ".airflowignore"),
        (
            "airflow_loads_our_plugins_without_errors",
            "plugins/switchback_plugin.py",
            "\n\nimport no_such_package\n",
            "",
            "switchback_plugin.py",
        ),
    )
]

MUTANTS = [*TYPES, *LINT, *FORMAT, *LAYERS, *REQUIREMENTS, *HOUSE]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with the tools' caches."""

    def skipped(folder: str, names: list[str]) -> set[str]:
        made_by_runs = {".venv", ".git", ".lab", "evidence", "artifacts"} if Path(folder) == ROOT else set()
        return made_by_runs | shutil.ignore_patterns(*CACHES)(folder, names)

    return shutil.copytree(ROOT, tmp_path_factory.mktemp("checkout") / "switchback", ignore=skipped)


@contextmanager
def applied(mutant: Mutant, checkout: Path) -> Iterator[None]:
    """Edit the mutant's file, and undo that at the end."""
    file = checkout / mutant.path
    before = file.read_text(encoding="utf-8") if file.exists() else None
    assert mutant.replaces in (before or ""), f"{mutant.path} does not hold {mutant.replaces!r}"
    edited = before.replace(mutant.replaces, mutant.text, 1) if mutant.replaces else (before or "") + mutant.text
    file.write_text(edited, encoding="utf-8")
    try:
        yield
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_text(before, encoding="utf-8")


@pytest.mark.parametrize("tool", TOOLS)
def test_nothing_is_found_in_the_checkout(checkout: Path, tool: str) -> None:
    """Each tool passes before any mutant is made."""
    found = run_tool(tool, checkout)
    assert found.code == 0, found.output


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.tool}-{mutant.rule}-{mutant.path}")
def test_each_mutant_is_found(checkout: Path, mutant: Mutant) -> None:
    """The rule's tool fails, and names rule and file."""
    with applied(mutant, checkout):
        found = run_tool(mutant.tool, checkout)
    assert found.code != 0
    assert mutant.rule in found.output and (mutant.named or mutant.path) in found.output, found.output


def test_each_rule_of_the_project_has_a_mutant() -> None:
    """Each tool, each house rule and each contract between layers."""
    rules = {tool: {mutant.rule for mutant in MUTANTS if mutant.tool == tool} for tool in TOOLS}
    assert all(rules.values())
    tests = re.findall(r"^def (test_\w+)", (ROOT / HOUSE_RULES).read_text(encoding="utf-8"), re.MULTILINE)
    assert set(tests) == rules["house rules"]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    assert {f"{contract['name']} BROKEN" for contract in contracts} == rules["layers"]
