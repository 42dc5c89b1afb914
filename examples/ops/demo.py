#!/usr/bin/env python3
"""The main job, to watch: an agent looks up two orders, writes a third, tells a colleague, ships, answers.

With --kill its process is killed (kill -9) three times at random moments and started again with the same
session and request id; at the end the store and the ledger say how often each effect really happened.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPT = "Look up orders A-1001 and A-1002, write a new order for two brass hooks, tell the warehouse, ship it (as A-1004), and report."


def claude_copy(folder):
    """The same agent with Anthropic's model instead of the script."""
    target = os.path.join(folder, "agents", "ops")
    shutil.copytree(HERE, target, ignore=shutil.ignore_patterns("script.yaml", "*.py", "__pycache__"))
    path = os.path.join(target, "agent.yaml")
    text = open(path, encoding="utf-8").read()
    model = "model: { provider: anthropic, name: claude-sonnet-4-5, max_tokens: 4096 }\n"
    text = re.sub(r"^model:.*\n(?:[ #].*\n)*", model, text, flags=re.M)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="pawl")
    parser.add_argument("--kill", action="store_true", help="kill the process three times on the way")
    parser.add_argument("--seed", type=int, default=None, help="for the moments of the kills")
    arguments = parser.parse_args()

    program = os.path.abspath(arguments.program) if os.path.exists(arguments.program) else arguments.program
    folder = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "demo")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    database = os.path.join(folder, "pawl.db")
    ledger = os.path.join(folder, "ledger")
    agent = claude_copy(folder) if os.environ.get("ANTHROPIC_API_KEY") else HERE
    environment = dict(os.environ, PAWL_STORE="sqlite:" + database, OPS_LEDGER=ledger)
    command = [program, "run", "-a", agent, "-s", "demo", "--request-id", "first", PROMPT]
    print(f"pawl: store {database}, model {'Claude' if agent != HERE else 'scripted (no key needed)'}", flush=True)

    kills = 3 if arguments.kill else 0
    chance = random.Random(arguments.seed)
    for number in range(1, kills + 1):
        wait = chance.uniform(0.4, 2.2)
        print(f"\n--- run {number}: will be killed after {wait:.1f} s", flush=True)
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
        try:
            process.wait(wait)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            print(f"\n--- kill -9 after {wait:.1f} s", flush=True)
    if kills:
        print("\n--- started once more, with the same session and request id", flush=True)
    status = subprocess.call(command, env=environment, stdin=subprocess.DEVNULL)
    return status or report(database, ledger)


def report(database, ledger):
    """From the store and the world alone: what was promised, what happened."""
    store = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    records = [(kind, step, json.loads(body)) for kind, step, body in store.execute("select kind, step, body from pawl_journal order by seq")]
    attempts = 1 + sum(1 for kind, _, _ in records if kind == "attempt.started")
    lines = [line.split() for line in open(ledger, encoding="utf-8")] if os.path.exists(ledger) else []
    promise = {"none": lambda n, _: n >= 1, "transactional": lambda n, _: n == 1, "idempotent": lambda n, keys: n >= 1 and keys == 1,
               "once": lambda n, _: n <= 1}
    words = {"none": "may run again", "transactional": "exactly once", "idempotent": "at least once, one key", "once": "at most once"}
    print(f"\nWhat the store and the world say ({attempts} attempt{'s' if attempts > 1 else ''} of one turn):")
    print(f"  {'tool':<14}{'effects':<16}{'promised':<24}{'receipt':<10}happened")
    sound = True
    arguments = {f"tool:{body['n']}:{part['call']}": part["arguments"] for kind, _, body in records if kind == "model.completed"
                 for part in body["parts"] if part["type"] == "tool_call"}
    for kind, step, body in records:
        if kind != "tool.completed":
            continue
        effects, name = body["effects"], body["name"]
        if effects == "transactional":
            item = arguments[step]["item"]
            happened, keys = store.execute("select count(*) from orders where item = ?", (item,)).fetchone()[0], 1
        elif effects == "none":
            happened, keys = 1, 1
        else:
            mine = [line for line in lines if line[0] == name]
            happened, keys = len(mine), len({line[1] for line in mine})
        good = promise[effects](happened, keys)
        sound = sound and good
        shown = "read" if effects == "none" else f"{happened} time{'' if happened == 1 else 's'}"
        print(f"  {name:<14}{effects:<16}{words[effects]:<24}{body['outcome']:<10}{shown} {'✓' if good else '✗ BROKEN'}")
    print("Every effect happened as its class promises." if sound else "A PROMISE WAS BROKEN: please report this.")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
