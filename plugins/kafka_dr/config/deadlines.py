"""How long each wait of a procedure may last."""

from __future__ import annotations

from kafka_dr.config.fields import Model, Seconds


class Deadlines(Model):
    """How long each wait may last, in seconds.

    Attributes:
        fence_seconds: until a fence is proven on every broker and log ends are stable.
        transaction_seconds: for transactions that are open when the fence is set; the broker ends a transaction after
            the timeout of its producer (60 s unless the client sets another timeout).
        max_fence_seconds: from the fence to open_target; then the procedure returns to the source by itself.
        drain_seconds: for consumers to read up to the cut-off.
        zero_lag_seconds: for the target to hold all records below the cut-off.
        stop_seconds: for connectors to be STOPPED without tasks.
        stable_seconds: how long a value must stay unchanged to count as stable.
        approval_valid_seconds: how old an approval may be when a step relies on it.
        approval_wait_seconds: how long a gate waits for a person's answer.
        verify_seconds: for clients to appear on the target.
        return_seconds: for a rollback, including the time in which systems do not answer.
        outage_seconds: for a system that does not answer to a step, or answers with an error that may pass; then the
            try of the step fails.
        connect_request_seconds: for the answer of a Connect worker to one read, which is then repeated.
        confirm_seconds: how long the source must be observed to be lost before an unplanned failover continues.
        slow_seconds: a source that answers later than this is slow. Each request to the source waits for an answer at
            least 1.5 times as long; a source that does not answer in this time counts as gone.
        spark_seconds: for one try of a Spark job, from the start of Spark; then the job is killed.
        catch_up_seconds: in a failback, for the flow back to copy the records that clients have written since the
            failover, before clients are fenced.
    """

    fence_seconds: Seconds = 60.0
    transaction_seconds: Seconds = 90.0
    max_fence_seconds: Seconds = 600.0
    drain_seconds: Seconds = 60.0
    zero_lag_seconds: Seconds = 300.0
    stop_seconds: Seconds = 120.0
    stable_seconds: Seconds = 1.0
    approval_valid_seconds: Seconds = 3600.0
    approval_wait_seconds: Seconds = 14400.0
    verify_seconds: Seconds = 120.0
    return_seconds: Seconds = 1800.0
    outage_seconds: Seconds = 90.0
    connect_request_seconds: Seconds = 10.0
    confirm_seconds: Seconds = 15.0
    slow_seconds: Seconds = 3.0
    spark_seconds: Seconds = 1800.0
    catch_up_seconds: Seconds = 3600.0
