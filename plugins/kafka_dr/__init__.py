"""Switchback: failover and failback of Kafka clients between clusters replicated by MirrorMaker 2.

dags order the steps; operators do one step each; hooks talk to one outside system each; domain decides, pure.
Imports go one way: dags -> operators -> hooks -> domain. `vocabulary` and `errors` may be imported by all.
"""
