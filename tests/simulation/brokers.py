"""Three simulated brokers with the log's partition, by the rules of Kafka 4.1 and, in some histories, of 2.8.

They answer the product's own requests. The first record that a broker accepts is in the log for good: leaders
change, restart and are cut off from their controllers, but nothing that was appended is lost, unless a
history cuts the log or recreates the topic. What readers may see, the high watermark, follows a little later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c

from registry.domain.log_format.records import Entry
from registry.log.contract import Claim
from registry.log.kafka import record_batches
from registry.log.kafka.requests import EARLIEST, LATEST, Code

from .event_loop import SimulatedLoop
from .partition import InvalidEpoch, OutOfSequence, Partition
from .world import Process, World

TOPIC = "schemas"
PORT = 9092
BROKERS = (1, 2, 3)
SERVERS = ",".join(f"b{number}:{PORT}" for number in BROKERS)
# After this many idle seconds the brokers close a connection.
CONNECTION_IDLE_S = 20.0
_CLUSTER = "simulated"
_FUTURE_MS = 3_600_000
# Longer than an append is in doubt: its batch must not be compacted before its sender has found it.
_LAG_MS = 10_000
_REQUEST_TIMED_OUT = 7
_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA, _FIND, _INIT, _EPOCH_ENDS, _CONFIGS = 0, 1, 2, 3, 10, 22, 23, 32
_COMMON_VERSIONS = {
    _LIST_OFFSETS: (0, 7), _METADATA: (0, 12), _FIND: (0, 2), 11: (0, 9), _INIT: (0, 4), _EPOCH_ENDS: (0, 4),
    24: (0, 4), 29: (0, 3), _CONFIGS: (0, 4),
}  # fmt: skip
NEW_VERSIONS = {**_COMMON_VERSIONS, _PRODUCE: (0, 13), _FETCH: (0, 17), 55: (0, 2)}
OLD_VERSIONS = {**_COMMON_VERSIONS, _PRODUCE: (0, 9), _FETCH: (0, 12)}
Reply = Callable[[Any], None]
# Called with an error code and an offset.
Answer = Callable[[int, int], None]


class Stored(NamedTuple):
    """A batch as fetches return it."""

    base: int
    next: int
    data: bytes
    stored_ms: int


@dataclass
class Broker:
    """One broker, and what it knows."""

    id: int
    up: bool = True
    # True if it is cut off from the controllers: it learns of no election.
    isolated: bool = False
    # The leader and its epoch, as far as it knows.
    leader: int = BROKERS[0]
    epoch: int = 0
    # The high watermark when it was deposed without knowing it.
    stands_at: int | None = None
    # How often it has lost records, and with them every request that it had received.
    losses: int = 0
    # Called when it restarts; as a dict, since they are called in order.
    connections: dict[Callable[[], None], None] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return f"b{self.id}"


class _Poll(NamedTuple):
    broker: Broker
    epoch: int
    offset: int
    bytes_max: int
    reply: Callable[[int, int, bytes], None]


class Brokers:
    """The Kafka cluster; ``partition`` decides what is appended."""

    def __init__(
        self, world: World, partition: Partition, expiration_s: float, idle_s: float = CONNECTION_IDLE_S
    ) -> None:
        self._world = world
        self.partition = partition
        self._expiration_s = expiration_s
        self.idle_s = idle_s
        # For how long at most polls are kept beyond their time.
        self.late_polls_s = 0.0
        self.loop = SimulatedLoop(world, Process("network"))
        self.brokers = {number: Broker(number) for number in BROKERS}
        self.leader = BROKERS[0]
        self.epoch = 0
        self._epoch_starts = [(0, 0)]
        self.topic_id = b"simulated topic."
        self.versions = NEW_VERSIONS if world.likely(0.8) else OLD_VERSIONS
        self.stored: list[Stored] = []
        # The high watermark.
        self.visible = 0
        self._polls: dict[int, _Poll] = {}
        self._poll_count = 0
        # Appends that readers cannot see yet: their ends, their bases and whom to answer.
        self._unanswered: list[tuple[int, int, Answer]] = []
        # True between the deletion of the topic and its creation.
        self.deleted = False
        self._claims: dict[Claim, int] = {}
        # Until then appends lack replicas, and the coordinator is moving.
        self.lacking_until = self.moving_until = 0.0
        # Before this offset a reader may miss records that later ones replaced.
        self.compacted_upto = 0

    # Faults.

    def elect(self, *, unnoticed: bool = False) -> None:
        """Elect another leader; the present one does not learn of it if ``unnoticed``."""
        former = self.brokers[self.leader]
        others = [
            each for each in self.brokers.values() if each.up and not each.isolated and each is not former
        ]
        if len(others) < len(BROKERS) - 1:
            return  # One fault at a time: two of three replicas are in sync.
        if unnoticed:
            former.isolated, former.stands_at = True, self.visible
        self._see(len(self.partition.records))
        self.leader, self.epoch = self._world.chance.choice(others).id, self.epoch + 1
        self._epoch_starts.append((self.epoch, self.partition.end))
        for broker in self.brokers.values():
            if broker.id == self.leader:
                self._learn(broker)
            else:
                self.loop.call_later(self._world.chance.random() * 0.1, self._learn, broker)

    def cut(self, end: int) -> None:
        """Lose the records from ``end`` on: a replica that lacks them was elected, and others follow it."""
        self.rejoin()
        self._lose(end)
        others = [each.id for each in self.brokers.values() if each.id != self.leader]
        self.leader, self.epoch = self._world.chance.choice(others), self.epoch + 1
        self._epoch_starts = [each for each in self._epoch_starts if each[1] < end] + [(self.epoch, end)]
        for broker in self.brokers.values():
            self._learn(broker)

    def delete(self) -> None:
        """Delete the topic."""
        self.rejoin()
        self._lose(0)
        self.deleted = True

    def create(self) -> None:
        """Create the topic again, with another id."""
        self.deleted, self.topic_id = False, self._world.chance.randbytes(16)
        self.epoch, self._epoch_starts = 0, [(0, 0)]
        for broker in self.brokers.values():
            self._learn(broker)

    def _lose(self, end: int) -> None:
        self.partition.cut(end)
        self.stored = [each for each in self.stored if each.base < end]
        self.visible, self.compacted_upto = min(self.visible, end), min(self.compacted_upto, end)
        unanswered, self._unanswered = self._unanswered, []
        for needed, base, answer in unanswered:
            if needed <= end:
                self._unanswered.append((needed, base, answer))
            else:
                answer(Code.NOT_LEADING, -1)
        polls, self._polls = self._polls, {}
        for poll in polls.values():
            poll.reply(Code.NOT_LEADING, -1, b"")
        for broker in self.brokers.values():
            broker.losses += 1
            self._end_connections(broker)

    def rejoin(self) -> None:
        """Let all brokers be up and learn what they missed."""
        for broker in self.brokers.values():
            broker.up, broker.isolated, broker.stands_at = True, False, None
            self._learn(broker)

    def restart(self) -> None:
        """Restart the leader: its connections end, and another broker leads."""
        broker = self.brokers[self.leader]
        self.elect()
        if broker.id == self.leader:
            return
        broker.up = False
        self._end_connections(broker)

    @staticmethod
    def _end_connections(broker: Broker) -> None:
        for close in list(broker.connections):
            close()
        broker.connections.clear()

    def compact(self) -> None:
        """Remove records that a later one of their key replaced long enough ago."""
        old = [each for each in self.stored[:-1] if each.stored_ms < self._world.wall_ms() - _LAG_MS]
        newest = {
            record.key: record.offset
            for each in old
            for record in self.partition.records[each.base : each.next]
        }
        kept = [compacted(each, set(newest.values())) for each in old]
        if kept != old:
            self.compacted_upto = old[-1].next
        self.stored[: len(old)] = [each for each in kept if each is not None]

    def append_unclaimed(self, entries: Sequence[Entry]) -> None:
        """Append what a program without a producer id sends to the leader."""
        batch = record_batches.build(entries, record_batches.NO_PRODUCER, -1, self._world.wall_ms())
        self._append(batch.data, "another program", lambda *_: None)

    def _learn(self, broker: Broker) -> None:
        if broker.isolated or not broker.up:
            return
        broker.leader, broker.epoch = self.leader, self.epoch
        for number, poll in list(self._polls.items()):
            if poll.broker is broker and broker.id != self.leader:
                del self._polls[number]
                poll.reply(Code.NOT_LEADING, -1, b"")

    # Requests.

    def handle(self, broker: Broker, request: Any, sender: str, reply: Reply) -> None:
        """Answer a request that has arrived at ``broker``, now or later."""
        match request.API_KEY:
            case 0:
                self._produce(broker, request, sender, reply, self._world.now + request.timeout / 1000)
            case 1:
                self._fetch(broker, request, reply)
            case 2:
                reply(self._list_offsets(broker, request))
            case 3:
                reply(self._metadata(broker))
            case 10:
                code = self._coordinator_code()
                reply(SimpleNamespace(error_code=code, host=self.brokers[1].host, port=PORT))
            case 22:
                reply(self._init())
            case 23:
                reply(self._epoch_ends(broker, request))
            case 32:
                reply(self._configs(request))
            case unknown:
                raise AssertionError(f"no request {unknown} is simulated")

    def _coordinator_code(self) -> int:
        return Code.COORDINATOR_NOT_AVAILABLE if self._world.now < self.moving_until else Code.NONE

    def _init(self) -> Any:
        code = self._coordinator_code()
        if code:
            return SimpleNamespace(error_code=code, producer_id=-1, producer_epoch=-1)
        claim, number = self.partition.init()
        self._claims[claim] = number
        return SimpleNamespace(error_code=0, producer_id=claim.producer, producer_epoch=claim.epoch)

    def _metadata(self, broker: Broker) -> Any:
        known = [(each.id, each.host, PORT, None) for each in self.brokers.values() if each.up]
        partitions = [(0, 0, broker.leader, broker.epoch, list(BROKERS), [each[0] for each in known])]
        topic = (Code.NONE, TOPIC, self.topic_id, False, partitions)
        if self.deleted:
            topic = (Code.UNKNOWN_TOPIC_OR_PARTITION, TOPIC, bytes(16), False, [])
        return SimpleNamespace(
            brokers=known, cluster_id=_CLUSTER, controller_id=broker.leader, topics=[topic]
        )

    def _configs(self, request: Any) -> Any:
        kind, name, _ = request.resources[0]
        settings = {"producer.id.expiration.ms": str(round(self._expiration_s * 1000))}
        if kind == 2:
            settings = {
                "cleanup.policy": "compact",
                "min.insync.replicas": "2",
                "delete.retention.ms": "604800000",
                "min.compaction.lag.ms": str(_LAG_MS),
            }
        return SimpleNamespace(resources=[(Code.NONE, "", kind, name, list(settings.items()))])

    def _leads_in(self, broker: Broker, epoch: int) -> int:
        """Return the error for a request to the leader in ``epoch``; -1: any."""
        if self.deleted:
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        if epoch >= 0 and epoch != broker.epoch:
            return Code.FENCED_LEADER_EPOCH if epoch < broker.epoch else Code.UNKNOWN_LEADER_EPOCH
        return Code.NONE if broker.leader == broker.id else Code.NOT_LEADING

    def _end_at(self, broker: Broker) -> int:
        return self.visible if broker.stands_at is None else broker.stands_at

    def _list_offsets(self, broker: Broker, request: Any) -> Any:
        _, ((_, epoch, at),) = request.topics[0]
        code, found = self._leads_in(broker, epoch), -1
        if not code:
            records = self.partition.records
            match at:
                case _ if at == LATEST:
                    found = self._end_at(broker)
                case _ if at == EARLIEST:
                    found = 0
                case _:
                    found = next((each.offset for each in records if each.ts >= at), -1)
        return _topics(0, code, 0, found)

    def _epoch_ends(self, broker: Broker, request: Any) -> Any:
        _, ((_, epoch, asked),) = request.topics[0]
        code = self._leads_in(broker, epoch)
        found, end = -1, -1
        if not code and asked == broker.epoch:
            found, end = asked, self.partition.end
        elif not code and asked < broker.epoch:
            found = max((each for each, _ in self._epoch_starts if each <= asked), default=asked)
            end = min(start for each, start in self._epoch_starts if each > asked)
        return _topics(code, 0, found, end)

    # Fetch.

    def _fetch(self, broker: Broker, request: Any, reply: Reply) -> None:
        topic, (partition, *_), *_ = request.topics[0]

        def answer(code: int, end: int, data: bytes) -> None:
            reply(SimpleNamespace(error_code=0, topics=[(topic, [(0, code, end, end, 0, None, None, data)])]))

        _, epoch, offset, *_ = partition
        if code := self._leads_in(broker, epoch):
            answer(code, -1, b"")
            return
        end = self._end_at(broker)
        if not 0 <= offset <= end:
            answer(Code.OFFSET_OUT_OF_RANGE, -1, b"")
            return
        poll = _Poll(broker, epoch, offset, request.max_bytes, answer)
        if offset < end:
            self._answer_poll(poll)
            return
        self._poll_count += 1
        self._polls[self._poll_count] = poll
        kept_s = wait_ms(request) / 1000 + self.late_polls_s * self._world.chance.random()
        self.loop.call_later(kept_s, self._end_poll, self._poll_count)

    def _end_poll(self, number: int) -> None:
        poll = self._polls.pop(number, None)
        if poll is not None:
            self._answer_poll(poll)

    def _answer_poll(self, poll: _Poll) -> None:
        end, data = self._end_at(poll.broker), b""
        for each in reversed(self.stored):
            if each.next <= poll.offset:
                break
            if each.next <= end:
                data = each.data + data
        poll.reply(Code.NONE, end, data)

    # Produce.

    def _produce(self, broker: Broker, request: Any, sender: str, reply: Reply, deadline: float) -> None:
        data: bytes = request.topics[0][1][0][1]
        world = self._world

        def answer(code: int, offset: int = -1) -> None:
            reply(_topics(0, code, offset, -1, 0, [], None))

        if code := self._leads_in(broker, -1):
            answer(code)
        elif world.now < self.lacking_until:
            answer(Code.NOT_ENOUGH_REPLICAS)
        elif broker.id != self.leader or self._followers_of(broker) < 1:
            # It waits for replicas that do not follow it yet, or no longer: the leader elected in its place
            # is one of those that were in sync.
            if world.now > deadline:
                answer(_REQUEST_TIMED_OUT)
            else:
                self.loop.call_later(0.05, self._produce, broker, request, sender, reply, deadline)
        else:
            self._append(data, sender, answer)

    def _followers_of(self, broker: Broker) -> int:
        return sum(each is not broker and each.epoch == broker.epoch for each in self.brokers.values())

    def _append(self, data: bytes, sender: str, answer: Answer) -> None:
        header = next(record_batches.batch_headers(data))
        found: list[tuple[int, bytes]] = []
        (records,) = record_batches.runs(data, 0, found)
        if records[0].ts > self._world.wall_ms() + _FUTURE_MS:
            answer(Code.INVALID_TIMESTAMP, -1)
            return
        before = self.partition.end
        try:
            base = self.partition.produce(
                header.claim,
                header.sequence,
                [Entry(each.key or b"", each.value, each.principal) for each in records],
                sender,
                self._claims.get(header.claim, 0),
                dict(found),
                records[0].ts,
            )
        except InvalidEpoch:
            answer(Code.INVALID_PRODUCER_EPOCH, -1)
            return
        except OutOfSequence:
            answer(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
            return
        after = base + len(records)
        if base == before:
            in_epoch = data[:12] + self.epoch.to_bytes(4, "big") + data[16:]
            whole = record_batches.with_base_offset(in_epoch, base)
            self.stored.append(Stored(base, after, whole, self._world.wall_ms()))
            delay_s = self._world.chance.random() * (0.3 if self._world.likely(0.02) else 0.002)
            self.loop.call_later(delay_s, self._see, after)
        self._when_visible(after, base, answer)

    def _when_visible(self, end: int, base: int, answer: Answer) -> None:
        if self.visible >= end:
            answer(Code.NONE, base)
        else:
            self._unanswered.append((end, base, answer))

    def _see(self, end: int) -> None:
        """Let readers see the log up to ``end``."""
        end = min(end, self.partition.end)
        if end <= self.visible:
            return
        self.visible = end
        for number, poll in list(self._polls.items()):
            if poll.offset < self._end_at(poll.broker):
                del self._polls[number]
                self._answer_poll(poll)
        waiting, self._unanswered = self._unanswered, []
        for needed, base, answer in waiting:
            self._when_visible(needed, base, answer)


def compacted(batch: Stored, kept: set[int]) -> Stored | None:
    """Return the batch with the records at ``kept`` offsets only, which stay where they are."""
    parsed = MemoryRecords(batch.data).next_batch()
    records = [each for each in parsed if each.offset in kept]
    if not records:
        return None
    if len(records) == parsed.next_offset - parsed.base_offset:
        return batch
    header = next(record_batches.batch_headers(batch.data))
    builder: Any = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0, producer_id=header.claim.producer,
        producer_epoch=header.claim.epoch, base_sequence=header.sequence, batch_size=1 << 30,
    )  # fmt: skip
    for each in records:
        builder.append(each.offset - batch.base, each.timestamp, each.key, each.value, each.headers)
    data = bytearray(builder.build())
    data[:8], data[12:16] = batch.data[:8], batch.data[12:16]
    # Also if its last record is gone, a batch goes up to there.
    data[23:27] = batch.data[23:27]
    data[17:21] = calc_crc32c(bytes(data[21:])).to_bytes(4, "big")
    return batch._replace(data=bytes(data))


def wait_ms(request: Any) -> int:
    """Return how long the broker may keep a fetch waiting; 0 for other requests."""
    found: int = getattr(request, "max_wait_ms", getattr(request, "max_wait_time", 0))
    return found


def _topics(*partition: Any) -> Any:
    """Return an answer about the only partition; its first field is the partition or its error code."""
    return SimpleNamespace(topics=[(TOPIC, [partition])])
