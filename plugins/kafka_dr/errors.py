"""All errors of the product, as one tree.

SwitchbackError
├── BadInput                 params, topology or names that cannot be used; nothing was changed
├── Refusal                  a step refuses to act; a retry without a change gives the same answer
│   ├── NotReady             a readiness gate is closed
│   ├── SourceNotLost        the source was not shown to be lost, and the run has no override
│   ├── LeaseLost            another procedure holds the pair of clusters, or a newer epoch exists
│   ├── ApprovalMissing      no valid approval of this very plan
│   ├── FenceNotProven       writes or commits still get through, or the fence cannot be proven
│   └── Contradiction        evidence disagrees with itself
├── Superseded               a newer process of the same procedure took the epoch; this process must not act
├── DeadlinePassed           a wait ended at its deadline
├── ReadBackFailed           a value read back differs from the value written
└── SystemUnavailable        an outside system did not answer, or answered with an error
    ├── KafkaUnavailable
    ├── ConnectUnavailable
    ├── SparkFailed
    ├── ArchiveUnavailable   the flight recorder's archive
    └── HookUnavailable      a hook (drain, probe, routing, fence, stop), or Airflow's own API
"""

from __future__ import annotations


class SwitchbackError(Exception):
    """Base of all errors: the reason, what was seen, and what to do next."""

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
    """Params, topology or names that cannot be used; nothing was changed.

    Attributes:
        problems: every single problem, if the check lists several.
    """

    problems: tuple[str, ...] = ()


class Refusal(SwitchbackError):
    """A step refuses to act; a retry without a change gives the same answer."""


class NotReady(Refusal):
    """A readiness gate is closed."""


class SourceNotLost(Refusal):
    """The source was not shown to be lost, and the run has no override."""


class LeaseLost(Refusal):
    """Another procedure holds the pair of clusters, or a newer epoch exists."""


class ApprovalMissing(Refusal):
    """No valid approval of this very plan."""


class FenceNotProven(Refusal):
    """Writes or commits still get through, or the fence cannot be proven."""


class Contradiction(Refusal):
    """Evidence disagrees with itself; a person decides."""


class Superseded(SwitchbackError):
    """A newer process of the same procedure took the epoch; this process must not act."""


class DeadlinePassed(SwitchbackError):
    """A wait ended at its deadline."""


class ReadBackFailed(SwitchbackError):
    """A value read back differs from the value written."""


class SystemUnavailable(SwitchbackError):
    """An outside system did not answer, or answered with an error."""


class KafkaUnavailable(SystemUnavailable):
    """A Kafka cluster did not answer, or answered with an error.

    Attributes:
        from_broker: whether a broker reported the error, not the client (which does so if no broker answered).
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
