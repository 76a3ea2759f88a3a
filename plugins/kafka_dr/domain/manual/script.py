"""Manual commands as one shell script."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_dr.domain.manual.context import ManualStep

#: Lines that make PYTHONPATH and the topology's path absolute, because the script changes its working directory.
_ABSOLUTE = (
    (
        'if [ -n "${PYTHONPATH:-}" ]; then PYTHONPATH="$(IFS=:; for part in $PYTHONPATH; do printf "%s:" "$(realpath -m'
        ' -- "$part")"; done)"; export PYTHONPATH="${PYTHONPATH%:}"; fi'
    ),
    (
        'if [ -n "${KAFKA_DR_TOPOLOGY:-}" ]; then KAFKA_DR_TOPOLOGY="$(realpath -m -- "$KAFKA_DR_TOPOLOGY")"; export'
        " KAFKA_DR_TOPOLOGY; fi"
    ),
)


def shell_script(title: str, blocks: Sequence[ManualStep]) -> str:
    """Return the steps as the text of a bash script that stops at the first failing command; texts are comments."""
    lines = [
        "#!/usr/bin/env bash",
        f"# {title}",
        "set -euo pipefail",
        "export LC_ALL=C",
        *_ABSOLUTE,
        'cd "$(dirname "${BASH_SOURCE[0]}")"',
    ]
    for step in blocks:
        lines += [
            "",
            f"# {step.step}" + (": done" if step.done else ""),
            *(f"#   {' '.join(text.splitlines())}" for text in step.says if not step.done),
            *step.commands,
        ]
    return "\n".join(lines) + "\n"
