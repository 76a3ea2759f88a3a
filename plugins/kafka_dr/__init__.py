"""Switchback: failover and failback of Kafka clients between clusters replicated by MirrorMaker 2.

dags order the steps; a step does its work by actions; hooks talk to one outside system each; domain decides, pure.
Imports go one way: dags -> steps -> actions -> procedure -> hooks -> domain.
`vocabulary` and `errors` may be imported by all.
"""
