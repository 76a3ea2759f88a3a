"""MirrorMaker 2's topic and group filters: comma-separated Java regular expressions that match whole names.

MirrorMaker 2 splits a list at every comma (also inside `{1,3}`), joins the pieces with `|` and matches the whole name.
This module refuses a pattern that Java and Python read differently, and a pattern whose matching could take for ever.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

# Python's own parse tree of a pattern: the only way to its structure without writing a parser.
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Literal

from kafka_dr.domain.kafka_model.kafka_version import kafka_version
from kafka_dr.domain.mirror_maker.naming import LONGEST_TOPIC, DefaultNaming, Naming, NamingSpec
from kafka_dr.errors import BadInput

ALL = ".*"
TOPICS_EXCLUDE = r"mm2.*\.internal, .*\.replica, __.*"
INTERNAL_BEFORE_4_0 = (".internal", "-internal")
GROUPS_EXCLUDE = "console-consumer-.*, connect-.*, __.*"
LONGEST_LIST = 10_000
MOST_STEPS = 20_000_000

Kind = Literal["topic", "group"]
#: Settings of MirrorMaker 2 whose value is a list of patterns.
PATTERN_KEYS: Mapping[str, Kind] = {
    "topics": "topic",
    "topics.exclude": "topic",
    "topics.blacklist": "topic",
    "groups": "group",
    "groups.exclude": "group",
    "groups.blacklist": "group",
}

_TOKEN = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?|\{\d+(?:,\d*)?\}|\(\?<[A-Za-z][A-Za-z0-9]*>|\(\?<?[^\w\s]?|.", re.DOTALL
)
_IN_CLASS = re.compile(r"\\.|&&|.", re.DOTALL)
_SAME_ESCAPES = frozenset("dDwWsStnrfA")  # not \\b: to Java a non-ASCII letter is part of a word, to re.ASCII it is not
_GROUPS = frozenset({"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"})
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
_EVERY = frozenset(range(129))
_DIGITS, _SPACES = frozenset(map(ord, "0123456789")), frozenset(map(ord, " \t\n\r\f\v"))
_WORD = _DIGITS | frozenset(code for code in range(128) if chr(code).isalpha() or chr(code) == "_")
_CATEGORIES = {
    ops.CATEGORY_DIGIT: _DIGITS,
    ops.CATEGORY_SPACE: _SPACES,
    ops.CATEGORY_WORD: _WORD,
    ops.CATEGORY_NOT_DIGIT: _EVERY - _DIGITS,
    ops.CATEGORY_NOT_SPACE: _EVERY - _SPACES,
    ops.CATEGORY_NOT_WORD: _EVERY - _WORD,
}


@dataclass(frozen=True)
class PatternList:
    """A comma-separated list of Java regular expressions, each matched against the whole name; see `pattern_list`."""

    text: str
    compiled: re.Pattern[str] | None

    def matches(self, name: str) -> bool:
        """Whether any of the expressions matches the whole name; an empty list matches nothing."""
        return self.compiled is not None and self.compiled.fullmatch(name) is not None


@dataclass(frozen=True)
class NameFilter:
    """Selects names that one list includes and another does not exclude, as MirrorMaker 2's DefaultGroupFilter does."""

    include: PatternList
    exclude: PatternList

    def __call__(self, name: str) -> bool:
        """Whether an include pattern matches the name and no exclude pattern does."""
        return self.selects(name)

    def selects(self, name: str) -> bool:
        """Whether an include pattern matches the name and no exclude pattern does."""
        return self.include.matches(name) and not self.exclude.matches(name)


@dataclass(frozen=True)
class TopicFilter(NameFilter):
    """Which topics of its source a flow mirrors.

    Attributes:
        naming: recognises internal topics, heartbeats and topics that came from the target.
        target: the flow's target alias; if None, topics that came from the target are selected, too.
        heartbeats: `heartbeats.replication.enabled`: heartbeats topics are mirrored even if the lists exclude them.
        before_4_0: the worker has Kafka 3.9 or earlier, which treats more names as internal.
    """

    naming: Naming
    target: str | None = None
    heartbeats: bool = True
    before_4_0: bool = False

    def selects(self, name: str) -> bool:
        """Whether MirrorMaker 2 mirrors the topic."""
        selected = super().selects(name) or (self.heartbeats and self.naming.is_heartbeats(name))
        return (
            selected
            and not self.naming.is_internal(name)
            and not (self.target and self.naming.is_cycle(name, self.target))
            and not (self.before_4_0 and name.endswith(INTERNAL_BEFORE_4_0))
        )


def topic_filter_of(
    settings: Mapping[str, str],
    naming: Naming | None = None,
    target: str | None = None,
    version: str = "",
) -> TopicFilter:
    """Return the topic filter of a source connector's settings, with MirrorMaker 2's defaults.

    Args:
        settings: `topics`, `topics.exclude` (or the older `topics.blacklist`), `heartbeats.replication.enabled`.
        naming: the topology's naming; by default, internal topics are recognised by the default separator.
        target: the flow's target alias, to recognise loops.
        version: the worker's version; an unknown version counts as 4.0 or later, which excludes least.
    """
    # Before 4.0 the default of topics.exclude named internal topics, too; MirrorMaker 2 skips these in any case.
    exclude = settings.get("topics.exclude", settings.get("topics.blacklist", TOPICS_EXCLUDE))
    heartbeats = settings.get("heartbeats.replication.enabled", "true").strip().lower() != "false"
    include = pattern_list(settings.get("topics", ALL), "topic")
    before_4_0 = (kafka_version(version) or (4, 0)) < (4, 0)
    naming = naming or DefaultNaming(NamingSpec("default"), ())
    return TopicFilter(include, pattern_list(exclude, "topic"), naming, target, heartbeats, before_4_0)


def group_filter_of(settings: Mapping[str, str]) -> NameFilter:
    """Return a checkpoint connector's group filter by `groups` and `groups.exclude` (or `groups.blacklist`)."""
    exclude = settings.get("groups.exclude", settings.get("groups.blacklist", GROUPS_EXCLUDE))
    return NameFilter(pattern_list(settings.get("groups", ALL), "group"), pattern_list(exclude, "group"))


def list_items(text: str) -> tuple[str, ...]:
    """Return the parts of a comma-separated list, split as Kafka does: at every comma; blanks around them removed."""
    return tuple(item.strip() for item in text.split(",")) if text.strip() else ()


@lru_cache(maxsize=64)
def pattern_list(text: str, kind: Kind) -> PatternList:
    """Return a comma-separated list of Java regular expressions, compiled; cached, because the same lists recur.

    Args:
        kind: whether the expressions are for topics or for groups; characters that no topic name has are refused in
            expressions for topics.

    Raises:
        BadInput: the list cannot be used; `reason` says why.
    """
    if problem := pattern_problem(text, kind):
        raise BadInput(
            problem,
            next_step=f"correct the list {_shown(text)} in the connector, topology or param that sets it: a"
            f" comma-separated list of Java regular expressions for {kind} names, such as `orders.*, payments`",
        )
    items = list_items(text)
    return PatternList(text, re.compile(_as_python("|".join(items), kind), re.ASCII) if items else None)


def pattern_problem(text: str, kind: Kind) -> str | None:
    """Return why a list of expressions for topics or groups (`kind`) cannot be used; None if it can."""
    if len(text) > LONGEST_LIST:
        return f"the list has {len(text)} characters; at most {LONGEST_LIST} are allowed"
    if odd := next(
        (c for c in text if unicodedata.category(c)[0] == "C" or unicodedata.category(c) in ("Zl", "Zp")), None
    ):
        return f"a pattern contains the invisible or control character {odd!a}"
    if "" in (items := list_items(text)):
        return "the list has an empty pattern between two commas"
    try:
        python = _as_python("|".join(items), kind)
        re.compile(python, re.ASCII)
        steps = _steps(_parser.parse(python, re.ASCII), at_end=True)
    except (_Unreadable, re.error, RecursionError, OverflowError) as error:
        return f"{_shown(text)} is not usable as a {kind} pattern: {error}"
    if steps > MOST_STEPS:
        return f"{_shown(text)} could take too long on some names: repeats within repeats, or too many repeats in a row"
    return None


class _Unreadable(Exception):
    """A pattern that Java would refuse, or would read differently from Python."""


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:77] + "...")


def _as_python(java: str, kind: Kind) -> str:
    parts, at = [], 0
    while at < len(java):
        token = _TOKEN.match(java, at).group()  # type: ignore[union-attr]  # any character matches
        at += len(token)
        if token in ("[", "[^"):
            body, at = _class_body(java, at)
            parts.append(token + body)
        elif token.startswith("(?"):
            parts.append(_group_start(token, java, at, bool(parts)))
        else:
            parts.append(_plain(token, kind))
    return "".join(parts)


def _plain(token: str, kind: Kind) -> str:
    if token.startswith(r"\Q"):
        return re.escape(token[2:].removesuffix(r"\E"))
    if token.startswith("\\"):
        return _escape(token)
    if token == "{":
        raise _Unreadable(
            "a `{` that begins no `{2}` or `{2,}` (a comma inside braces splits the list); write a literal `{` as `\\{`"
        )
    if kind == "topic" and len(token) == 1 and not (token.isascii() and (token.isalnum() or token in "._-|()*+?^$}]")):
        raise _Unreadable(f"no topic name contains {token!a}")
    return token


def _escape(token: str) -> str:
    letter = token[1:]
    if not letter:
        raise _Unreadable("the pattern ends with a single backslash")
    if letter == "z":
        return r"\Z"
    if letter.isalnum() and letter not in _SAME_ESCAPES:
        raise _Unreadable(f"the escape {token!a} is not supported; write the characters out, such as [A-Z]")
    return token


def _class_body(java: str, at: int) -> tuple[str, int]:
    parts: list[str] = []
    while at < len(java):
        token = _IN_CLASS.match(java, at).group()  # type: ignore[union-attr]  # any character matches
        at += len(token)
        if token == "]" and parts:
            return "".join(parts) + "]", at
        if token in ("[", "&&", "]"):
            raise _Unreadable(f"{token!a} inside a character class has another meaning in Java; write \\{token[0]}")
        parts.append(_escape(token) if token[0] == "\\" else "\\" + token if token in "~|&" else token)
    raise _Unreadable("a `[` without a closing `]`")


def _group_start(token: str, java: str, at: int, inside: bool) -> str:
    if token in _GROUPS:
        return token
    if token.endswith(">") and token[3:-1].isalnum():
        return "(?P" + token[2:]
    if java.startswith("i)", at) and token == "(?" and not inside:
        return "(?"
    raise _Unreadable(
        "inline flags are supported as `(?i)` at the very start only, and no other `(?` group but look-around"
    )


def _steps(tree: Any, at_end: bool) -> float:
    """Return an upper estimate of the backtracking steps that matching one name takes; infinite for nested repeats.

    Args:
        tree: a pattern, or a part of it, as parsed by Python.
        at_end: whether nothing follows this part in the pattern; a last `.*` then costs no backtracking.
    """
    items = [item for item in tree if item[0] is not ops.AT]
    total = 1.0
    for item, following in zip_longest(items, items[1:]):
        total *= 1.0 if _goes_one_way(item, following) else _item_steps(item, at_end and following is None)
    return total


def _goes_one_way(item: Any, following: Any) -> bool:
    """Whether a repeat can end in one place only, as in `[a-z]+-`: no character matches both it and the next node.

    Args:
        item: the repeat, as a node of Python's parse tree.
        following: the next node of the tree; None after the last node.
    """
    if following is None or item[0] not in _REPEATS or len(item[1][2]) != 1:
        return False
    repeated, next_characters = _characters(*item[1][2][0]), _characters(*following)
    return bool(repeated and next_characters) and not repeated & next_characters


def _characters(op: Any, argument: Any) -> frozenset[int]:
    """Return the ASCII codes that a parse tree's node matches; the code 128 stands for all non-ASCII characters.

    Empty if the node does not match exactly one character.

    Args:
        op: the node's kind, such as a literal, a range or a character class.
        argument: the node's content, as Python's parser gives it for this kind.
    """
    if op is ops.ANY:
        return _EVERY
    if op is ops.LITERAL:
        return _either_case(argument, argument)
    if op is ops.NOT_LITERAL:
        return _EVERY - {argument}
    if op is ops.RANGE:
        return _either_case(*argument)
    if op is ops.CATEGORY:
        return _CATEGORIES[argument]
    if op is not ops.IN:
        return frozenset()
    if argument[0][0] is ops.NEGATE:
        return _EVERY - frozenset().union(*(_characters(*part) for part in argument[1:])) | {128}
    return frozenset().union(*(_characters(*part) for part in argument))


def _either_case(first: int, last: int) -> frozenset[int]:
    codes = range(min(first, 128), min(last, 128) + 1)
    return frozenset(other for code in codes for other in (code, *((ord(chr(code).swapcase()),) if code < 128 else ())))


def _item_steps(item: Any, last: bool) -> float:
    op, argument = item
    if op in _REPEATS:
        return _repeat_steps(argument, last)
    if op is ops.BRANCH:
        return _branch_steps(argument[1], last)
    if op is ops.SUBPATTERN:
        return _steps(argument[3], last)
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return _steps(argument[1], False)
    if op is ops.ATOMIC_GROUP:
        return _steps(argument, last)
    if op in (ops.GROUPREF, ops.GROUPREF_EXISTS):
        raise _Unreadable("references to groups are not supported")
    return 1.0


def _repeat_steps(repeat: tuple[int, int, Any], last: bool) -> float:
    least, most, body = repeat
    if last and most is ops.MAXREPEAT and body[0][0] is ops.ANY:
        return 1.0  # no later item can fail
    times = min(int(most), LONGEST_TOPIC)
    inner = _steps(body, False)
    if inner > 1 and times > 1:
        return float("inf") if times > 8 else inner**times
    return max(1.0, inner) * (times - min(least, times) + 1)


def _branch_steps(alternatives: list[Any], last: bool) -> float:
    firsts = [tuple(a[0]) if len(a) and a[0][0] is ops.LITERAL else None for a in alternatives]
    distinct = None not in firsts and len(set(firsts)) == len(firsts)
    each = [_steps(alternative, last) for alternative in alternatives]
    if last:  # each item of the list may take MOST_STEPS, all items of the list together ten times as many
        return max(*each, sum(each) / 10)
    return max(each) if distinct else sum(each)
