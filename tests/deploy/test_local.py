"""The real servers that tests run on: they start, stop, die, stand still and come back as those of a user do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from deploy.local import jars
from deploy.local.broker import Broker, Brokers
from deploy.local.process import Process
from deploy.local.proxy import Proxy
from deploy.local.zookeeper import ZooKeeper
from tests.running import ROOT, until


def send(address: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def first(address: str, topic: str) -> bytes | None:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": f"{uuid.uuid4()}", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        return message.value() if message is not None else None
    finally:
        consumer.close()


def test_a_broker_keeps_address_and_records_over_restart_and_kill(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "kafka")
    with broker:
        address = broker.address
        send(address, "kept", b"1")
        assert broker.restart().address == address
        assert first(address, "kept") == b"1"
        broker.kill()
        broker.start().wait()
        assert first(address, "kept") == b"1"
