"""What the end-to-end tests share: a fresh folder with a store, agents and a ledger, and the program run in it.

A ledger is a file to which command tools append one line per effect, so that a test can count what really happened in the
world. Python 3 standard library only. The program is $PAWL_BIN (default: build/src/cli/pawl).
"""
import atexit
import functools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import traceback
import unittest

from fake_model import FakeModel

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("PAWL_BUILD", os.path.join(ROOT, "build"))
BIN = os.path.abspath(os.environ.get("PAWL_BIN", os.path.join(ROOT, "build", "src", "cli", "pawl")))

# A tool that leaves one line in the ledger: tool, the argument `id`, the idempotency key; then sleeps and answers.
LEDGER_TOOL = """#!/bin/sh
read -r arguments
id=$(printf '%s' "$arguments" | sed -n 's/.*"id": *"\\([^"]*\\)".*/\\1/p')
printf '%s %s %s\\n' "$1" "$id" "$PAWL_IDEMPOTENCY_KEY" >> "$LEDGER"
[ -z "$2" ] || sleep "$2"
printf '{"ok":true,"id":"%s"}' "$id"
"""

# Leaves its line; kills the engine when this is the first line of that tool and id.
KILLER = """#!/bin/sh
read -r arguments
id=$(printf '%s' "$arguments" | sed -n 's/.*"id": *"\\([^"]*\\)".*/\\1/p')
printf '%s %s %s\\n' "$1" "$id" "$PAWL_IDEMPOTENCY_KEY" >> "$LEDGER"
[ "$(grep -c "^$1 $id " "$LEDGER")" = 1 ] && kill -9 "$PPID"
printf '{"ok":true}'
"""

# Leaves its line and hangs for good.
HANGER = """#!/bin/sh
read -r arguments
printf '%s - %s\\n' "$1" "$PAWL_IDEMPOTENCY_KEY" >> "$LEDGER"
sleep 600
"""

# Answers with its arguments as they came.
ECHO = "#!/bin/sh\ncat\n"

ANY = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


def command(name, effects, program="./effect", *more, **extra):
    """A tool of agent.yaml whose program is told the tool's name."""
    return {"name": name, "kind": "command", "effects": effects, "run": [program, name, *more], "env": ["LEDGER"], "input": ANY, **extra}


def call(name, argument="1", **more):
    """A call in a reply of the fake model."""
    return {"name": name, "input": {"id": argument}, **more}


def named(events, name):
    """The data of the events of that name."""
    return [data for _, kind, data in events if kind == name]


@functools.lru_cache(maxsize=None)
def compiled(name):
    """A C program of this folder, built against the library as it lies in the build: its path."""
    folder = tempfile.mkdtemp(prefix="pawl-e2e-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library, program = os.path.join(BUILD, "src", "runtime"), os.path.join(folder, name)
    flags = [f"-fsanitize={kind}" for word, kind in (("asan", "address,undefined"), ("tsan", "thread")) if word in os.path.basename(BUILD)]
    subprocess.run(["clang" if flags else os.environ.get("CC", "cc"), "-std=c99", "-Wall", "-Wextra", "-Werror", *flags, "-I", os.path.join(ROOT, "include"),
                    os.path.join(ROOT, "tests", "e2e", name + ".c"), "-L", library, "-lpawl", "-Wl,-rpath," + library, "-o", program], check=True)
    return program


class World:
    """A temporary folder: store, agents, ledger. Use as a context manager."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="pawl-e2e-")
        self.agents = os.path.join(self.folder, "agents")
        self.ledger_path = os.path.join(self.folder, "ledger")
        self.database = os.path.join(self.folder, "store.db")
        self.store = "sqlite:" + self.database
        self.environment = dict(os.environ, PAWL_STORE=self.store, PAWL_AGENTS=self.agents, LEDGER=self.ledger_path,
                                HOME=self.folder, XDG_STATE_HOME=os.path.join(self.folder, "state"))
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PAWL_AGENT", "PAWL_PRICES", "NO_COLOR"):
            self.environment.pop(name, None)
        os.makedirs(self.agents)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def agent(self, name, definition, instructions="Do what you are asked.", files=None):
        """Writes an agent's folder; `definition` is agent.yaml as a Python object (JSON is YAML). The ledger tool is there as ./effect."""
        folder = os.path.join(self.agents, name)
        os.makedirs(folder, exist_ok=True)
        for file, text in {"agent.yaml": json.dumps(definition, indent=1), "instructions.md": instructions, "effect": LEDGER_TOOL, **(files or {})}.items():
            path = os.path.join(folder, file)
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
            if not file.endswith((".yaml", ".md", ".json")):
                os.chmod(path, 0o755)
        return folder

    def start(self, *arguments, **options):
        """The program, running; standard output and error are pipes, unless given."""
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([BIN, *arguments], env=dict(self.environment, **options.pop("env", {})), cwd=self.folder,
                                stdin=subprocess.DEVNULL, **options)

    def run(self, *arguments, limit=60, check=None, **options):
        """The program, to its end: (exit status, standard output, standard error) as text."""
        process = self.start(*arguments, **options)
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"pawl {arguments} did not end in {limit} s\n{out.decode('utf-8', 'replace')[-2000:]}\n{err.decode('utf-8', 'replace')[-2000:]}")
        out, err = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
        if check is not None and process.returncode != check:
            raise AssertionError(f"pawl {arguments} exited with {process.returncode}, not {check}\n{out[-3000:]}\n{err[-3000:]}")
        return process.returncode, out, err

    def json(self, *arguments, check=0, **options):
        """The program with --json: the last line of its output, parsed."""
        _, out, _ = self.run(*arguments, "--json", check=check, **options)
        return json.loads(out.strip().split("\n")[-1])

    def ledger(self):
        """Effects that happened: a list of (tool, id, key)."""
        if not os.path.exists(self.ledger_path):
            return []
        with open(self.ledger_path, encoding="utf-8") as file:
            return [tuple((line.rstrip("\n").split(" ") + ["", ""])[:3]) for line in file]

    def query(self, sql, *parameters):
        """Rows; none while the store is not there yet."""
        if not os.path.exists(self.database):
            return []
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=20)
        try:
            return connection.execute(sql, parameters).fetchall()
        except sqlite3.OperationalError as wrong:
            if "no such table" in str(wrong):
                return []
            raise
        finally:
            connection.close()

    def records(self, kind=None):
        """The journal: a list of (seq, kind, turn, step, body as an object)."""
        rows = self.query("select seq, kind, turn, step, body from pawl_journal order by session, seq")
        return [(seq, k, turn, step, json.loads(body)) for seq, k, turn, step, body in rows if kind is None or k == kind]


# Who is asked: the model's options by protocol and, of Chat Completions, by whose server the fake model is.
SPEAKERS = {
    "anthropic": {"provider": "anthropic", "name": "claude-test-1", "max_tokens": 4096},
    "responses": {"provider": "openai", "name": "gpt-test-1", "max_tokens": 4096},
    "chat": {"provider": "openai-chat", "name": "chat-test-1", "max_tokens": 4096, "dialect": "openai"},
    "deepseek": {"provider": "openai-chat", "name": "deepseek-test-1", "max_tokens": 4096, "dialect": "deepseek"},
    "openrouter": {"provider": "openai-chat", "name": "maker/router-test-1", "max_tokens": 4096, "dialect": "openrouter"},
    "mistral": {"provider": "openai-chat", "name": "mistral-test-1", "max_tokens": 4096, "dialect": "mistral"},
}


class Asking(World):
    """A world whose agent `a` asks the strict fake model."""

    def __init__(self, script, tools=(), model=None, files=None, speaker="anthropic", **more):
        super().__init__()
        self.fm = FakeModel(script, dialect=SPEAKERS[speaker].get("dialect", "openai")).__enter__()
        self.environment["ANTHROPIC_API_KEY"] = self.environment["OPENAI_API_KEY"] = "sk-ant-api03-testing-only"
        self.definition = {"name": "a", "model": self.model(speaker, **(model or {})), "tools": list(tools), **more}
        self.files = files
        self.agent("a", self.definition, files=files)

    def __exit__(self, *_):
        self.fm.__exit__()
        super().__exit__()

    def model(self, speaker, **more):
        """A model's options in agent.yaml."""
        options = SPEAKERS[speaker]
        return {**options, "base_url": self.fm.url + ("/v1" if options["provider"] == "openai-chat" else ""), **more}

    def define(self, **changes):
        """Writes the agent anew; what is running keeps what it began with."""
        self.definition.update(changes)
        self.agent("a", self.definition, files=self.files)

    @staticmethod
    def command(prompt, session="s", request=None, *more):
        return ("run", "-a", "a", "-s", session, *(("--request-id", request) if request else ()), *more, prompt)

    def ask(self, prompt, session="s", request=None, *more, check=0, **options):
        """One turn to its end."""
        return self.json(*self.command(prompt, session, request, *more), check=check, **options)

    def submit(self, content, session="s", request="r"):
        """Admits a message of content parts: what a person says beside text. It waits until the session is run."""
        subprocess.run([compiled("admit"), self.store, self.agents, "a", session, request, json.dumps(content)], env=self.environment, check=True, stdin=subprocess.DEVNULL)

    def proceed(self, session="s", check=0, **options):
        """Runs what is open or waits there: (turn, [(id, name, data)])."""
        _, out, _ = self.run("run", "-a", "a", "-s", session, "--json", check=check, **options)
        return events_of(out)[::-1]

    def watch(self, prompt, session="s", request=None, *more, check=0, **options):
        """One turn to its end, with its events: (turn, [(id, name, data)])."""
        _, out, _ = self.run(*self.command(prompt, session, request, *more), "--json", check=check, **options)
        return events_of(out)[::-1]

    def bodies(self, marker=""):
        return [r["body"] for r in self.fm.requests if r["marker"] == marker]

    def conversations(self, marker=""):
        """Of each request, its text up to the end of its last message."""
        return [r["talk"] for r in self.fm.requests if r["marker"] == marker]

    def said(self, n):
        """The messages of the n-th request, from 0 or the end, in words of no protocol (fake_protocol.Said)."""
        request = self.fm.requests[n]
        return self.fm.protocols[request["protocol"]].view(request["json"])

    def refusals(self, *scripted):
        """What the model refused, but for the messages of scripted errors."""
        return [(n, message) for n, message in self.fm.refused if message not in scripted]


def everywhere(*speakers):
    """The body of a test is run for each speaker, all at once: most of its time is waiting. PAWL_SPEAKERS: for these alone."""
    only = os.environ.get("PAWL_SPEAKERS", "").split()

    def wrap(body):
        @functools.wraps(body)
        def test(self):
            failures = []

            def run(speaker):
                try:
                    body(self, speaker)
                except BaseException:  # whatever it was, it is this speaker's failure
                    failures.append(f"--- {speaker}\n{traceback.format_exc()}")

            threads = [threading.Thread(target=run, args=(speaker,)) for speaker in speakers if not only or speaker in only]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if failures:
                self.fail("\n".join(failures))
        return test
    return wrap


class AskingTest(unittest.TestCase):
    """Tests whose worlds ask the fake model, each by a protocol of its own."""

    def world(self, speaker, rules, *tools, **more):
        rules = [rule if {"when", "reply", "replies"} & set(rule) else {"reply": rule} for rule in rules]
        world = Asking(rules, tools, speaker=speaker, files={"killer": KILLER, "hanger": HANGER, "echo": ECHO, **more.pop("files", {})}, **more)
        self.addCleanup(world.__exit__)
        return world

    def check_requests(self, world, *scripted, markers=("",)):
        """The strict provider refused nothing, and each request begins with the conversation of the one before (C9, C10)."""
        self.assertEqual(world.refusals(*scripted), [])
        for marker in markers:
            talks = world.conversations(marker)
            for i, (before, after) in enumerate(zip(talks, talks[1:])):
                shared = len(os.path.commonprefix([before, after]))
                self.assertEqual(shared, len(before), f"request {i + 2} of {marker!r} does not begin with request {i + 1}:\n{before[shared - 80:][:400]}\n---\n{after[shared - 80:][:400]}")


def events_of(out):
    """Standard output of a watch: ([(id, name, data)], the turn at its end or None)."""
    events, turn = [], None
    for line in filter(None, out.split("\n")):
        value = json.loads(line)
        if "event" in value:
            events.append((value.get("id") or "", value["event"], value["data"]))
        else:
            turn = value
    return events, turn


def folded(events):
    """The text that a follower shows in the end: deltas, taken back where they were discarded. The whole message has the last word on those that
    did not come (M3), not on what was shown in spite of it."""
    text = ""
    for _, name, data in events:
        if name == "message.delta":
            text += data["text"]
        elif name == "message.completed" and data["text"].startswith(text):
            text = data["text"]
        elif name in ("message.restarted", "action.requested", "turn.started"):
            text = ""
    return text


def kill(process):
    """kill -9, and wait until it is gone."""
    try:
        process.send_signal(signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


def wait_for(condition, limit=20, what="the condition"):
    """Until condition() is true; tests wait for the event, never for a time."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {limit} s for {what}")
