#!/usr/bin/env python3
"""Models that will not answer, and parts that one will not take, through the program: fallbacks (F6, case B1), quarantine (C9)."""
import json
import unittest

from fake_model import Strict
from harness import Claude, World, events_of, folded, kill, wait_for

ANY = {"type": "object", "properties": {"id": {"type": "string"}}}
PUT = {"name": "put", "kind": "command", "effects": "idempotent", "run": ["./effect", "put"], "env": ["LEDGER"], "input": ANY}


class Fallback(unittest.TestCase):
    def world(self, script, *arguments, **more):
        world = Claude(script, *arguments, **more)
        self.addCleanup(world.__exit__)
        return world

    def with_fallbacks(self, script, *names):
        world = self.world(script, [PUT])
        model = dict(world.definition["model"], fallback=[{"name": name, "base_url": world.fm.url} for name in names])
        world.agent("a", dict(world.definition, model=model))
        return world

    def test_case_B1_F6_a_fallback_amid_a_turn_makes_one_reply_and_is_told(self):
        world = self.with_fallbacks([
            {"when": {"model": "claude-test-1", "tool_results": 1}, "reply": {"status": 404, "error": {"type": "not_found_error", "message": "model: claude-test-1"}}},
            {"when": {"model": "claude-test-1"}, "reply": {"text": "I put it. ", "calls": [{"name": "put", "input": {"id": "1"}}]}},
            {"when": {"model": "claude-small"}, "reply": {"text": "Done by the other."}}], "claude-small")
        turn, events = world.watch("go")
        self.assertEqual((turn["state"], turn["text"], turn["usage"]["fallbacks"], turn["model"]), ("completed", "Done by the other.", 1, "claude-small"))
        fallbacks = [data for _, name, data in events if name == "model.fallback"]
        self.assertEqual([(f["from"]["model"], f["to"]["model"], f["code"]) for f in fallbacks], [("claude-test-1", "claude-small", "not_found_error")])
        self.assertEqual(len([1 for _, name, _ in events if name.startswith("turn.") and name != "turn.started"]), 1)
        self.assertEqual(folded(events), "Done by the other.")
        self.assertEqual(len(world.ledger()), 1)
        conversations = world.conversations()
        self.assertEqual(conversations[1].split('"messages":', 1)[1], conversations[2].split('"messages":', 1)[1])  # the same transcript, byte for byte
        # The next turn begins with the first model again.
        world.fm.set_script([{"reply": {"text": "Hello."}}])
        self.assertEqual(world.ask("and now")["usage"]["fallbacks"], 0)
        self.assertEqual(json.loads(world.bodies()[-1])["model"], "claude-test-1")
        shown = world.json("show", "s")
        self.assertIn('"fallbacks":1', json.dumps(shown, separators=(",", ":")))

    def test_F6_a_person_is_told_in_a_line(self):
        world = self.with_fallbacks([{"when": {"model": "claude-test-1"}, "reply": {"status": 402, "error": {"type": "billing_error", "message": "credit balance is too low"}}},
                                     {"reply": {"text": "Here."}}], "claude-small")
        _, out, err = world.run(*world.command("go"), check=0)
        self.assertIn("Here.", out)
        self.assertIn("claude-test-1 will not answer, claude-small is asked: credit_balance_exhausted: credit balance is too low", err)

    def test_F6_nothing_left_fails_visibly_and_a_wrong_request_falls_back_to_nobody(self):
        gone = {"status": 404, "error": {"type": "not_found_error", "message": "no such model"}}
        world = self.with_fallbacks([{"when": {"turn": "wrong"}, "reply": {"status": 400, "error": {"type": "invalid_request_error", "message": "nope"}}}, {"reply": gone}], "claude-small", "claude-tiny")
        _, out, _ = world.run(*world.command("go", "s", "r1"), "--json")
        turn = events_of(out)[1]
        self.assertEqual((turn["state"], turn["reason"], turn["usage"]["fallbacks"], turn["detail"]), ("failed", "model", 2, "no such model"))
        self.assertEqual(world.records("turn.ended")[0][4]["code"], "model:not_found_error")
        _, out, _ = world.run(*world.command("wrong", "t"), "--json")
        turn = events_of(out)[1]
        self.assertEqual((turn["state"], turn["usage"]["fallbacks"]), ("failed", 0))

    def test_F6_each_fallback_has_a_script_of_its_own(self):
        world = World()
        self.addCleanup(world.__exit__)
        world.agent("a", {"model": {"provider": "scripted", "name": "one", "script": [{"error": {"class": "next", "code": "gone"}}],
                                    "fallback": [{"name": "two", "script": "two.yaml"}]}}, files={"two.yaml": "- text: from the second\n"})
        turn = world.json("run", "-a", "a", "-s", "s", "go")
        self.assertEqual((turn["state"], turn["text"], turn["model"]), ("completed", "from the second", "two"))
        world.agent("b", {"model": {"provider": "scripted", "name": "one", "script": [], "fallback": [{"name": "two", "script": "two.yaml"}]}}, files={"two.yaml": "- text: a\n- tekst: b\n"})
        status, out, err = world.run("agents", "check", world.agents + "/b")
        self.assertNotEqual(status, 0)
        self.assertIn("two.yaml:2: [1].tekst: there is no such option", out + err)


class Quarantine(unittest.TestCase):
    def test_C9_thinking_that_is_not_signed_any_more_does_not_end_the_session(self):
        world = Claude([{"when": {"role": "tool"}, "reply": {"text": "Put."}},
                        {"when": {"turn": "first"}, "reply": {"thinking": "I will put it.", "calls": [{"name": "put", "input": {"id": "1"}}]}},
                        {"reply": {"text": "Still here."}}], [PUT])
        self.addCleanup(world.__exit__)
        self.assertEqual(world.ask("first")["state"], "completed")
        world.fm.strict_memory = Strict()  # the provider's keys change: it takes its old signatures no more
        turn = world.ask("second")
        self.assertEqual((turn["state"], turn["text"]), ("completed", "Still here."))
        self.assertEqual([message for _, message in world.fm.refused], ["messages.1.content.0: Invalid `signature` in `thinking` block"])
        repairs = [body["repairs"] for _, _, _, _, body in world.records("transcript.repaired")]
        self.assertEqual([[r["what"], r["part"]] for r in repairs[0]], [["quarantined", 0]])
        # In a later turn, by another process, it is never sent again; the row that holds it is as it was.
        self.assertEqual(world.ask("third")["text"], "Still here.")
        self.assertEqual(len(world.fm.refused), 1)
        self.assertNotIn("thinking", world.bodies()[-1])
        self.assertIn("signature", json.dumps(world.records("model.completed")[0][4]))


class Resumed(unittest.TestCase):
    """A provider that goes on with a reply under an id (PROVIDERS.md 4.5), played by a script."""

    def world(self, script):
        world = World()
        self.addCleanup(world.__exit__)
        world.agent("a", {"model": {"provider": "scripted", "name": "tape", "script": script}})
        return world

    def test_G6_a_reply_is_resumed_after_kill_9_and_no_call_is_lost(self):
        world = self.world([{"when": {"resume": "resp_1"}, "text": "the whole reply"}, {"accepted": "resp_1", "text": "the wh", "chunk": 2, "pace": "20s"}])
        process = world.start("run", "-a", "a", "-s", "s", "--request-id", "r", "go")
        wait_for(lambda: world.records("model.accepted"), what="the record of the id")
        kill(process)
        turn = world.json("run", "-a", "a", "-s", "s", "--request-id", "r", "go")
        self.assertEqual((turn["state"], turn["text"], turn["attempts"], turn["usage"]["lost_calls"]), ("completed", "the whole reply", 2, 0))
        self.assertTrue(world.records("attempt.started")[0][4]["resumed"])

    def test_C5_M2_a_broken_stream_is_resumed_and_no_text_is_shown_twice(self):
        world = self.world([{"when": {"resume": "resp_1"}, "text": "the whole reply", "chunk": 3, "pace": "5ms"},
                            {"accepted": "resp_1", "delay": "100ms", "text": "the wh", "chunk": 2, "pace": "20ms", "cut": True}])
        _, out, _ = world.run("run", "-a", "a", "-s", "s", "go", "--json", check=0)
        events, turn = events_of(out)
        self.assertEqual(turn["text"], "the whole reply")
        self.assertEqual(folded(events), "the whole reply")
        texts = [data["text"] for _, name, data in events if name == "message.delta"]
        self.assertEqual("".join(texts), "the wh" + "the whole reply")
        self.assertEqual([name for _, name, _ in events].count("message.restarted"), 1)

    def test_I6_a_graceful_stop_leaves_the_reply_to_be_resumed(self):
        world = self.world([{"when": {"resume": "resp_1"}, "text": "the whole reply"}, {"accepted": "resp_1", "text": "the wh", "chunk": 2, "pace": "20s"}])
        process = world.start("run", "-a", "a", "-s", "s", "--request-id", "r", "go")
        wait_for(lambda: world.records("model.accepted"), what="the record of the id")
        process.terminate()
        process.communicate(timeout=20)
        turn = world.json("run", "-a", "a", "-s", "s", "--request-id", "r", "go")
        self.assertEqual((turn["text"], turn["usage"]["lost_calls"]), ("the whole reply", 0))


if __name__ == "__main__":
    unittest.main()
