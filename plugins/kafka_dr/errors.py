"""All errors of the product, as one tree.

SwitchbackError
├── BadInput                 params, topology or names that cannot be used; nothing was changed
├── Refusal                  a step refuses to act; a retry without a change gives the same answer
│   ├── NotReady             a readiness check failed, or a condition of the step does not hold yet
│   ├── SourceNotLost        the source was not shown to be lost, and the run has no override
│   ├── LeaseLost            another procedure holds the lease, or this procedure's lease has ended
│   ├── ApprovalMissing      no valid approval of this very plan
│   ├── FenceNotProven       clients' writes or commits still succeed, or no test could prove that they are refused
│   ├── BindingBroken        topology, address or cluster is another than the run began with
│   ├── OutsideDrill         a drill would change what is not its own; no request was sent
│   └── Contradiction        two observations contradict each other, or an observation contradicts the journal
├── Superseded               a newer process of the same procedure has a newer epoch; this process must not act
├── DeadlinePassed           a wait ended at its deadline
├── ReadBackFailed           a value read back differs from the value written
└── SystemUnavailable        an outside system did not answer, or answered with an error
    ├── KafkaUnavailable
    ├── ConnectUnavailable
    ├── SparkFailed
    ├── ArchiveUnavailable   the flight recorder's archive
    ├── StoreUnavailable     the store of evidence and artifacts
    └── HookUnavailable      a hook (drain, probe, routing, fence, stop), or Airflow's API
"""

from __future__ import annotations


class SwitchbackError(Exception):
    """Base of all errors.

    Attributes:
        reason: what was wrong, without full stop.
        seen: what was observed; empty if `reason` says all.
        next_step: what a person should do; empty if unknown.
    """

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
    """A readiness check failed, or a condition of the step does not hold yet."""


class SourceNotLost(Refusal):
    """The source was not shown to be lost, and the run has no override."""


class LeaseLost(Refusal):
    """Another procedure holds the lease on the pair of clusters, or this procedure's lease has ended."""


class ApprovalMissing(Refusal):
    """No valid approval of this very plan."""


class FenceNotProven(Refusal):
    """Clients' writes or commits still succeed, or no test could prove that they are refused."""


class BindingBroken(Refusal):
    """The topology, an address or a cluster is another than the run began with."""


class OutsideDrill(Refusal):
    """A drill would change what is not its own; no request was sent."""


class Contradiction(Refusal):
    """Two observations contradict each other, or an observation contradicts the journal; a person decides."""


class Superseded(SwitchbackError):
    """A newer process of the same procedure has a newer epoch; this process must not act."""


class DeadlinePassed(SwitchbackError):
    """A wait ended at its deadline."""


class ReadBackFailed(SwitchbackError):
    """A value read back differs from the value written."""


class SystemUnavailable(SwitchbackError):
    """An outside system did not answer, or answered with an error.

    Attributes:
        may_pass: True if the same request may succeed later without any correction, as after a restart of the system;
            a step then repeats its work. False if unknown.
    """

    def __init__(self, reason: str, seen: str = "", next_step: str = "", may_pass: bool = False) -> None:
        super().__init__(reason, seen, next_step)
        self.may_pass = may_pass


class KafkaUnavailable(SystemUnavailable):
    """A Kafka cluster did not answer, or answered with an error.

    Attributes:
        from_broker: True if a broker reported the error; False if the Kafka client did, for example without an answer.
    """

    from_broker = False


class ConnectUnavailable(SystemUnavailable):
    """A Connect worker did not answer, or answered with an error."""


class SparkFailed(SystemUnavailable):
    """A Spark job ended without its result."""


class ArchiveUnavailable(SystemUnavailable):
    """The flight recorder's archive could not be read or written."""


class StoreUnavailable(SystemUnavailable):
    """The store of evidence and artifacts could not be read or written."""


class HookUnavailable(SystemUnavailable):
    """A hook (drain, probe, routing, fence, stop) or Airflow's API gave no answer, or one outside its contract."""
