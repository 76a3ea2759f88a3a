"""Whether two topic filters could select one name, also a name that no topic has yet.

The include and exclude lists of both filters become automata that read a name character by character. All four automata
read together; a name that both filters select is then the shortest path to a state in which both accept.
"""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

# Python's own parse tree of a pattern: the only way to its structure without writing a parser.
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from kafka_dr.domain.mirror_maker.patterns import PatternList
from kafka_dr.errors import BadInput

#: Characters of topic names.
ALPHABET = frozenset(string.ascii_letters + string.digits + "._-")
#: If more states than this are reached, it is undecided whether a common name exists.
MOST_STATES = 20_000
_MOST_COPIES = 2_000
_DIGITS, _WORD = frozenset(string.digits), frozenset(string.ascii_letters + string.digits + "_")
_CATEGORIES = {
    ops.CATEGORY_DIGIT: _DIGITS,
    ops.CATEGORY_SPACE: frozenset[str](),
    ops.CATEGORY_WORD: _WORD,
    ops.CATEGORY_NOT_DIGIT: ALPHABET - _DIGITS,
    ops.CATEGORY_NOT_SPACE: ALPHABET,
    ops.CATEGORY_NOT_WORD: ALPHABET - _WORD,
}
States = frozenset[int]


@dataclass(frozen=True)
class NameSet:
    """The names that a list of expressions includes and other lists do not exclude."""

    include: PatternList
    excludes: tuple[PatternList, ...] = ()

    def holds(self, name: str) -> bool:
        """Whether the name is one of these names."""
        return self.include.matches(name) and not any(one.matches(name) for one in self.excludes)


def common_name(first: NameSet, second: NameSet) -> str | None:
    """Return a shortest topic name that is in both sets; None if there is none, whatever topics are created later.

    Raises:
        BadInput: it cannot be decided, because an expression has look-around or is too large.
    """
    automata = [_Automaton.of(one.include) for one in (first, second)]
    excludes = [[_Automaton.of(exclude) for exclude in one.excludes] for one in (first, second)]
    everything = [*automata, *excludes[0], *excludes[1]]
    letters = _letters(everything)

    def accepts(states: tuple[States, ...]) -> bool:
        took = [automaton.accepts(at) for automaton, at in zip(everything, states, strict=True)]
        return took[0] and took[1] and not any(took[2:])

    begin = tuple(automaton.begin for automaton in everything)
    seen, waiting = {begin}, deque([(begin, "")])
    while waiting:
        states, name = waiting.popleft()
        if name and accepts(states):
            return name
        for letter in letters:
            after = tuple(automaton.read(at, letter) for automaton, at in zip(everything, states, strict=True))
            # Without a state left in an include list, no longer name is selected either.
            if after[0] and after[1] and after not in seen:
                if len(seen) >= MOST_STATES:
                    raise _undecided("the expressions are too large to compare")
                seen.add(after)
                waiting.append((after, name + letter))
    return None


def _letters(automata: Iterable[_Automaton]) -> list[str]:
    """Return one character for each class of characters that no automaton tells apart."""
    sets = list({letters for automaton in automata for edges in automaton.edges for letters, _ in edges})
    classes: dict[tuple[bool, ...], str] = {}
    for letter in sorted(ALPHABET, key=lambda letter: (not letter.islower(), letter)):
        classes.setdefault(tuple(letter in letters for letters in sets), letter)
    return list(classes.values())


@dataclass
class _Automaton:
    """A nondeterministic automaton: states are numbers, and the last state that was made accepts.

    Attributes:
        edges: by state, the characters that are read, each set with the next state.
        free: by state, the states that are reached without reading.
    """

    edges: list[list[tuple[frozenset[str], int]]] = field(default_factory=list)
    free: list[list[int]] = field(default_factory=list)
    begin: States = frozenset()
    end: int = -1

    @classmethod
    def of(cls, patterns: PatternList) -> _Automaton:
        """Return the automaton of a list of expressions; an empty list accepts nothing."""
        automaton = cls()
        first, last = automaton.new_state(), automaton.new_state()
        automaton.end = last
        if patterns.compiled is not None:
            tree = _parser.parse(patterns.compiled.pattern, re.ASCII)
            automaton._ignores_case = bool(tree.state.flags & re.IGNORECASE)
            automaton.free[automaton.add(list(tree), first)].append(last)
        automaton.begin = automaton.closed({first})
        return automaton

    _ignores_case: bool = False

    def new_state(self) -> int:
        """Return a new state."""
        if len(self.edges) > MOST_STATES:
            raise _undecided("an expression is too large")
        self.edges.append([])
        self.free.append([])
        return len(self.edges) - 1

    def closed(self, states: Iterable[int]) -> States:
        """Return the states and all that are reached from them without reading."""
        reached, waiting = set(states), list(states)
        while waiting:
            for state in self.free[waiting.pop()]:
                if state not in reached:
                    reached.add(state)
                    waiting.append(state)
        return frozenset(reached)

    def read(self, states: States, letter: str) -> States:
        """Return the states after one more character."""
        return self.closed({after for state in states for letters, after in self.edges[state] if letter in letters})

    def accepts(self, states: States) -> bool:
        """Whether the characters that were read are a whole name of the list."""
        return self.end in states

    def add(self, nodes: list[Any], at: int) -> int:
        """Add nodes of Python's parse tree one after the other, from a state on; return the state behind them."""
        for number, (op, argument) in enumerate(nodes):
            at = self._add_node(op, argument, at, number in (0, len(nodes) - 1))
        return at

    def _add_node(self, op: Any, argument: Any, at: int, is_outer: bool) -> int:
        if op is ops.AT:
            # An anchor within a sequence matches nowhere, or depends on what is around: neither is worth a rule.
            if not is_outer:
                raise _undecided("an expression has an anchor within it")
            return at
        if op is ops.SUBPATTERN:
            return self.add(list(argument[3]), at)
        if op is ops.BRANCH:
            return self._joined(self.add(list(one), self._after(at)) for one in argument[1])
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            return self._add_repeat(int(argument[0]), argument[1], list(argument[2]), at)
        after = self.new_state()
        self.edges[at].append((_characters(op, argument, self._ignores_case), after))
        return after

    def _after(self, at: int) -> int:
        state = self.new_state()
        self.free[at].append(state)
        return state

    def _joined(self, ends: Iterator[int]) -> int:
        states = list(ends)
        joined = self.new_state()
        for state in states:
            self.free[state].append(joined)
        return joined

    def _add_repeat(self, least: int, most: Any, body: list[Any], at: int) -> int:
        copies = least if most is ops.MAXREPEAT else int(most)
        if copies > _MOST_COPIES:
            raise _undecided("an expression repeats too often")
        ways_out = []
        for number in range(copies):
            ways_out += [at] if number >= least else []
            at = self.add(body, self._after(at))
        if most is ops.MAXREPEAT:
            again = self._after(at)
            self.free[self.add(body, again)].append(again)
            at = again
        return self._joined(iter([*ways_out, at]))


def _characters(op: Any, argument: Any, ignores_case: bool) -> frozenset[str]:
    """Return the characters of topic names that a node of the parse tree matches."""
    if op is ops.NOT_LITERAL or (op is ops.IN and argument[0][0] is ops.NEGATE):
        refused = [(ops.LITERAL, argument)] if op is ops.NOT_LITERAL else argument[1:]
        return ALPHABET - frozenset[str]().union(*(_characters(op, argument, ignores_case) for op, argument in refused))
    found = _exact_characters(op, argument)
    return found | frozenset(letter.swapcase() for letter in found) & ALPHABET if ignores_case else found


def _exact_characters(op: Any, argument: Any) -> frozenset[str]:
    if op is ops.ANY:
        return ALPHABET
    if op is ops.LITERAL:
        return frozenset(chr(argument)) & ALPHABET
    if op is ops.RANGE:
        return frozenset(letter for letter in ALPHABET if argument[0] <= ord(letter) <= argument[1])
    if op is ops.CATEGORY:
        return _CATEGORIES[argument]
    if op is not ops.IN:
        raise _undecided(f"an expression with {str(op).lower()} cannot be compared")
    return frozenset[str]().union(*(_exact_characters(*member) for member in argument))


def _undecided(why: str) -> BadInput:
    return BadInput(
        "it cannot be shown that two lists of expressions select no common name",
        why,
        "write the lists without look-around, and with fewer or shorter repeats",
    )
