"""Everything that can go wrong, as one tree.

SwitchbackError
├── BadInput                 params, topology or names that cannot be used; nothing was touched
├── Refusal                  a step looked and will not act; asking again without a change gives the same answer
│   ├── NotReady             a readiness gate is closed
│   ├── SourceNotLost        the source was not shown to be lost, and nobody overrode that
│   ├── LeaseLost            another procedure holds the pair of clusters, or a newer epoch exists
│   ├── ApprovalMissing      no valid approval of this very plan
│   ├── FenceNotProven       writes or commits still get through
│   └── Contradiction        evidence disagrees with itself
├── Superseded               a newer process of the same procedure goes on; this one must act no more
├── DeadlinePassed           a wait ended at its deadline
├── ReadBackFailed           something was written, and reading it back showed something else
└── SystemUnavailable        an outside system did not answer, or answered with an error
    ├── KafkaUnavailable
    ├── ConnectUnavailable
    └── HookUnavailable      a hook of ours (drain, probe, routing, fence, stop), or Airflow's own API
"""

from __future__ import annotations


class SwitchbackError(Exception):
    """Base of all errors: what is wrong, what was seen, and what to do next."""

    def __init__(self, reason: str, seen: str = "", next_step: str = "") -> None:
        self.reason = reason
        self.seen = seen
        self.next_step = next_step
        super().__init__(reason)

    def __str__(self) -> str:
        parts = [self.reason]
        if self.seen:
            parts.append(f"Seen: {self.seen}")
        if self.next_step:
            parts.append(f"Next: {self.next_step}")
        return ". ".join(part.rstrip(".") for part in parts) + "."


class BadInput(SwitchbackError):
    """Params, topology or names that cannot be used; nothing was touched.

    Attributes:
        problems: everything that is wrong with them, where that was listed.
    """

    problems: tuple[str, ...] = ()


class Refusal(SwitchbackError):
    """A step looked and will not act."""


class NotReady(Refusal):
    """A readiness gate is closed."""


class SourceNotLost(Refusal):
    """The source was not shown to be lost, and nobody overrode that."""


class LeaseLost(Refusal):
    """Another procedure holds the pair of clusters, or a newer epoch exists."""


class ApprovalMissing(Refusal):
    """No valid approval of this very plan."""


class FenceNotProven(Refusal):
    """Writes or commits still get through."""


class Contradiction(Refusal):
    """Evidence disagrees with itself; a person decides."""


class Superseded(SwitchbackError):
    """A newer process of the same procedure goes on; this one must act no more."""


class DeadlinePassed(SwitchbackError):
    """A wait ended at its deadline."""


class ReadBackFailed(SwitchbackError):
    """Something was written, and reading it back showed something else."""


class SystemUnavailable(SwitchbackError):
    """An outside system did not answer, or answered with an error."""


class KafkaUnavailable(SystemUnavailable):
    """A Kafka cluster did not answer, or answered with an error.

    Attributes:
        from_broker: a broker said so; False where nobody answered, or our own client gave up.
    """

    from_broker = False


class ConnectUnavailable(SystemUnavailable):
    """A Connect worker did not answer, or answered with an error."""


class SparkFailed(SystemUnavailable):
    """A Spark job ended without its result."""


class ArchiveUnavailable(SystemUnavailable):
    """The flight recorder's archive could not be read or written."""


class HookUnavailable(SystemUnavailable):
    """A hook (drain, probe, routing, fence, stop) or Airflow's own API did not answer."""
