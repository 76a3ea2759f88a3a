"""Text from outside made fit for logs, journal and evidence: one short line without what looks like a secret."""

from __future__ import annotations

import re

HIDDEN = "[hidden]"
_LOOKED_AT = 20_000
_NAMED = (
    r"pass(?:word|wd|phrase)|pwd|secret|token|credentials?|api[._-]?key|private[._-]?key|access[._-]?key|"
    r"jaas[._-]config"
)
#: What looks like a secret, what stands there instead, and, since texts are long and most hold none: what every such
#: text holds when its case is folded. No letter i: `re` takes a dotless one for it, folding does not.
_SECRETS = (
    (("-----",), re.compile(r"-----BEGIN [A-Z ]*KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)", re.DOTALL), HIDDEN),
    (("://",), re.compile(r"://[^/\s]*@"), f"://{HIDDEN}@"),
    (
        ("bas", "bearer", "negot", "gest"),
        re.compile(r"\b(Basic|Bearer|Negotiate|Digest)\s+[\w.~+/=-]+", re.IGNORECASE),
        rf"\1 {HIDDEN}",
    ),
    # A name, perhaps in quotes, then `=` or `:`, then a value in quotes (JSON's own may be escaped) or up to a blank or
    # bracket.
    (
        ("pass", "pwd", "secret", "token", "credent", "key", "jaas"),
        re.compile(
            rf"""((?:{_NAMED})\w*\\?["']?\s*[:=]\s*)(?:\\?"[^"]*(?:"|\Z)|\\?'[^']*(?:'|\Z)|[^\s,;&"'{{}}()\[\]]+)""",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
)


def without_secrets(text: str) -> str:
    """A text with everything replaced that looks like a password, token, private key or login in an address."""
    folded = text.casefold()
    for needles, pattern, replacement in _SECRETS:
        if any(needle in folded for needle in needles):
            text = pattern.sub(replacement, text)
    return text


def one_line(text: object, limit: int = 300) -> str:
    """Text from outside made fit for one log line: secrets hidden, control characters blanked, length bounded."""
    safe = without_secrets(str(text)[:_LOOKED_AT])
    return "".join(c if c.isprintable() else " " for c in safe[: limit * 2]).strip()[:limit]
