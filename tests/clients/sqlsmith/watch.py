"""Runs sqlsmith against a server, with every message looked at on its way through a proxy.

    watch.py SECONDS SEED

HOST and PORT name the server. Errors are expected: sqlsmith knows little of what a server refuses.
What must not happen: a connection that ends within a statement (a crash), a statement that is not
answered long after its time is up (a hang), an error that says the server broke (class XX).
Prints the errors by state with an example each, then `ok` or `FAILED` per rule.
"""

import collections
import os
import re
import socket
import subprocess
import sys
import threading
import time

STATEMENT_TIMEOUT = 5
HANG = 60
SHOWN = 1000


class Watch:
    """What has been seen, of all connections."""

    def __init__(self, server):
        self.server = server
        self.lock = threading.Lock()
        self.statements = 0
        self.errors = collections.Counter()
        self.examples = {}
        self.crashes = []
        self.running = {}
        self.slowest = (0.0, "")
        self.over = False

    def error(self, state, message, query):
        with self.lock:
            # One class per state and kind of message: names in it differ.
            names = r"\"[^\"]*\"|'[^']*'|\d+|(?<=^function )\S+"
            kind = (state, re.sub(names, "…", message)[:70])
            self.errors[kind] += 1
            self.examples.setdefault(kind, (message, query))

    def connection(self, client):
        server = socket.create_connection(self.server)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        state = {"query": None, "since": time.monotonic()}
        self.running[id(state)] = state
        there = threading.Thread(target=self.requests, args=(client, server, state), daemon=True)
        there.start()
        try:
            self.answers(server, client, state)
        except OSError:
            pass
        if state["query"] is not None and not state.get("left") and not self.over:
            self.crashes.append(state["query"])
        self.running.pop(id(state), None)
        for end in (client, server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def requests(self, client, server, state):
        try:
            head = exactly(client, 4)
            server.sendall(head + exactly(client, int.from_bytes(head, "big") - 4))
            while True:
                kind, body, whole = message(client)
                if kind == b"Q":
                    state["since"] = time.monotonic()
                    state["query"] = body[:-1].decode("utf-8", "replace")
                    self.statements += 1
                server.sendall(whole)
        except OSError:
            state["left"] = True
            server.close()

    def answers(self, server, client, state):
        while True:
            kind, body, whole = message(server)
            if kind == b"E":
                fields = {part[:1]: part[1:].decode("utf-8", "replace")
                          for part in body.split(b"\0") if part}
                self.error(fields[b"C"], fields[b"M"], state["query"])
            if kind == b"Z":
                took = time.monotonic() - state["since"]
                if took > self.slowest[0] and state["query"]:
                    self.slowest = (took, state["query"])
                state["query"] = None
            client.sendall(whole)

    def hangs(self):
        now = time.monotonic()
        return [state["query"] for state in list(self.running.values())
                if state["query"] is not None and now - state["since"] > HANG]


def exactly(stream, count):
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise OSError("the end")
        data += more
    return data


def message(stream):
    head = exactly(stream, 5)
    body = exactly(stream, int.from_bytes(head[1:], "big") - 4)
    return head[:1], body, head + body


def report(watch, hangs, smith):
    total = sum(watch.errors.values())
    print(f"{watch.statements} statements, {total} errors, the slowest took {watch.slowest[0]:.1f} s")
    for (state, kind), count in sorted(watch.errors.items(), key=lambda item: -item[1]):
        print(f"{count:7} {state} {kind}")
    broken = [kind for kind in watch.errors if kind[0].startswith("XX")]
    rules = [
        ("sqlsmith asks", [] if watch.statements > 100 else [f"{watch.statements} statements: {smith}"]),
        ("no crash", watch.crashes),
        ("no hang", hangs),
        ("no broken invariant", ["{}\n{}".format(*watch.examples[kind]) for kind in broken]),
    ]
    for rule, offences in rules:
        if offences:
            print(f"FAILED {rule}: {len(offences)}")
        else:
            print(f"ok {rule}")
        for offence in offences[:20]:
            print("    " + offence[:SHOWN].replace("\n", "\n    "))
    folder = os.environ.get("HALCYON_SMITH_EXAMPLES")
    if folder:
        os.makedirs(folder, exist_ok=True)
        for at, (kind, count) in enumerate(watch.errors.most_common()):
            text, query = watch.examples[kind]
            with open(f"{folder}/{at:03}-{kind[0]}.sql", "w") as file:
                file.write(f"-- {count} times: {text}\n{query};\n")
        for at, query in enumerate(watch.crashes):
            with open(f"{folder}/crash-{at:03}.sql", "w") as file:
                file.write(query + ";\n")
    return not any(offences for _, offences in rules)


def main():
    seconds, seed = int(sys.argv[1]), sys.argv[2]
    watch = Watch((os.environ["HOST"], int(os.environ["PORT"])))
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            client, _ = listener.accept()
            threading.Thread(target=watch.connection, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    target = (f"host=127.0.0.1 port={listener.getsockname()[1]} user=halcyon dbname=halcyon sslmode=disable gssencmode=disable "
              f"options='-c statement_timeout={STATEMENT_TIMEOUT}s'")
    # From libpq, not through the terminal: it prints a sign per statement.
    with open(os.devnull, "w") as nowhere:
        smith = subprocess.Popen(["sqlsmith", f"--target={target}", f"--seed={seed}"],
                                 stdout=nowhere, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + seconds
        hangs = []
        while smith.poll() is None and time.monotonic() < end and not hangs:
            time.sleep(0.5)
            hangs = watch.hangs()
        # It does not end by itself before its time.
        status = smith.poll()
        watch.over = True
        smith.kill()
        said = smith.communicate()[1][-500:]
    sound = report(watch, hangs, f"sqlsmith ended with status {status}: {said}")
    if status is not None:
        print(f"FAILED sqlsmith ended early with status {status}: {said}")
        sound = False
    sys.exit(0 if sound else 1)


main()
