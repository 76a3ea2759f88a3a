"""Which principal brokers make of the subject of a client's certificate, by their ssl.principal.mapping.rules."""

from __future__ import annotations

import re

#: As a broker splits its setting into rules: DEFAULT, or RULE:pattern/replacement/ with L or U behind it.
_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
DEFAULT_RULES = "DEFAULT"


def principal_of_subject(subject: str, rules: str = DEFAULT_RULES) -> str | None:
    """Return the principal, such as `User:CN=mm2`; None if no rule fits, so that brokers refuse the certificate.

    Args:
        subject: as Java writes it by RFC 2253, such as `CN=mm2,OU=kafka`.
        rules: the brokers' ssl.principal.mapping.rules.

    Raises:
        ValueError: the rules cannot be read, or use a pattern that only Java knows.
    """
    for default, pattern, replacement, case in _split(rules):
        if default:
            return f"User:{subject}"
        try:
            if re.fullmatch(pattern, subject):
                name = re.sub(pattern, re.sub(r"\$(\d+)", r"\\g<\1>", replacement), subject)
                return f"User:{ {'L': str.lower, 'U': str.upper}.get(case, str)(name) }"
        except (re.error, IndexError) as error:
            raise ValueError(f"a rule uses a pattern that cannot be read here: {error}") from None
    return None


def _split(rules: str) -> list[tuple[str, str, str, str]]:
    found, at, text = [], 0, rules.strip() or DEFAULT_RULES
    while at < len(text):
        rule = _RULE.match(text, at)
        if rule is None or rule.end() == at:
            raise ValueError("ssl.principal.mapping.rules are not a list of DEFAULT and RULE:pattern/replacement/[LU]")
        default, pattern, replacement, case = (part or "" for part in rule.groups())
        found.append((default, pattern, replacement, case))
        at = rule.end()
    return found
