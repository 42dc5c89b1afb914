#!/usr/bin/env python3
"""What only OpenAI Responses has, through the program and the strict fake model: replies in the background, whole items that go back."""
import json
import unittest

from harness import AskingTest, call, command, folded, kill, named, wait_for

LONG = "Here is the plan, word for word, as it was asked for: first this, then that, and so on. "
COMMENTARY = {"id": "msg_fm_c", "type": "message", "status": "completed", "role": "assistant", "phase": "commentary",
              "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}]}
SLOW = {"text": LONG, "chunk": 4, "pace": 0.3}


class Background(AskingTest):
    """`background: true` (PROVIDERS.md 4.5): the provider works on while nobody is connected."""

    def ground(self, *replies, tools=(), **model):
        return self.world("responses", list(replies), *tools, model={"background": True, **model})

    def begun(self, world):
        process = world.start(*world.command("go", "s", "r"))
        wait_for(lambda: world.records("model.accepted"), what="the record of the id")
        return process

    def test_C5_G6_after_kill_9_the_reply_is_asked_for_by_its_id_and_nothing_is_paid_twice(self):
        world = self.ground(SLOW)
        kill(self.begun(world))
        turn, events = world.watch("go", "s", "r")
        self.assertEqual((turn["state"], turn["text"], folded(events)), ("completed", LONG, LONG))
        self.assertEqual((len(world.fm.requests), turn["usage"]["lost_calls"]), (1, 0))
        self.assertEqual([(a["method"], a["path"]) for a in world.fm.asked], [("GET", "/v1/responses/resp_fm_1?stream=true")])
        body = json.loads(world.bodies()[0])
        self.assertEqual((body["background"], body["store"]), (True, True))

    def test_C5_M2_a_connection_that_breaks_is_resumed_and_the_text_begins_again(self):
        world = self.ground({"text": LONG, "chunk": 5, "pace": 0.01, "cut": {"text": 40, "how": "rst"}})
        turn, events = world.watch("go")
        self.assertEqual((turn["state"], turn["text"], folded(events)), ("completed", LONG, LONG))
        self.assertEqual((len(world.fm.requests), [a["method"] for a in world.fm.asked]), (1, ["GET"]))

    def test_C5_a_reply_that_is_gone_is_asked_for_anew(self):
        world = self.ground(SLOW)
        process = self.begun(world)
        kill(process)
        world.fm.protocols["responses"].kept.clear()
        world.fm.set_script([{"reply": {"text": "Another."}}])
        turn = world.ask("go", "s", "r")
        self.assertEqual((turn["state"], turn["text"]), ("completed", "Another."))
        self.assertEqual(([a["method"] for a in world.fm.asked], len(world.fm.requests)), (["GET"], 2))

    def test_F5_a_reply_that_is_not_there_in_other_words_is_asked_for_anew(self):
        for status in (400, 404, 410):
            resumed = {"status": status, "error": {"type": "invalid_request_error", "message": "It has expired."}}
            world = self.ground({"text": LONG, "chunk": 5, "pace": 0.01, "cut": {"text": 40, "how": "rst"}, "resumes": [resumed]})
            world.fm.rules.insert(0, {"used": 0, "when": {"call": 2}, "reply": {"text": "Another."}})
            turn, events = world.watch("go")
            self.assertEqual((turn["state"], turn["text"], folded(events)), ("completed", "Another.", "Another."), status)
            self.assertEqual(([a["method"] for a in world.fm.asked], len(world.fm.requests)), (["GET"], 2), status)

    def test_G6_a_provider_that_is_busy_when_asked_for_a_reply_is_asked_for_it_again(self):
        busy = [{"status": 503, "error": {"type": "server_error", "message": "busy"}}, {"status": 429, "headers": {"retry-after": "1"}, "error": {"type": "rate_limit_error", "message": "slow down"}}]
        world = self.ground({"text": LONG, "chunk": 5, "pace": 0.01, "cut": {"text": 40, "how": "rst"}, "resumes": busy})
        turn, events = world.watch("go")
        self.assertEqual((turn["state"], turn["text"], folded(events)), ("completed", LONG, LONG))
        self.assertEqual(([a["method"] for a in world.fm.asked], len(world.fm.requests), turn["usage"]["lost_calls"]), (["GET"] * 3, 1, 0))

    def test_I7_a_cancelled_turn_is_cancelled_at_the_provider(self):
        world = self.ground(SLOW)
        process = self.begun(world)
        world.run("cancel", "s")
        process.communicate(timeout=20)
        wait_for(lambda: world.fm.asked, what="the cancellation")
        self.assertEqual([(a["method"], a["path"]) for a in world.fm.asked], [("POST", "/v1/responses/resp_fm_1/cancel")])
        self.assertIn("authorization", world.fm.asked[0]["headers"])


class Items(AskingTest):
    def test_C8_all_items_of_a_turn_go_back_and_nothing_is_left_at_the_provider(self):
        world = self.world("responses", [
            {"when": {"turn": "and now"}, "reply": {"text": "Nothing."}},
            {"when": {"role": "user"}, "reply": {"blocks": [{"thinking": "First I look.", "signature": "sealed-1"}, {"raw": COMMENTARY},
                                                            {"thinking": "Then I send.", "signature": "sealed-2"}, {"call": "send", "input": {"id": "1"}}]}},
            {"when": {"role": "tool"}, "reply": {"thinking": "Done.", "text": "Sent."}}], command("send", "once"))
        turn, events = world.watch("go")
        self.assertEqual((turn["state"], turn["text"]), ("completed", "Sent."))
        world.ask("and now")
        self.assertEqual(world.refusals(), [])
        body = json.loads(world.bodies()[1])
        self.assertEqual((body["store"], body["include"], body["stream_options"]), (False, ["reasoning.encrypted_content"], {"include_obfuscation": False}))
        self.assertNotIn("previous_response_id", body)
        self.assertEqual([i.get("phase", i["type"]) for i in body["input"]], ["message", "reasoning", "commentary", "reasoning", "function_call", "function_call_output"])
        self.assertEqual([i["encrypted_content"] for i in body["input"] if i["type"] == "reasoning"], ["sealed-1", "sealed-2"])
        self.assertEqual([i["id"] for i in body["input"] if "id" in i], ["rs_fm_1_0", "rs_fm_1_2"])
        self.assertTrue(named(events, "message.delta"))

    def test_C9_reasoning_that_the_provider_looks_for_in_vain_does_not_end_the_session(self):
        world = self.world("responses", [{"thinking": "Hm.", "text": "Said."}])
        world.ask("first")
        world.fm.protocols["responses"].issued.clear()
        self.assertEqual(world.ask("second")["state"], "completed")
        self.assertEqual([message.split(" found")[0] for _, message in world.fm.refused], ["Item with id 'rs_fm_1_0' not"])
        self.assertEqual([body["repairs"][0]["what"] for *_, body in world.records("transcript.repaired")], ["quarantined"])

    def test_C9_reasoning_that_the_provider_takes_no_more_does_not_end_the_session(self):
        world = self.world("responses", [{"when": {"role": "tool"}, "reply": {"text": "Sent."}}, {"when": {"turn": "first"}, "reply": {"thinking": "I will send it.", "calls": [call("send")]}},
                                         {"text": "Still here."}], command("send", "once"))
        self.assertEqual(world.ask("first")["state"], "completed")
        world.fm.protocols["responses"].sealed.clear()  # the provider's keys change
        self.assertEqual(world.ask("second")["text"], "Still here.")
        self.assertEqual([message.split(" could")[0] for _, message in world.fm.refused], ["The encrypted content for item rs_fm_1_0"])
        repairs = [body["repairs"] for _, _, _, _, body in world.records("transcript.repaired")]
        self.assertEqual([[r["what"], r["part"]] for r in repairs[0]], [["quarantined", 0]])
        self.assertEqual(world.ask("third")["text"], "Still here.")
        self.assertEqual(len(world.fm.refused), 1)
        self.assertNotIn("rs_fm_1_0", world.bodies()[-1])

    def test_options_that_are_wrong_are_named(self):
        world = self.world("responses", [])
        for options, message in (({"reasoning": {"effort": "huge"}}, "model.reasoning.effort: expected one of none, minimal"),
                                 ({"store": True}, "model.store: there is no such option"), ({"background": "yes"}, "model.background: expected true or false"),
                                 ({"max_tokens": 4}, "model.max_tokens: expected at least 16")):
            world.define(model=world.model("responses", **options))
            status, out, err = world.run("agents", "check", world.agents + "/a")
            self.assertNotEqual(status, 0)
            self.assertIn(message, out + err)


if __name__ == "__main__":
    unittest.main()
