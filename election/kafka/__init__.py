"""Election by Kafka's classic group protocol, as Confluent's nodes do it, and together with them."""

from __future__ import annotations

from election.kafka.candidacy import KafkaElection

__all__ = ["KafkaElection"]
