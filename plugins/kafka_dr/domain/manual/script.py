"""Commands as one script."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_dr.domain.manual.context import ManualStep

#: The script leaves the folder that a relative PYTHONPATH or topology is meant from.
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
    """Blocks as a shell script: it stops at the first command that fails."""
    lines = [
        "#!/usr/bin/env bash",
        f"# {title}",
        "set -euo pipefail",
        "export LC_ALL=C",
        *_ABSOLUTE,
        'cd "$(dirname "${BASH_SOURCE[0]}")"',
    ]
    for block in blocks:
        lines += [
            "",
            f"# {block.step}" + (": done" if block.done else ""),
            *(f"#   {' '.join(text.splitlines())}" for text in block.says if not block.done),
            *block.commands,
        ]
    return "\n".join(lines) + "\n"
