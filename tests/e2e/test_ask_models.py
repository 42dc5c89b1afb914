#!/usr/bin/env python3
"""`pawl models`, `pawl models check`, `pawl replay`: what would be asked, whether it answers, and never a key."""
import json
import os
import socket
import sqlite3
import unittest

from harness import Asking, World, kill, wait_for

ANY = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
LOOK = {"name": "look", "kind": "command", "effects": "none", "run": ["./effect", "look"], "env": ["LEDGER"], "input": ANY}
KEY = "sk-ant-api03-testing-only"


class Models(unittest.TestCase):
    def world(self, script, **more):
        world = Asking(script, **more)
        self.addCleanup(world.__exit__)
        return world

    def test_each_model_is_listed_with_its_price_or_unknown(self):
        world = self.world([], model={"name": "claude-sonnet-4-5"})
        world.agent("b", {"name": "b", "model": {"provider": "scripted", "name": "script", "script": [{"text": "Hi."}]}})
        doc = world.json("models")
        self.assertEqual([(m["agent"], m["provider"], m["model"], m["fallback"]) for m in doc["models"]], [("a", "anthropic", "claude-sonnet-4-5", False), ("b", "scripted", "script", False)])
        self.assertEqual({k: v for k, v in doc["models"][0]["price"].items() if v}, {"input": "3", "output": "15", "cache_read": "0.3", "cache_write": "3.75", "cache_write_1h": "6", "web_search": "0.01"})
        self.assertIsNone(doc["models"][1]["price"])
        self.assertRegex(doc["prices_date"], r"^20\d\d-\d\d-\d\d$")
        _, out, _ = world.run("models", check=0)
        self.assertIn(doc["prices_date"], out)
        self.assertRegex(out, r"(?m)^b +script +unknown$")
        self.assertEqual(len(world.json("models", "-a", "b")["models"]), 1)
        status, _, err = world.run("models", "-a", "nobody")
        self.assertEqual(status, 2)
        self.assertIn("nobody", err)
        self.assertFalse(os.path.exists(world.database), "no store is made")
        self.assertEqual(world.fm.requests, [])

    def test_fallbacks_are_listed_and_asked_too(self):
        world = self.world([{"when": {"model": "claude-second"}, "reply": {"status": 404, "error": {"type": "not_found_error", "message": "model: claude-second"}}}, {"reply": {"text": "OK"}}])
        world.definition["model"]["fallback"] = [{"name": "claude-second", "base_url": world.fm.url}]
        world.agent("a", world.definition)
        doc = world.json("models", "check", check=1)
        self.assertEqual([(m["model"], m["fallback"], m["state"]) for m in doc["models"]], [("claude-test-1", False, "works"), ("claude-second", True, "refused")])

    def test_N3_check_says_per_model_what_is_wrong_and_never_a_key(self):
        script = [{"when": {"model": "claude-gone"}, "reply": {"status": 404, "error": {"type": "not_found_error", "message": "model: claude-gone"}}},
                  {"when": {"model": "claude-slow"}, "reply": {"text": "late", "delay": 30}},
                  {"when": {"model": "claude-cut"}, "reply": {"text": "half of it " * 40, "cut": {"after": 600, "how": "fin"}}},
                  {"when": {"model": "claude-echo"}, "reply": {"status": 401, "error": {"type": "authentication_error", "message": f"invalid x-api-key {KEY}"}}}, {"reply": {"text": "OK"}}]
        world = self.world(script, model={"name": "claude-sonnet-4-5"})
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            closed = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        for name, model in (("cut", {"name": "claude-cut"}), ("echo", {"name": "claude-echo"}), ("gone", {"name": "claude-gone"}), ("keyless", {"api_key_env": "NO_SUCH_KEY"}), ("off", {"base_url": closed}), ("slow", {"name": "claude-slow"})):
            world.agent(name, {"name": name, "model": {**world.definition["model"], **model, **({"thinking": {"type": "enabled", "budget_tokens": 2000}} if name == "gone" else {})}, "tools": [LOOK]})
        world.agent("script", {"name": "script", "model": {"provider": "scripted", "name": "script", "script": [{"text": "Hi."}]}})
        status, out, err = world.run("models", "check", "--within", "2s", "--json")
        self.assertEqual(status, 1, err)
        states = {m["agent"]: m for m in json.loads(out)["models"]}
        self.assertEqual({name: m["state"] for name, m in states.items()},
                         {"a": "works", "cut": "unreachable", "echo": "refused", "gone": "refused", "keyless": "no_key", "off": "unreachable", "script": "works", "slow": "slow"})
        self.assertEqual(states["gone"]["detail"], "model: claude-gone")
        self.assertIn("NO_SUCH_KEY", states["keyless"]["detail"])
        self.assertEqual(states["off"]["code"], "connect")
        self.assertGreaterEqual(states["slow"]["duration_ms"], 1900)
        self.assertIsNotNone(states["a"]["price"])
        _, words, said = world.run("models", "check", "--within", "2s", check=1)
        for text in (out, err, words, said):
            self.assertNotIn(KEY, text)
            self.assertNotIn("testing-only", text)
        self.assertRegex(words, r"(?m)^keyless .*no key .*NO_SUCH_KEY")
        for request in world.fm.requests:
            body = json.loads(request["body"])
            self.assertLessEqual(body["max_tokens"], 16)
            self.assertNotIn("tools", body)
            self.assertNotIn("thinking", body)
        self.assertEqual(world.refusals("model: claude-gone", f"invalid x-api-key {KEY}"), [])
        self.assertEqual(world.json("models", "check", "-a", "a")["ok"], True)
        status, _, err = world.run("models", "check", "--within", "soon")
        self.assertEqual(status, 2)
        self.assertIn("within", err)
        self.assertFalse(os.path.exists(world.database), "no store is made")


class Replay(unittest.TestCase):
    def world(self, script, tools=(LOOK,), **more):
        world = Asking(script, tools, **more)
        self.addCleanup(world.__exit__)
        return world

    def replay(self, world, *arguments, check=0):
        return world.run("replay", "s", "--dry-run", *arguments, check=check)[1]

    def test_C10_the_next_request_is_shown_as_it_is_then_sent(self):
        world = self.world([{"when": {"role": "user", "turn": "tools"}, "reply": {"thinking": "hm", "calls": [{"name": "look", "input": {"id": "1"}}]}}, {"reply": {"text": "Fine."}}])
        world.ask("tools, please")
        before = world.query("select count(*) from pawl_journal")
        shown = self.replay(world, "And", "now?")
        self.assertEqual(world.query("select count(*) from pawl_journal"), before)
        self.assertEqual(world.query("select count(*) from pawl_inbox"), [(1,)])
        world.ask("And now?")
        self.assertEqual(shown.rstrip("\n"), world.bodies()[-1], "byte for byte")
        doc = world.json("replay", "s", "--dry-run", "More?")
        self.assertEqual((doc["ok"], doc["state"], doc["problems"], doc["model"], doc["url"]), (True, "ready", [], "claude-test-1", world.fm.url + "/v1/messages"))
        self.assertEqual(doc["sizes"]["tools"], 1)
        self.assertEqual(doc["sizes"]["messages"], 7)
        self.assertNotIn("x-api-key", doc["headers"])
        self.assertNotIn(KEY, json.dumps(doc))
        status, _, err = world.run("replay", "s", "--dry-run")
        self.assertEqual(status, 2)
        self.assertIn("PROMPT", err)
        self.assertEqual(world.run("replay", "nobody", "--dry-run", "x")[0], 2)

    def test_J3_a_session_that_is_run_by_a_live_process_is_shown_and_not_fenced(self):
        world = self.world([{"when": {"call": 1}, "reply": {"text": "Slow.", "delay": 3}}, {"reply": {"text": "Next."}}])
        process = world.start(*world.command("go"), "--json")
        world.fm.wait(lambda fm: len(fm.requests) == 1, 20)
        epoch = world.query("select epoch from pawl_sessions")
        self.assertEqual(self.replay(world).rstrip("\n"), world.bodies()[0])
        self.assertEqual(world.query("select epoch from pawl_sessions"), epoch)
        out, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(len(world.fm.requests), 1)

    def test_C9_a_damaged_transcript_is_1_and_says_what_and_where(self):
        world = self.world([{"when": {"role": "user", "turn": "tools"}, "reply": {"calls": [{"name": "look", "input": {"id": "1"}}]}}, {"reply": {"text": "Fine."}}])
        world.ask("tools")
        store = sqlite3.connect(world.database)
        store.execute("delete from pawl_journal where kind = 'tool.completed'")
        store.commit()
        store.close()
        doc = world.json("replay", "s", "--dry-run", "again", check=1)
        self.assertFalse(doc["ok"])
        self.assertEqual([(p["what"], p["mended"]) for p in doc["problems"]], [("missing_result", True)])
        self.assertGreater(doc["problems"][0]["seq"], 0)
        status, out, err = world.run("replay", "s", "--dry-run", "again")
        self.assertEqual(status, 1)
        self.assertRegex(err, r"missing_result at record \d+")
        self.assertEqual(world.ask("again")["text"], "Fine.")
        self.assertEqual(out.rstrip("\n"), world.bodies()[-1], "what is shown is what is sent, mended")

    def test_tools_that_come_first_are_named(self):
        world = self.world([{"when": {"role": "user"}, "reply": {"calls": [{"name": "look", "input": {"id": "1"}}]}}, {"reply": {"text": "Fine."}}],
                           tools=({**LOOK, "run": ["./effect", "look", "600"]},))
        process = world.start(*world.command("go"))
        wait_for(lambda: world.ledger(), what="the tool")
        kill(process)
        doc = world.json("replay", "s", "--dry-run")
        self.assertEqual((doc["state"], doc["calls"], doc["ok"]), ("tools", "look", True))
        self.assertEqual(len(world.ledger()), 1, "nothing ran")

    def test_a_scripted_session_is_checked_without_a_request(self):
        world = World()
        self.addCleanup(world.__exit__)
        world.agent("a", {"name": "a", "model": {"provider": "scripted", "name": "script", "script": [{"text": "Hi."}]}})
        world.run("run", "-a", "a", "-s", "s", "hi", check=0)
        doc = world.json("replay", "s", "--dry-run", "more")
        self.assertEqual((doc["ok"], doc["state"], doc["sizes"]["messages"]), (True, "ready", 3))


if __name__ == "__main__":
    unittest.main()
