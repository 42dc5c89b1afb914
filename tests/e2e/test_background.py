#!/usr/bin/env python3
"""Background replies of Responses, through the program and the strict fake model: one that its process did not live to read is resumed, not asked for again."""
import unittest

from harness import AskingTest, World, call, command, events_of, folded, kill, named, wait_for

LONG = "Here is the plan, word for word, as it was asked for: first this, then that, and so on. "
HELD = {"text": 30, "for": 60}


class Background(AskingTest):
    def background(self, rules, *tools, **more):
        return self.world("responses", rules, *tools, model={"background": True, **more.pop("model", {})}, **more)

    def shown(self, world, words):
        """A turn whose text streams until the words were shown; its process, still running."""
        process, text = world.start(*world.command("go", "s", "r"), "--json"), ""
        for line in process.stdout:
            events, _ = events_of(line.decode())
            text += "".join(d["text"] for d in named(events, "message.delta"))
            if words in text:
                return process
        raise AssertionError(f"{words!r} never came: {text!r} {process.stderr.read().decode()}")

    def paths(self, world):
        return [(a["method"], a["path"].split("?")[0]) for a in world.fm.asked]

    def test_J5_C4_a_kill_9_while_a_reply_streams_resumes_it_by_its_id_and_asks_once(self):
        world = self.background([{"when": {"role": "user", "turn": "go"}, "reply": {"thinking": "hm", "text": LONG, "chunk": 10, "calls": [call("send")], "stall": HELD}}, {"text": "Done."}], command("send", "once"))
        process = self.shown(world, "Here is the plan")
        wait_for(lambda: world.records("model.accepted"), what="the record of the id")
        kill(process)
        turn, events = world.watch("go", "s", "r")
        self.assertEqual((turn["state"], turn["text"], turn["attempts"]), ("completed", "Done.", 2))
        self.assertEqual(turn["usage"]["lost_calls"], 0, "nothing was lost")
        self.assertEqual(len(world.fm.requests), 2, "one POST for each step")
        self.assertEqual(self.paths(world), [("GET", "/v1/responses/resp_fm_1")])
        self.assertEqual([d["text"] for d in named(events, "message.completed")], [LONG, "Done."])
        self.assertEqual(len(world.ledger()), 1)
        self.assertEqual(world.ask("more")["state"], "completed")
        self.check_requests(world)

    def test_F5_a_stream_that_breaks_is_resumed_too_and_its_text_is_told_once(self):
        world = self.background([{"text": LONG, "chunk": 10, "pace": 0.005, "cut": {"text": 30}, "resumes": [{"cut": {"text": 50, "how": "fin"}}]}])
        turn, events = world.watch("go")
        self.assertEqual((turn["state"], turn["text"], folded(events)), ("completed", LONG, LONG))
        self.assertEqual(len(world.fm.requests), 1)
        self.assertEqual(self.paths(world), [("GET", "/v1/responses/resp_fm_1")] * 2)


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
