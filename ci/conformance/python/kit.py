"""What the Python clients of the conformance run share: the form of their results, and waiting."""

import json
import sys
import time

LIMIT = 150


class Kit:
    def __init__(self, bootstrap, prefix, behaviour):
        self.bootstrap, self.prefix, self.behaviour = bootstrap, prefix, behaviour

    def fact(self, name, value):
        put({"behaviour": self.behaviour, "fact": name, "value": value})

    def name(self, suffix=""):
        return f"{self.prefix}-{self.behaviour}" + (f"-{suffix}" if suffix else "")

    def ask(self, what):
        """Has the runner do what only it can do, and waits for its answer."""
        put({"behaviour": self.behaviour, "ask": what})
        return sys.stdin.readline().strip()


def put(line):
    print(json.dumps(line), flush=True)


def wait_for(what, holds):
    deadline = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.02)


def main(behaviours, bootstrap, prefix, names):
    import traceback

    for name in names:
        kit = Kit(bootstrap, prefix, name)
        try:
            behaviours[name](kit)
        except Exception as e:  # noqa: BLE001: whatever it is, it is this behaviour's result
            traceback.print_exc()
            kit.fact("failed", f"{type(e).__name__}: {e}")
        put({"behaviour": name, "done": True})
