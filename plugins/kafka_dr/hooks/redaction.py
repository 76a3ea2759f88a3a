"""Makes outside text fit for logs, journal and evidence: one short line without what looks like a secret."""

from __future__ import annotations

import re

HIDDEN = "[hidden]"
_LONGEST_TEXT = 20_000
_NAMES = (
    r"pass(?:word|wd|phrase)|pwd|secret|token|credentials?|api[._-]?key|private[._-]?key|access[._-]?key|"
    r"jaas[._-]config"
)
#: Per kind of secret: substrings, of which every match of the pattern contains one (case-folded); the pattern; its
#: replacement. The substrings save time, as texts are long and rarely hold secrets. They have no letter i, for which
#: `re` also accepts a dotless i.
_SECRETS = (
    (("-----",), re.compile(r"-----BEGIN [A-Z ]*KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)", re.DOTALL), HIDDEN),
    (("://",), re.compile(r"://[^/\s]*@"), f"://{HIDDEN}@"),
    (
        ("bas", "bearer", "negot", "gest"),
        re.compile(r"\b(Basic|Bearer|Negotiate|Digest)\s+[\w.~+/=-]+", re.IGNORECASE),
        rf"\1 {HIDDEN}",
    ),
    # A name, perhaps in quotes, then `=` or `:`, then a value: in quotes (escaped if JSON is inside JSON), or up to a
    # blank, comma, semicolon, ampersand, quote or bracket.
    (
        ("pass", "pwd", "secret", "token", "credent", "key", "jaas"),
        re.compile(
            rf"""((?:{_NAMES})\w*\\?["']?\s*[:=]\s*)(?:\\?"[^"]*(?:"|\Z)|\\?'[^']*(?:'|\Z)|[^\s,;&"'{{}}()\[\]]+)""",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
)


def without_secrets(text: str) -> str:
    """Return the text with `[hidden]` for all that looks like a password, token, private key or login in a URL."""
    folded = text.casefold()
    for needles, pattern, replacement in _SECRETS:
        if any(needle in folded for needle in needles):
            text = pattern.sub(replacement, text)
    return text


def one_line(text: object, limit: int = 300) -> str:
    """Return outside text as one line of at most `limit` characters: secrets hidden, control characters blank."""
    safe = without_secrets(str(text)[:_LONGEST_TEXT])
    return "".join(c if c.isprintable() else " " for c in safe[: limit * 2]).strip()[:limit]
