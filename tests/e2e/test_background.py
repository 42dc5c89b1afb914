#!/usr/bin/env python3
"""Background replies of Responses, through the program and the strict fake model: one that its process did not live to read is resumed, not asked for again."""
import unittest

from harness import World, events_of, folded, kill, wait_for


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
