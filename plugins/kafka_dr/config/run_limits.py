"""What the topology states about every run: who may approve it, and how far its params may go."""

from __future__ import annotations

from kafka_dr.config.fields import Model, Seconds, UserName


class Approvers(Model):
    """Who may answer a gate; nobody named: everybody but the starter of the run.

    Attributes:
        users: user names in Airflow.
        roles: roles of Airflow's FAB auth manager whose users may approve, too.
    """

    users: tuple[UserName, ...] = ()
    roles: tuple[UserName, ...] = ()


class ParamLimits(Model):
    """How far the params of a run may loosen what a run has to prove, in seconds.

    A param that passes a limit is refused, unless the topology's own value under `deadlines` passes it by as much.

    Attributes:
        least_stable_seconds: for `stable_seconds`.
        least_confirm_seconds: for `confirm_seconds`.
        least_slow_seconds: for `slow_seconds`.
        most_approval_valid_seconds: for `approval_valid_seconds`, and for the time from a run's start to its opening.
    """

    least_stable_seconds: Seconds = 0.5
    least_confirm_seconds: Seconds = 5.0
    least_slow_seconds: Seconds = 0.5
    most_approval_valid_seconds: Seconds = 86_400.0
