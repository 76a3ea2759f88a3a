"""Java classes of tests and benchmarks: compiled once, found again, and errors say what to do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.install.jars import jars_folder
from lab.install.java_compiler import compile_java
from lab.install.setup import NO_COMPILER, find_compiler, find_java

pytestmark = pytest.mark.skipif(find_compiler() is None, reason=NO_COMPILER)
WORKING = "public class Hello { public static void main(String[] words) { System.out.print(words[0]); } }"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A class's source, for a user who has compiled nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "Hello.java"
    path.write_text(WORKING)
    return path


def test_a_class_is_compiled_once_and_runs(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call needs no compiler; another text, or another class path, gives another folder."""
    first = compile_java([source], "")
    command = [find_java(), "-cp", str(first), "Hello", "there"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "there"
    assert [path.name for path in first.parent.iterdir()] == [first.name]
    monkeypatch.setattr("lab.install.java_compiler.find_compiler", lambda: None)
    assert compile_java([source], "") == first
    source.write_text(WORKING.replace("words[0]", "words[1]"))
    with pytest.raises(LabError, match="no Java compiler .*lab.install.setup jdk"):
        compile_java([source], "")


def test_an_error_in_a_source_is_told_and_leaves_nothing(source: Path) -> None:
    """With the compiler's words, as the first call and as the second."""
    source.write_text(WORKING.replace("String", "Strin"))
    for _ in range(2):
        with pytest.raises(LabError, match=r"(?s)Hello.java cannot be compiled; .*cannot find symbol"):
            compile_java([source], "")
    assert list((source.parent / "cache" / "switchback").iterdir()) == []


def test_the_peers_of_the_benchmarks_compile() -> None:
    """Against the jars that the lab runs."""
    for peer in Path("tests/benchmarks/peers").glob("*.java"):
        assert (compile_java([peer], f"{jars_folder() / 'kafka'}/*") / f"{peer.stem}.class").is_file()
