"""The script of behaviours with confluent-kafka (librdkafka): client.py BOOTSTRAP PREFIX BEHAVIOUR..."""

import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition, ConsumerGroupTopicPartitions
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType

from kit import LIMIT, main, wait_for

LEVELS = ("read_committed", "read_uncommitted")


ADMINS = {}


def admin_of(kit):
    """One for each cluster: what an admin client that nobody holds was asked is never answered."""
    if kit.bootstrap not in ADMINS:
        ADMINS[kit.bootstrap] = AdminClient({"bootstrap.servers": kit.bootstrap, "client.id": kit.prefix})
    return ADMINS[kit.bootstrap]


def producer_of(kit, **settings):
    return Producer({"bootstrap.servers": kit.bootstrap, "client.id": kit.prefix, "enable.idempotence": True, "linger.ms": 0, **settings})


def consumer_of(kit, **settings):
    return Consumer({
        "bootstrap.servers": kit.bootstrap, "client.id": kit.prefix, "group.id": kit.name("reader"), "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "partition.assignment.strategy": "range", "heartbeat.interval.ms": 500, **settings,
    })


def error(do):
    """The name of the error that something ends with, or "none"."""
    try:
        do()
        return "none"
    except KafkaException as e:
        return e.args[0].name()


def led(admin, name, partitions):
    t = admin.list_topics(name, timeout=LIMIT).topics[name]
    return t.error is None and sum(p.leader >= 0 and len(p.isrs) == 3 for p in t.partitions.values()) == partitions


def topic(kit, suffix="", partitions=1, assignment=None, config=None):
    name, admin = kit.name(suffix), admin_of(kit)
    if assignment:
        new = NewTopic(name, partitions, replica_assignment=assignment, config=config or {})
    else:
        new = NewTopic(name, partitions, 3, config=config or {})
    try:
        admin.create_topics([new])[name].result(LIMIT)
    except KafkaException as e:
        if e.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # the client has asked twice: names are not used twice
            raise
    known_everywhere(kit, name, partitions)
    return name


def known_everywhere(kit, name, partitions):
    """Waits until every broker knows the topic.

    A creation is acknowledged by one broker. librdkafka that refreshes its metadata from another a moment later is told
    that there is no such topic, and believes it: what it caches then is evicted behind older entries only, so minutes
    later, and all its ListOffsets end with "No leaders found" at once.
    """
    for broker in kit.bootstrap.split(","):
        probe = AdminClient({"bootstrap.servers": broker, "client.id": kit.prefix})  # its first question goes to this one
        wait_for(f"{broker} to know the leaders of {name}", lambda: led(probe, name, partitions))
    wait_for(f"leaders of {name}", lambda: led(admin_of(kit), name, partitions))


def send(p, name, *values, partition=0):
    """Produces and returns the offsets; the first error is raised."""
    got = []
    for v in values:
        p.produce(name, v, "k", partition, on_delivery=lambda e, m: got.append((e, m)))
    wait_for("deliveries", lambda: p.poll(0.01) is not None and len(got) == len(values))
    for e, _ in got:
        if e is not None:
            raise KafkaException(e)
    return [m.offset() for _, m in got]


def end_of(kit, name, partition, level):
    of = IsolationLevel.READ_COMMITTED if level == "read_committed" else IsolationLevel.READ_UNCOMMITTED
    tp = TopicPartition(name, partition)
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            return admin_of(kit).list_offsets({tp: OffsetSpec.latest()}, isolation_level=of)[tp].result(LIMIT).offset
        except KafkaException:  # while there is no leader, for one
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def settled(kit, name):
    """Waits until no transaction is open: markers are written a moment after the end was acknowledged."""
    wait_for(f"the markers of {name}", lambda: end_of(kit, name, 0, LEVELS[0]) == end_of(kit, name, 0, LEVELS[1]))


def messages(kit, name, partition, level):
    end = end_of(kit, name, partition, level)
    c = consumer_of(kit, **{"isolation.level": level, "enable.partition.eof": True})
    c.assign([TopicPartition(name, partition, OFFSET_BEGINNING)])
    all_read, deadline = [], time.monotonic() + LIMIT
    while True:
        m = c.poll(0.2)
        if m is not None and m.error() is None:
            all_read.append(m)
        elif m is not None and m.error().code() == KafkaError._PARTITION_EOF and m.offset() >= end:
            break
        elif m is not None and m.error().code() != KafkaError._PARTITION_EOF:
            raise KafkaException(m.error())
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(all_read)} records of {name} in {level}, and no end")
    c.close()
    return all_read


def read(kit, name, partition, level):
    return [f"{m.offset()}:{(m.value() or b'').decode()}" for m in messages(kit, name, partition, level)]


def produce(kit):
    name = topic(kit, partitions=3)
    p = producer_of(kit)
    kit.fact("acked", send(p, name, *[f"v{i}" for i in range(20)]))
    kit.fact("read", read(kit, name, 0, "read_uncommitted"))
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        send(producer_of(kit, **{"compression.codec": codec}), name, codec * 100, partition=1)
    kit.fact("codecs", [v[:5] + str(len(v)) for v in read(kit, name, 1, "read_committed")])
    big = producer_of(kit, **{"message.max.bytes": 4000000})
    kit.fact("too-large", error(lambda: send(big, name, "x" * 1100000)))
    p.produce(name, None, "k", 2, timestamp=1000000000000, headers=[("a", b"1"), ("b", None)])
    p.flush(LIMIT)
    m = messages(kit, name, 2, "read_committed")[0]
    kit.fact("whole-record", [m.key().decode(), m.value(), m.timestamp()[1], [[k, v and v.decode()] for k, v in m.headers()], m.leader_epoch()])
    c = consumer_of(kit)
    kit.fact("watermarks", c.get_watermark_offsets(TopicPartition(name, 0), LIMIT))
    kit.fact("offsets-for-times", [t.offset for t in c.offsets_for_times([TopicPartition(name, 2, 5), TopicPartition(name, 2, 1000000000001)], LIMIT)])
    kit.fact("unknown-topic", error(lambda: send(producer_of(kit, **{"topic.metadata.propagation.max.ms": 1000}), kit.name("nowhere"), "v")))


def transactions(kit):
    name = topic(kit)
    p = producer_of(kit, **{"transactional.id": kit.name("id")})
    p.init_transactions(LIMIT)
    for outcome in ("commit1", "abort1", "commit2"):
        p.begin_transaction()
        send(p, name, *[f"{outcome}-{i}" for i in range(3)])
        p.commit_transaction(LIMIT) if outcome.startswith("commit") else p.abort_transaction(LIMIT)
    p.begin_transaction()
    send(p, name, "open-0", "open-1", "open-2")

    def tell(when):
        for level in LEVELS:
            kit.fact(f"{level}-end-{when}", end_of(kit, name, 0, level))
            kit.fact(f"{level}-{when}", read(kit, name, 0, level))

    tell("while-open")
    second = producer_of(kit, **{"transactional.id": kit.name("id")})
    second.init_transactions(LIMIT)
    second.begin_transaction()
    send(second, name, "second-0", "second-1")
    kit.fact("fenced-send", error(lambda: send(p, name, "zombie")))
    kit.fact("fenced-commit", error(lambda: p.commit_transaction(LIMIT)))
    second.commit_transaction(LIMIT)
    settled(kit, name)
    tell("at-the-end")


class Member(threading.Thread):
    """One consumer of a group, which commits what it reads."""

    def __init__(self, kit, name):
        super().__init__(daemon=True)
        self.values, self.assigned, self.leaving, self.failure = [], 0, threading.Event(), None
        self.consumer = consumer_of(kit, **{"group.id": kit.name("g")})
        self.consumer.subscribe([name])
        self.start()

    def run(self):
        try:
            while not self.leaving.is_set():
                m = self.consumer.poll(0.05)
                self.assigned = len(self.consumer.assignment())
                if m is not None and m.error() is None:
                    self.values.append(m.value().decode())
                    self.consumer.commit(m, asynchronous=False)
            self.consumer.close()
        except Exception as e:  # noqa: BLE001: told by has
            self.failure = e

    def has(self, n):
        if self.failure:
            raise self.failure
        return self.assigned == n

    def leave(self):
        self.leaving.set()
        self.join(LIMIT)


def fill(kit, name, value, n):
    p = producer_of(kit)
    for i in range(n):
        send(p, name, f"{value}{10 + i}", partition=i % 4)


def committed(kit, group):
    got = admin_of(kit).list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(LIMIT)
    return {str(t.partition): f"{t.offset}{t.metadata or ''}" for t in got.topic_partitions}


def group(kit):
    name = topic(kit, partitions=4)
    fill(kit, name, "v", 40)
    a = Member(kit, name)
    wait_for("the first member to have all", lambda: a.has(4))
    b = Member(kit, name)
    wait_for("two each", lambda: a.has(2) and b.has(2))
    kit.fact("shared", [a.assigned, b.assigned])
    wait_for("all records", lambda: len({*a.values, *b.values}) == 40)
    a.leave()
    wait_for("the other to have all", lambda: b.has(4))
    b.leave()
    kit.fact("read", sorted({*a.values, *b.values}))
    kit.fact("committed", committed(kit, kit.name("g")))
    fill(kit, name, "w", 8)
    c = Member(kit, name)
    wait_for("the rest", lambda: len({*c.values}) == 8)
    c.leave()
    kit.fact("resumed", sorted({*c.values}))
    kit.fact("committed-at-the-end", committed(kit, kit.name("g")))


def copy(kit):
    source, target = topic(kit, "in"), topic(kit, "out")
    send(producer_of(kit), source, *[f"v{i}" for i in range(15)])
    for number, commit in enumerate((True, False, True, True), 1):
        c = consumer_of(kit, **{"group.id": kit.name("g"), "isolation.level": "read_committed"})
        c.subscribe([source])
        p = producer_of(kit, **{"transactional.id": kit.name("id")})
        p.init_transactions(LIMIT)
        p.begin_transaction()
        done, deadline = [], time.monotonic() + LIMIT
        while len(done) < 5:
            m = c.poll(0.2)
            if m is not None and m.error() is None:
                send(p, target, m.value().decode() + "'")
                done.append(m)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(done)} of 5 records came")
        offsets = [TopicPartition(source, 0, done[-1].offset() + 1)]
        p.send_offsets_to_transaction(offsets, c.consumer_group_metadata(), LIMIT)
        p.commit_transaction(LIMIT) if commit else p.abort_transaction(LIMIT)
        c.close()
        # Those of a transaction hold a moment after its end.
        want = (5, 5, 10, 15)[number - 1]
        settled(kit, target)
        wait_for(f"commit {want}", lambda: committed(kit, kit.name("g")).get("0") == str(want))
        kit.fact(f"committed-{number}", committed(kit, kit.name("g")))
    settled(kit, target)
    for level in LEVELS:
        kit.fact(f"out-{level}", read(kit, target, 0, level))


def admin(kit):
    a, name = admin_of(kit), topic(kit, partitions=2, config={"retention.ms": "3600000"})
    kit.fact("create-again", error(lambda: a.create_topics([NewTopic(name, 1, 3)])[name].result(LIMIT)))
    a.create_partitions([NewPartitions(name, 4)])[name].exception(LIMIT)  # one that was asked twice is refused
    known_everywhere(kit, name, 4)
    kit.fact("fewer-partitions", error(lambda: a.create_partitions([NewPartitions(name, 3)])[name].result(LIMIT)))

    def resource(value=None):
        r = ConfigResource(ResourceType.TOPIC, name)
        if value:
            r.add_incremental_config(ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET))
        return r

    def alter(value):
        r = resource(value)
        return a.incremental_alter_configs([r])[r].result(LIMIT)

    def retention():
        return a.describe_configs([resource()])[resource()].result(LIMIT)["retention.ms"]

    kit.fact("alter", error(lambda: alter("5000")))
    kit.fact("alter-badly", error(lambda: alter("soon")))
    wait_for("the change", lambda: retention().value == "5000")
    kit.fact("config", [retention().source, retention().is_read_only, retention().is_default, sorted(retention().synonyms)])
    p = producer_of(kit)
    send(p, name, *"abcde")
    tp = TopicPartition(name, 0)
    kit.fact("deleted-records", a.delete_records([TopicPartition(name, 0, 3)])[tp].result(LIMIT).low_watermark)
    kit.fact("deleted-too-many", error(lambda: a.delete_records([TopicPartition(name, 0, 300)])[tp].result(LIMIT)))
    kit.fact("offsets", {n: a.list_offsets({tp: s})[tp].result(LIMIT).offset for n, s in
                         {"earliest": OffsetSpec.earliest(), "latest": OffsetSpec.latest()}.items()})
    kit.fact("read", read(kit, name, 0, "read_committed"))
    cluster = a.describe_cluster().result(LIMIT)
    kit.fact("cluster", [len(cluster.nodes), len(cluster.cluster_id), cluster.controller is not None])
    from confluent_kafka import TopicCollection

    described = a.describe_topics(TopicCollection([name]))[name].result(LIMIT)
    kit.fact("described", [described.is_internal, [[x.id, len(x.replicas), len(x.isr)] for x in described.partitions]])
    g = kit.name("g")
    m = Member(kit, name)
    wait_for("the member", lambda: m.has(4))
    wait_for("all records", lambda: len(m.values) == 2)
    d = a.describe_consumer_groups([g])[g].result(LIMIT)
    kit.fact("group", [d.state.name, d.is_simple_consumer_group, d.partition_assignor, len(d.members), d.members[0].client_id])
    kit.fact("delete-with-members", error(lambda: a.delete_consumer_groups([g])[g].result(LIMIT)))
    m.leave()
    wait_for("the group to be empty", lambda: a.describe_consumer_groups([g])[g].result(LIMIT).state.name == "EMPTY")
    kit.fact("group-listed", [[x.is_simple_consumer_group, x.state.name] for x in a.list_consumer_groups().result(LIMIT).valid if x.group_id == g])
    altered = a.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(g, [TopicPartition(name, 0, 4)])])[g].result(LIMIT)
    kit.fact("offsets-altered", [t.error is None for t in altered.topic_partitions])
    kit.fact("committed", committed(kit, g))
    kit.fact("delete-group", error(lambda: a.delete_consumer_groups([g])[g].result(LIMIT)))
    kit.fact("delete-unknown-group", error(lambda: a.delete_consumer_groups([g])[g].result(LIMIT)))
    kit.fact("delete-topic", error(lambda: a.delete_topics([name])[name].result(LIMIT)))
    wait_for("the deletion", lambda: a.list_topics(name, timeout=10).topics[name].error is not None)
    kit.fact("delete-topic-again", error(lambda: a.delete_topics([name])[name].result(LIMIT)))


def leader_kill(kit):
    count = 3000
    by2, two = [[2, 3, 1]], {"min.insync.replicas": "2"}
    plain, transactional = topic(kit, "plain", assignment=by2, config=two), topic(kit, "transactional", assignment=by2, config=two)
    t = producer_of(kit, **{"transactional.id": kit.name("id"), "transaction.timeout.ms": 600000})
    t.init_transactions(LIMIT)
    t.begin_transaction()
    send(t, transactional, *[f"before{i}" for i in range(10)])
    p, got = producer_of(kit, **{"batch.size": 500}), []
    asking = threading.Thread(target=kit.ask, args=("kill-2",))
    for i in range(count):
        p.produce(plain, f"v{i}", "k", 0, on_delivery=lambda e, m: got.append(e))
        p.poll(0)
        if i == count // 3:
            asking.start()
        if i > count // 3 and asking.is_alive():
            time.sleep(0.002)
    asking.join()
    wait_for("deliveries", lambda: p.flush(0.1) == 0)
    kit.fact("not-acknowledged", sum(e is not None for e in got))
    send(t, transactional, *[f"after{i}" for i in range(10)])
    t.commit_transaction(LIMIT)
    values = [m.value().decode() for m in messages(kit, plain, 0, "read_committed")]
    kit.fact("plain", {"sent": count, "read": len(values), "out of place": sum(v != f"v{i}" for i, v in enumerate(values))})
    settled(kit, transactional)
    kit.fact("transactional", [m.value().decode() for m in messages(kit, transactional, 0, "read_committed")])


def barrier(kit):
    for level in LEVELS:
        name = kit.name(level)
        kit.fact(level, read(kit, name, 0, level))
        c = consumer_of(kit, **{"isolation.level": level, "fetch.wait.max.ms": 200})
        c.assign([TopicPartition(name, 0, end_of(kit, name, 0, level) - 1)])  # on the barrier
        kit.ask(f"{level} count")
        m = c.poll(1.5)
        if m is not None:
            raise AssertionError(f"{m.error()} {m.value()} on the barrier")
        kit.fact(f"{level}-fetches", kit.ask(f"{level} fetches"))
        kit.ask(f"{level} produce")
        m = c.poll(LIMIT)
        kit.fact(f"{level}-goes-on", m.value().decode() if m is not None and m.error() is None else None)
        c.close()


if __name__ == "__main__":
    main({
        "produce": produce, "transactions": transactions, "group": group, "copy": copy, "admin": admin,
        "leader-kill": leader_kill, "barrier": barrier,
    }, sys.argv[1], sys.argv[2], sys.argv[3:])
