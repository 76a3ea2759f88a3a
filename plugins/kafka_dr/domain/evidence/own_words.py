"""Sentences and next steps on the evidence page of procedures that move no client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka_dr.domain.diagnosis.evidence_text import diagnosis_sentences, diagnosis_to_do
from kafka_dr.domain.loss.lost_cluster import lost_cluster_sentences, lost_cluster_to_do
from kafka_dr.domain.offsets.restore_plan import restore_sentences, restore_to_do
from kafka_dr.domain.re_replication.summary import re_replication_sentences, re_replication_to_do
from kafka_dr.domain.reconciliation.sentences import reconcile_sentences, reconcile_to_do
from kafka_dr.domain.replication.change_plan import change_sentences, change_to_do
from kafka_dr.procedures import (
    CHANGE_REPLICATION,
    DIAGNOSE_REPLICATION,
    LOST_CLUSTER,
    RE_REPLICATE_TOPICS,
    RECONCILE_CLUSTERS,
    RESTORE_GROUP_OFFSETS,
)

Words = Callable[[Mapping[str, Any]], list[str]]
#: DAG id -> what returns the first sentences of the page, and what returns what has to be done now, of the evidence.
OWN_WORDS: Mapping[str, tuple[Words, Words]] = {
    RESTORE_GROUP_OFFSETS.dag_id: (restore_sentences, restore_to_do),
    CHANGE_REPLICATION.dag_id: (change_sentences, change_to_do),
    RE_REPLICATE_TOPICS.dag_id: (re_replication_sentences, re_replication_to_do),
    RECONCILE_CLUSTERS.dag_id: (reconcile_sentences, reconcile_to_do),
    LOST_CLUSTER.dag_id: (lost_cluster_sentences, lost_cluster_to_do),
    DIAGNOSE_REPLICATION.dag_id: (diagnosis_sentences, diagnosis_to_do),
}
