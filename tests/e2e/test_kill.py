#!/usr/bin/env python3
"""kill -9 at random moments of a turn with twelve calls of every effects class, until PAWL_KILLS (default 40) have hit.

After each story the store and the world must agree with what each class promises: `transactional` exactly once, `once` at most once,
`idempotent` and `none` at least once and the key the same every time; every request the model answered is never asked again; the turn completes.
"""
import json
import os
import random
import time
import unittest

from harness import World, kill

KILLS = int(os.environ.get("PAWL_KILLS", "40"))
SEED = int(os.environ.get("PAWL_SEED", "0")) or random.SystemRandom().randrange(1 << 32)

# step of the turn → the calls the model asks for: twelve in all
PLAN = [
    [("look", "l1"), ("write", "w1")],
    [("send", "s1"), ("notify", "n1")],
    [("write", "w2"), ("look", "l2"), ("send", "s2")],
    [("notify", "n2"), ("write", "w3")],
    [("send", "s3"), ("notify", "n3"), ("look", "l3")],
]


def definition():
    rules = []
    for step, calls in enumerate(PLAN, 1):
        rules.append({"when": {"step": step}, "delay": "5ms", "text": f"Step {step}.",
                      "calls": [{"name": name, "arguments": {"id": argument}} for name, argument in calls]})
    rules.append({"when": {"step": len(PLAN) + 1}, "delay": "5ms", "text": "All done."})
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": False}
    command = lambda name, effects, sleep: {"name": name, "kind": "command", "effects": effects, "run": ["./effect", name, sleep], "env": ["LEDGER"], "input": schema}
    return {
        "name": "killed",
        "model": {"provider": "scripted", "name": "script", "script": rules},
        "tools": [
            command("look", "none", "0.01"),
            command("notify", "idempotent", "0.02"),
            command("send", "once", "0.03"),
            {"name": "write", "kind": "sql", "effects": "transactional", "input": schema,
             "sql": ["create table if not exists effects(id text)", "insert into effects(id) values (:id) returning id"]},
        ],
    }


class Killed(unittest.TestCase):
    def story(self, chance, kills):
        """One turn, killed up to `kills` times. Returns how many kills hit a running process."""
        with World() as world:
            world.agent("killed", definition())
            command = ("run", "-a", "killed", "-s", "s", "--request-id", "r", "--json", "go")
            hits = 0
            for _ in range(kills):
                process = world.start(*command)
                time.sleep(chance.uniform(0.0, 0.45))
                if process.poll() is None:
                    hits += 1
                kill(process)
            turn = world.json(*command, limit=60)
            self.assertEqual(turn["state"], "completed", turn)
            self.assertEqual(turn["text"], "All done.")
            self.check(world, turn)
            return hits

    def check(self, world, turn):
        ledger = world.ledger()
        rows = [row[0] for row in world.query("select id from effects")]
        receipts = {step: body for _, _, _, step, body in world.records("tool.completed")}
        self.assertEqual(len(receipts), 12)
        self.assertEqual(len(world.records("tool.completed")), 12, "a step has one receipt")
        self.assertEqual(len(world.records("model.completed")), len(PLAN) + 1, "no answered request was asked again")
        seqs = [record[0] for record in world.records()]
        self.assertEqual(seqs, list(range(1, len(seqs) + 1)), "no gaps")
        self.assertEqual(len(world.records("turn.ended")), 1)
        for calls in PLAN:
            for name, argument in calls:
                lines = [line for line in ledger if line[0] == name and line[1] == argument]
                self.assertLessEqual(len({key for _, _, key in lines}), 1, f"{name} {argument}: one key")
                if name == "write":
                    self.assertEqual(rows.count(argument), 1, f"{argument}: exactly once")
                elif name == "send":
                    self.assertLessEqual(len(lines), 1, f"{argument}: at most once")
                else:
                    self.assertGreaterEqual(len(lines), 1, f"{argument}: at least once")
        for body in receipts.values():
            outcome = body["outcome"]
            if body["name"] == "send":
                self.assertIn(outcome, ("done", "unknown"))
                if outcome == "done":
                    self.assertEqual(sum(1 for line in ledger if line[1] == body["result"]["id"]), 1)
            else:
                self.assertEqual(outcome, "done", body)

    def test_D1_D2_D4_C3_effects_survive_kill_9_at_random_moments(self):
        chance = random.Random(SEED)
        hits = stories = 0
        end = time.monotonic() + 600
        while hits < KILLS and time.monotonic() < end:
            stories += 1
            try:
                hits += self.story(chance, 1 + chance.randrange(4))
            except AssertionError as wrong:
                raise AssertionError(f"story {stories} of seed {SEED} (PAWL_SEED={SEED}): {wrong}") from wrong
        self.assertGreaterEqual(hits, KILLS)
        print(json.dumps({"kills": hits, "stories": stories, "seed": SEED}))


if __name__ == "__main__":
    unittest.main()
