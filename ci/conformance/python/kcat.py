"""The script of behaviours with kcat (Debian's, with its older librdkafka): kcat.py KCAT BOOTSTRAP PREFIX BEHAVIOUR..."""

import subprocess
import sys

from client import topic
from kit import LIMIT, main

KCAT = sys.argv[1]
LEVELS = ("read_committed", "read_uncommitted")


def kcat(kit, *args, text=None):
    command = [KCAT, "-b", kit.bootstrap, "-X", f"client.id={kit.prefix}", *args]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(args)}: exit status {done.returncode}: {done.stderr}")
    return done.stdout.split()


def read(kit, name, level, offset="beginning"):
    return kcat(kit, "-q", "-C", "-t", name, "-p", "0", "-o", str(offset), "-e", "-f", "%o:%s\n", "-X", f"isolation.level={level}")


def produce(kit):
    name = topic(kit)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        kcat(kit, "-P", "-t", name, "-p", "0", "-z", codec, "-X", "enable.idempotence=true", text=f"{codec}-1\n{codec}-2\n")
    for level in LEVELS:
        kit.fact(f"read-{level}", read(kit, name, level))
    kit.fact("tail", read(kit, name, "read_committed", -3))
    kit.fact("time", kcat(kit, "-Q", "-t", f"{name}:0:-2", "-t", f"{name}:0:-1"))


def transactions(kit):
    name = topic(kit)
    kcat(kit, "-P", "-t", name, "-p", "0", "-X", f"transactional.id={kit.name('id')}", "-X", "transaction.timeout.ms=600000", text="a\nb\n")
    kcat(kit, "-P", "-t", name, "-p", "0", "-X", f"transactional.id={kit.name('id')}", "-X", "transaction.timeout.ms=600000", text="c\n")
    for level in LEVELS:
        kit.fact(level, read(kit, name, level))


def group(kit):
    name = topic(kit, partitions=1)
    seen = []
    for values in ("a\nb\nc\n", "d\ne\n"):
        kcat(kit, "-P", "-t", name, "-p", "0", text=values)
        n = values.count("\n")
        seen.append(kcat(kit, "-q", "-G", kit.name("g"), "-c", str(n), "-X", "auto.offset.reset=earliest", "-f", "%o:%s\n", name))
    kit.fact("read-and-resumed", seen)


def barrier(kit):
    for level in LEVELS:
        name = kit.name(level)
        kit.fact(level, read(kit, name, level))
        command = [KCAT, "-b", kit.bootstrap, "-X", f"client.id={kit.prefix}", "-q", "-u", "-C", "-t", name, "-p", "0", "-o", "8", "-c", "1", "-f", "%s\n",
                   "-X", f"isolation.level={level}", "-X", "fetch.wait.max.ms=200"]
        kit.ask(f"{level} count")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:  # on the barrier
            try:
                waiting.wait(1.5)
                raise AssertionError(f"{waiting.stdout.read()!r} on the barrier")
            except subprocess.TimeoutExpired:
                pass
            kit.fact(f"{level}-fetches", kit.ask(f"{level} fetches"))
            kit.ask(f"{level} produce")
            kit.fact(f"{level}-goes-on", waiting.communicate(timeout=LIMIT)[0].strip())


if __name__ == "__main__":
    main({"produce": produce, "transactions": transactions, "group": group, "barrier": barrier}, sys.argv[2], sys.argv[3], sys.argv[4:])
