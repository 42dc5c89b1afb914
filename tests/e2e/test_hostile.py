#!/usr/bin/env python3
"""Places and words that mean no good: control characters for a terminal, closed streams, ignored signals, secrets in wrong places, a wide umask."""
import os
import pty
import select
import signal
import stat
import subprocess
import unittest

from harness import BIN, World, kill, wait_for

EVIL = "evil\x1b]0;owned\x07\x9b31m"


def scripted(*rules):
    return {"provider": "scripted", "name": "script", "script": list(rules)}


def world_of(test, *rules, tools=()):
    world = World()
    test.addCleanup(world.__exit__)
    world.agent("a", {"name": "a", "model": scripted(*rules), "tools": list(tools)})
    return world


RUN = ("run", "-a", "a", "-s", "s", "--request-id", "r")
LOOK = {"name": "look", "kind": "command", "effects": "none", "run": ["./effect", "look"], "env": ["LEDGER"]}
CALL = {"when": {"role": "user"}, "calls": [{"name": "look", "arguments": {"id": "1"}}]}


def on_terminal(world, *arguments, until=None, limit=30):
    """What a terminal gets of the program, up to its end or to `until`."""
    parent, child = pty.openpty()
    process = subprocess.Popen([BIN, *arguments], stdin=child, stdout=child, stderr=child, env=world.environment, cwd=world.folder)
    os.close(child)
    out = b""
    try:
        while select.select([parent], [], [], limit)[0]:
            try:
                piece = os.read(parent, 65536)
            except OSError:
                break
            out += piece
            if not piece or (until and until in out):
                break
    finally:
        kill(process)
        os.close(parent)
    return out.decode("utf-8", "replace")


class Terminals(unittest.TestCase):
    def no_commands(self, out):
        for command in ("\x1b]", "\x07", "\x9b"):
            self.assertNotIn(command, out)

    def test_a_tool_name_that_is_waited_for_commands_no_terminal(self):
        slow = {**LOOK, "name": "slow", "run": ["sleep", "20"]}
        world = world_of(self, {"when": {"role": "user"}, "calls": [{"name": "slow", "arguments": {}}, {"name": EVIL, "arguments": {}}]}, {"text": "Done."}, tools=[slow])
        out = on_terminal(world, *RUN, "go", until=b" s\x1b[0m")
        self.assertIn("running evil?]0;owned??31m", out)
        self.no_commands(out)

    def test_what_a_provider_said_commands_no_terminal(self):
        world = world_of(self, {"error": {"class": "wait", "code": "rate_limit_error", "message": EVIL, "after": "60s"}})
        for arguments in ((*RUN, "go"), ("why", "s")):
            out = on_terminal(world, *arguments, until=b"waiting: rate_limit, 2 s")
            self.assertIn("rate_limit", out)
            self.no_commands(out)


class Places(unittest.TestCase):
    def test_a_parent_that_ignores_its_children_costs_no_tool_its_result(self):
        world = world_of(self, CALL, {"text": "It says {{last}}"}, tools=[LOOK])
        _, out, _ = world.run(*RUN, "go", check=0, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertIn('"ok":true', out)

    def test_closed_streams_harm_neither_store_nor_turn(self):
        world = world_of(self, CALL, {"text": "Done."}, tools=[LOOK])

        def close():
            for fd in (0, 1, 2):
                os.close(fd)
        process = subprocess.Popen([BIN, *RUN, "go"], env=world.environment, cwd=world.folder, preexec_fn=close, close_fds=True)
        self.assertEqual(process.wait(60), 0)
        world.run("verify", check=0)
        self.assertEqual(len(world.ledger()), 1)

    def test_nohup_is_honoured(self):
        world = world_of(self, {"delay": "1500ms", "text": "Done."})
        process = world.start(*RUN, "go", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        wait_for(lambda: world.records("turn.opened"))
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out), (0, b"Done.\n"))

    def test_bytes_that_are_no_text_are_refused_and_take_nothing_down(self):
        world = world_of(self, {"text": "Done."})
        world.run(*RUN, "go", check=0)
        for arguments in ((b"tail", b"\xff"), (b"run", b"-s", b"\xff", b"hi"), (b"show", b"\xff"), (b"why", b"\xff"), (b"cancel", b"\xff"), (b"run", b"--request-id", b"\xff", b"hi"),
                          (b"run", b"-a", b"\xff", b"hi"), (b"tail", b"a\x1b[31mb")):
            status, out, err = world.run(*arguments)
            self.assertEqual((status, out), (2, ""), (arguments, err))
            self.assertRegex(err, "session|path|request_id|agent", arguments)

    def test_a_path_that_is_no_text_is_a_path(self):
        world = world_of(self, {"text": "Done."})
        folder = os.path.join(os.fsencode(world.folder), b"odd\xff")
        os.makedirs(folder)
        store = b"sqlite:" + os.path.join(folder, b"s.db")
        world.run(*RUN, "go", "--store", store, check=0)
        _, out, _ = world.run("doctor", "--store", store, check=0)
        self.assertIn("odd\ufffd", out)
        agents = os.path.join(folder, b"agents")
        os.rename(world.agents, agents)
        os.rename(os.path.join(agents, b"a"), os.path.join(agents, b"b\xff"))
        world.run("agents", "check", agents, check=0)  # agent.yaml names it
        with open(os.path.join(agents, b"b\xff", b"agent.yaml"), "w", encoding="utf-8") as file:
            file.write("model: { provider: scripted, name: x, script: [{ text: hi }] }\nno: 1\n")
        _, _, err = world.run("agents", "check", agents, check=2)
        self.assertIn("agent.yaml:2: no: there is no such key", err)
        self.assertIn("the folder's name", err)
        world.run("agents", "check", agents, "--json", check=2)

    def test_N3_a_store_url_is_not_repeated_with_its_password(self):
        world = World()
        self.addCleanup(world.__exit__)
        status, out, err = world.run("sessions", "--store", "postgres://me:hunter2@host/db")
        self.assertEqual(status, 2)
        self.assertIn("postgres:", err)
        self.assertNotIn("hunter2", out + err)

    def test_a_store_is_its_owners_alone_whatever_the_umask(self):
        world = world_of(self, {"delay": "20s", "text": "Done."})
        process = world.start(*RUN, "go", preexec_fn=lambda: os.umask(0))
        try:
            wait_for(lambda: world.records("turn.opened"))
            modes = {name: stat.S_IMODE(os.stat(os.path.join(world.folder, name)).st_mode) for name in os.listdir(world.folder) if name.startswith("store.db")}
        finally:
            kill(process)
        self.assertEqual(set(modes), {"store.db", "store.db-wal", "store.db-shm", "store.db-lock"})
        self.assertEqual(set(modes.values()), {0o600}, modes)


if __name__ == "__main__":
    unittest.main()
