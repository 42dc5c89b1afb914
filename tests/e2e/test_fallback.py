#!/usr/bin/env python3
"""Fallback models (F6), through the program and the strict fake model: who is asked next, what it is sent, and what the turn counts."""
import json
import unittest

from harness import AskingTest, World, call, command, everywhere, folded, kill, named

LONG = "Here is the plan, word for word, as it was asked for: first this, then that, and so on. "
ALL = ("anthropic", "responses", "chat")
BUSY = {"fails": "overloaded", "message": "busy"}


class Fallback(AskingTest):
    def chain(self, speaker, rules, *tools, second=None, **more):
        """An agent whose model `first` is followed by `second` of the same provider, or of the speaker that is named."""
        world = self.world(speaker, rules, *tools, **more)
        other = world.model(second or speaker, name="second")
        world.define(model=world.model(speaker, name="first", fallback=[other]))
        return world

    def asked(self, world):
        return [r["json"]["model"] for r in world.fm.requests]

    @everywhere(*ALL)
    def test_case_B1_F6_a_model_that_breaks_after_text_is_followed_by_one_reply_of_its_fallback(self, speaker):
        world = self.chain(speaker, [{"when": {"model": "first"}, "reply": {"text": LONG, "chunk": 5, "cut": {"text": 30, "how": "fin"}}}, {"text": "The fallback's answer."}])
        turn, events = world.watch("go")
        self.assertEqual((turn["state"], turn["text"], turn["model"]), ("completed", "The fallback's answer.", "second"))
        self.assertEqual(self.asked(world), ["first"] * 4 + ["second"])
        self.assertEqual(([e["text"] for e in named(events, "message.completed")], len(named(events, "turn.completed"))), (["The fallback's answer."], 1))
        self.assertIn(folded(events), ("", "The fallback's answer."), "deltas may be passed over (M3), and are never another's")
        self.assertEqual(len(named(events, "message.restarted")), 4, "each broken text was taken back")
        fallback, = named(events, "model.fallback")
        self.assertEqual((fallback["from"]["model"], fallback["to"]["model"]), ("first", "second"))
        self.assertEqual((turn["usage"]["fallbacks"], turn["usage"]["iterations"]), (1, 1))
        self.assertEqual(len([m for m in json.loads(world.run("show", "s", "--json", check=0)[1].strip().split("\n")[-1])["messages"] if m["role"] == "assistant"]), 1)

    @everywhere(*ALL)
    def test_F6_F5_an_overloaded_model_is_left_after_its_tries(self, speaker):
        world = self.chain(speaker, [{"when": {"model": "first"}, "reply": BUSY}, {"text": "Fine."}])
        turn, events = world.watch("go")
        self.assertEqual((turn["text"], turn["usage"]["fallbacks"]), ("Fine.", 1))
        self.assertEqual(self.asked(world), ["first"] * 4 + ["second"])
        self.assertEqual(len({talk.replace('"first"', '"second"') for talk in world.conversations()}), 1, "the same transcript, byte for byte")
        world.fm.set_script([{"reply": {"text": "Back."}}])
        self.assertEqual(world.ask("again")["usage"]["fallbacks"], 0)
        self.assertEqual(self.asked(world)[-1], "first", "the next turn begins with the first choice")

    @everywhere(*ALL)
    def test_F6_no_money_and_no_such_model_go_to_the_fallback_at_once_and_a_bad_request_does_not(self, speaker):
        words = ("money", "no_model", "invalid")
        world = self.chain(speaker, [{"when": {"model": "first", "marker": word}, "reply": {"fails": word, "message": f"no luck: {word}"}} for word in words] + [{"text": "Fine."}])
        for word in words[:2]:
            turn = world.ask(f"marker:{word}", word)
            self.assertEqual((turn["text"], turn["model"], turn["usage"]["fallbacks"]), ("Fine.", "second", 1), word)
        turn = world.ask("marker:invalid", "invalid", check=1)
        self.assertEqual((turn["reason"], turn["detail"]), ("model", "no luck: invalid"))
        self.assertEqual(self.asked(world), ["first", "second"] * 2 + ["first"])

    @everywhere(*ALL)
    def test_F6_a_fallback_that_fails_too_ends_the_turn_with_its_message_and_counts_all(self, speaker):
        world = self.chain(speaker, [{"when": {"model": "first"}, "reply": {"fails": "money", "message": "no money here"}}, {"fails": "money", "message": "nor there"}])
        turn = world.ask("go", check=1)
        self.assertEqual((turn["state"], turn["reason"], turn["detail"], turn["usage"]["fallbacks"]), ("failed", "model", "nor there", 1))
        self.assertEqual(self.asked(world), ["first", "second"])

    @everywhere("anthropic", "responses", "deepseek", "openrouter")
    def test_F6_C8_C9_after_a_receipt_one_of_the_same_provider_goes_on_with_the_same_transcript_also_after_a_kill(self, speaker):
        tools = [{"when": {"tool_results": i}, "reply": {"thinking": f"hm {i}", "text": f"Step {i}.", "calls": [call("send", str(i)), call("send", f"{i}b")]}} for i in range(3)]
        broken = {"when": {"model": "first", "tool_results": 1}, "reply": {"fails": "no_model", "message": "gone"}}
        world = self.chain(speaker, [broken, *tools, {"when": {"session_call": 5}, "reply": {"text": "never to be whole", "stall": {"after": 1, "for": 60}}}, {"text": "Done."}], command("send", "once"))
        process = world.start(*world.command("go", "s", "r"))
        world.fm.wait(lambda fm: len(fm.requests) == 5)
        kill(process)
        turn, events = world.watch("go", "s", "r")
        self.assertEqual((turn["state"], turn["text"], turn["model"], turn["usage"]["fallbacks"], turn["attempts"]), ("completed", "Done.", "second", 1, 2))
        self.assertEqual(self.asked(world), ["first"] * 2 + ["second"] * 4, "what was chosen outlives the process")
        self.assertEqual([i for _, i, _ in world.ledger()], [f"{i}{b}" for i in range(3) for b in ("", "b")], "nothing ran twice")
        self.assertEqual(world.refusals("gone"), [])
        world.fm.set_script([{"reply": {"text": "Back."}}])
        self.assertEqual(world.ask("again")["model"], "first")
        self.assertEqual(world.refusals("gone"), [])

    @everywhere("anthropic responses", "responses chat", "chat anthropic", "anthropic chat")
    def test_F6_another_provider_answers_before_the_first_receipt_and_never_after_it(self, pair):
        first, second = pair.split()
        gone = {"fails": "no_model", "message": "gone"}
        world = self.chain(first, [{"when": {"model": "first", "turn": "early"}, "reply": gone}, {"when": {"model": "first", "turn": "late", "role": "tool"}, "reply": gone},
                                   {"when": {"turn": "late", "role": "user"}, "reply": {"thinking": "hm", "calls": [call("send")]}}, {"when": {"turn": "early", "role": "user"}, "reply": {"thinking": "hm", "calls": [call("send", "2")]}},
                                   {"text": "Fine."}], command("send", "once"), second=second)
        turn, events = world.watch("early")
        self.assertEqual((turn["state"], turn["text"], turn["model"], turn["usage"]["fallbacks"]), ("completed", "Fine.", "second", 1))
        self.assertEqual(self.asked(world), ["first", "second", "second"])
        turn, events = world.watch("late", check=1)
        self.assertEqual((turn["state"], turn["reason"], turn["usage"]["fallbacks"]), ("failed", "model", 0))
        self.assertIn("gone", turn["detail"])
        self.assertIn("the fallback second was not taken: it is of another provider, and this turn has receipts already", turn["detail"])
        self.assertEqual([o["name"] for o in turn["operations"]], ["send"], "with what was done")
        self.assertEqual(self.asked(world)[3:], ["first", "first"])
        world.fm.set_script([{"reply": {"thinking": "so", "text": "Next."}}])
        self.assertEqual(world.ask("next")["text"], "Next.")
        self.assertEqual(world.refusals("gone"), [])

    def test_F6_a_chain_of_three_families_is_gone_through_in_its_order(self):
        world = self.world("anthropic", [{"when": {"model": "one"}, "reply": {"fails": "no_model", "message": "gone"}}, {"when": {"model": "two"}, "reply": {"fails": "money", "message": "poor"}}, {"text": "Third."}])
        world.define(model=world.model("anthropic", name="one", fallback=[world.model("responses", name="two"), world.model("chat", name="three")]))
        turn, events = world.watch("go")
        self.assertEqual((turn["text"], turn["model"], turn["usage"]["fallbacks"]), ("Third.", "three", 2))
        self.assertEqual([(r["protocol"], r["json"]["model"]) for r in world.fm.requests], [("anthropic", "one"), ("responses", "two"), ("chat", "three")])
        self.assertEqual([(d["from"]["model"], d["to"]["model"]) for d in named(events, "model.fallback")], [("one", "two"), ("two", "three")])

    def test_F6_a_person_is_told_in_a_line(self):
        world = self.chain("anthropic", [{"when": {"model": "first"}, "reply": {"fails": "no_model", "message": "no such model"}}, {"text": "Here."}])
        _, out, err = world.run(*world.command("go"), check=0)
        self.assertIn("Here.", out)
        self.assertIn("first will not answer, second is asked: not_found_error: no such model", err)

    def test_F6_each_fallback_has_a_script_of_its_own(self):
        world = World()
        self.addCleanup(world.__exit__)
        world.agent("a", {"model": {"provider": "scripted", "name": "one", "script": [{"error": {"class": "next", "code": "gone"}}],
                                    "fallback": [{"name": "two", "script": "two.yaml"}]}}, files={"two.yaml": "- text: from the second\n"})
        turn = world.json("run", "-a", "a", "-s", "s", "go")
        self.assertEqual((turn["state"], turn["text"], turn["model"]), ("completed", "from the second", "two"))
        self.assertEqual(world.json("agents", "check", world.agents + "/a")["agents"][0]["models"], ["one", "two"])
        self.assertRegex(world.run("agents", "check", world.agents + "/a", check=0)[1], r"^a +[0-9a-f]{12}  0 tools  one, else two\n$")
        world.agent("b", {"model": {"provider": "scripted", "name": "one", "script": [], "fallback": [{"name": "two", "script": "two.yaml"}]}}, files={"two.yaml": "- text: a\n- tekst: b\n"})
        status, out, err = world.run("agents", "check", world.agents + "/b")
        self.assertNotEqual(status, 0)
        self.assertIn("two.yaml:2: [1].tekst: there is no such option", out + err)

    @everywhere(*ALL)
    def test_F6_F10_a_rate_limit_is_waited_for_and_no_reason_to_leave(self, speaker):
        world = self.chain(speaker, [{"when": {"model": "first", "times": 1}, "reply": {"fails": "rate_limit", "message": "slow down", "headers": {"retry-after": "1"}}}, {"text": "Fine."}])
        turn = world.ask("go")
        self.assertEqual((turn["text"], turn["model"], turn["usage"]["fallbacks"]), ("Fine.", "first", 0))


if __name__ == "__main__":
    unittest.main()
