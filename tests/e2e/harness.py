"""What the end-to-end tests share: a fresh folder with a store, agents and a ledger, and the program run in it.

A ledger is a file to which command tools append one line per effect, so that a test can count what really happened in the
world. Python 3 standard library only. The program is $PAWL_BIN (default: build/src/cli/pawl).
"""
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

from fake_model import FakeModel

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get("PAWL_BIN", os.path.join(ROOT, "build", "src", "cli", "pawl")))

# A tool that leaves one line in the ledger: tool, the argument `id`, the idempotency key; then sleeps and answers.
LEDGER_TOOL = """#!/bin/sh
read -r arguments
id=$(printf '%s' "$arguments" | sed -n 's/.*"id": *"\\([^"]*\\)".*/\\1/p')
printf '%s %s %s\\n' "$1" "$id" "$PAWL_IDEMPOTENCY_KEY" >> "$LEDGER"
[ -z "$2" ] || sleep "$2"
printf '{"ok":true,"id":"%s"}' "$id"
"""


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
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PAWL_AGENT", "NO_COLOR"):
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


class Claude(World):
    """A world whose agent `a` asks the strict fake model."""

    def __init__(self, script, tools=(), model=None, files=None, **more):
        super().__init__()
        self.fm = FakeModel(script).__enter__()
        self.environment["ANTHROPIC_API_KEY"] = "sk-ant-api03-testing-only"
        options = {"provider": "anthropic", "name": "claude-test-1", "max_tokens": 4096, "base_url": self.fm.url, **(model or {})}
        self.definition = {"name": "a", "model": options, "tools": list(tools), **more}
        self.files = files
        self.agent("a", self.definition, files=files)

    def __exit__(self, *_):
        self.fm.__exit__()
        super().__exit__()

    @staticmethod
    def command(prompt, session="s", request=None, *more):
        return ("run", "-a", "a", "-s", session, *(("--request-id", request) if request else ()), *more, prompt)

    def ask(self, prompt, session="s", request=None, *more, check=0, **options):
        """One turn to its end."""
        return self.json(*self.command(prompt, session, request, *more), check=check, **options)

    def watch(self, prompt, session="s", request=None, *more, check=0, **options):
        """One turn to its end, with its events: (turn, [(id, name, data)])."""
        _, out, _ = self.run(*self.command(prompt, session, request, *more), "--json", check=check, **options)
        return events_of(out)[::-1]

    def bodies(self, marker=""):
        return [r["body"] for r in self.fm.requests if r["marker"] == marker]

    def conversations(self, marker=""):
        """Of each request, the bytes up to the end of its last message."""
        return [body[:body.rindex("]}")] for body in self.bodies(marker)]

    def refusals(self, *scripted):
        """What the model refused, but for the messages of scripted errors."""
        return [(n, message) for n, message in self.fm.refused if message not in scripted]


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
    """The text that a follower shows in the end: deltas, taken back where they were discarded."""
    text = ""
    for _, name, data in events:
        if name == "message.delta":
            text += data["text"]
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
