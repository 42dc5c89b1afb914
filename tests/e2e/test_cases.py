#!/usr/bin/env python3
"""Real failures of other systems, as given / when / then, through the program: crashes and replay, duplicates, hung tools, locks, damage, stop causes.

The moment of a crash is exact: a command tool kills the engine (its parent) after its effect and before its receipt, or hangs until the test kills it.
"""
import json
import os
import signal
import sqlite3
import subprocess
import threading
import time
import unittest

from harness import ANY, BIN, HANGER, KILLER, World, command, kill, wait_for


def call(name, argument="1"):
    return {"name": name, "arguments": {"id": argument}}


def scripted(*rules):
    return {"provider": "scripted", "name": "script", "script": list(rules)}


def one_call(name, answer="Done."):
    """Asks for one call, then answers whatever it reads."""
    return scripted({"when": {"step": 1}, "calls": [call(name)]}, {"when": {"last": "unknown"}, "text": "I cannot know whether it happened."}, {"text": answer})


RUN = ("run", "-a", "a", "-s", "s", "--request-id", "r", "go")


class Crashes(unittest.TestCase):
    def after_effect(self, effects, expect_effects):
        world = World()
        self.addCleanup(world.__exit__)
        world.agent("a", {"name": "a", "model": one_call("act"), "tools": [command("act", effects, "./killer")]}, files={"killer": KILLER})
        status, _, _ = world.run(*RUN)
        self.assertEqual(status, -signal.SIGKILL)
        turn = world.json(*RUN)
        self.assertEqual(turn["state"], "completed", turn)
        self.assertEqual(turn["attempts"], 2)
        self.assertEqual(len(world.ledger()), expect_effects)
        self.assertEqual(len({key for _, _, key in world.ledger()}), 1, "one idempotency key")
        return world, turn

    def test_case_A2_once_effect_before_receipt_is_unknown_and_not_repeated(self):
        world, turn = self.after_effect("once", 1)
        self.assertEqual(turn["text"], "I cannot know whether it happened.")
        receipt = world.records("tool.completed")[0][4]
        self.assertEqual((receipt["outcome"], receipt["is_error"]), ("unknown", True))

    def test_case_A2_idempotent_effect_runs_again_with_the_same_key(self):
        self.after_effect("idempotent", 2)

    def test_case_A2_read_runs_again(self):
        self.after_effect("none", 2)

    def test_case_A2_a_declaration_made_weaker_between_crash_and_restart_is_not_believed(self):
        with World() as world:
            tools = lambda effects: {"name": "a", "model": one_call("act"), "tools": [command("act", effects, "./killer")]}
            world.agent("a", tools("once"), files={"killer": KILLER})
            world.run(*RUN)
            world.agent("a", tools("none"), files={"killer": KILLER})
            turn = world.json(*RUN)
            self.assertEqual(turn["text"], "I cannot know whether it happened.")
            self.assertEqual(len(world.ledger()), 1)

    def test_case_A3_a_crash_in_the_last_of_three_calls_repeats_neither_the_others_nor_the_model(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": scripted({"when": {"step": 1}, "calls": [call("one"), call("two"), call("hang")]}, {"text": "Done."}),
                              "tools": [command("one", "idempotent"), command("two", "once"), command("hang", "once", "./hanger")]}, files={"hanger": HANGER})
            process = world.start(*RUN)
            wait_for(lambda: [l for l in world.ledger() if l[0] == "hang"], what="the third call")
            kill(process)
            turn = world.json(*RUN)
            self.assertEqual(turn["state"], "completed")
            self.assertEqual([l[0] for l in world.ledger()], ["one", "two", "hang"])
            self.assertEqual([r[4]["outcome"] for r in world.records("tool.completed")], ["done", "done", "unknown"])
            self.assertEqual(len(world.records("model.completed")), 2)

    def test_case_A1_a_turn_killed_while_streaming_completes_once(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": scripted({"text": "A long answer that takes its time to arrive.", "chunk": 2, "pace": "20ms"})})
            for _ in range(3):
                process = world.start(*RUN, "--json")
                for line in process.stdout:
                    if b"message.delta" in line:
                        break
                kill(process)
            turn = world.json(*RUN)
            self.assertEqual(turn["state"], "completed")
            self.assertEqual(turn["attempts"], 4)
            self.assertEqual(len(world.records("model.completed")), 1)
            self.assertEqual(len(world.records("turn.ended")), 1)
            self.assertEqual(turn["usage"]["lost_calls"], 3)
            _, again, _ = world.run(*RUN, check=0)
            self.assertIn("A long answer", again)

    def test_C4_a_turn_that_always_kills_its_process_is_sealed_poison_and_the_session_goes_on(self):
        with World() as world:
            always = KILLER.replace('[ "$(grep -c "^$1 $id " "$LEDGER")" = 1 ] && ', "")
            world.agent("a", {"name": "a", "model": scripted({"when": {"turn": "poison", "step": 1}, "calls": [call("act")]}, {"text": "Fine."}),
                              "tools": [command("act", "none", "./killer")]}, files={"killer": always})
            poison = ("run", "-a", "a", "-s", "s", "--request-id", "r1", "poison")
            died = 0
            for _ in range(8):
                status, _, _ = world.run(*poison, "--json")
                if status != -signal.SIGKILL:
                    break
                died += 1
            self.assertEqual(died, 5)
            self.assertEqual(status, 1)
            turn = world.json(*poison, check=1)
            self.assertEqual((turn["state"], turn["reason"]), ("failed", "poison"))
            good = world.json("run", "-a", "a", "-s", "s", "--request-id", "r2", "hello")
            self.assertEqual(good["text"], "Fine.")


class Duplicates(unittest.TestCase):
    def test_case_B2_many_processes_with_one_request_id_make_one_turn(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": one_call("act"), "tools": [command("act", "once")]})
            processes = [world.start(*RUN, "--json") for _ in range(20)]
            turns = []
            for process in processes:
                out, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 0, err.decode())
                turns.append(json.loads(out.decode().strip().splitlines()[-1]))
            self.assertEqual({turn["id"] for turn in turns}, {turns[0]["id"]})
            self.assertEqual(len(world.records("turn.opened")), 1)
            self.assertEqual(len(world.ledger()), 1)
            self.assertEqual(world.query("select count(*) from pawl_inbox")[0][0], 1)

    def test_A1_the_same_id_with_other_content_conflicts_and_nothing_is_written(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": scripted({"text": "Hi."})})
            world.run(*RUN, check=0)
            status, _, err = world.run("run", "-a", "a", "-s", "s", "--request-id", "r", "something else")
            self.assertEqual(status, 2)
            self.assertIn("r", err)
            self.assertEqual(len(world.records("turn.opened")), 1)


class Tools(unittest.TestCase):
    def test_case_H3_a_hung_tool_ends_at_its_limit_and_the_turn_goes_on(self):
        for effects, outcome in (("none", "error"), ("idempotent", "error"), ("once", "unknown")):
            with World() as world:
                world.agent("a", {"name": "a", "model": one_call("act"), "tools": [command("act", effects, "./hanger", limit="500ms")]}, files={"hanger": HANGER})
                began = time.monotonic()
                turn = world.json(*RUN)
                self.assertLess(time.monotonic() - began, 10)
                self.assertEqual(turn["state"], "completed")
                self.assertEqual(world.records("tool.completed")[0][4]["outcome"], outcome)
                self.assertEqual(len(world.ledger()), 1)

    def test_case_H3_after_a_restart_a_hung_once_call_is_unknown_at_once(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": one_call("act"), "tools": [command("act", "once", "./hanger", limit="30s")]}, files={"hanger": HANGER})
            process = world.start(*RUN)
            wait_for(world.ledger, what="the call")
            kill(process)
            began = time.monotonic()
            turn = world.json(*RUN)
            self.assertLess(time.monotonic() - began, 5)
            self.assertEqual(turn["text"], "I cannot know whether it happened.")

    def test_F3_F4_unknown_tools_and_wrong_arguments_are_read_by_the_model_and_repetition_ends(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": scripted({"when": {"turn": "mixed", "step": 1}, "calls": [
                {"name": "nothing", "arguments": {}}, {"name": "act", "arguments": {"id": 5}}, {"name": "act", "arguments": {"id": "good"}}]},
                {"when": {"turn": "mixed"}, "text": "Recovered."}, {"calls": [{"name": "act", "arguments": {"wrong": True}}]}),
                "tools": [command("act", "none")]})
            turn = world.json("run", "-a", "a", "-s", "s", "mixed")
            self.assertEqual((turn["state"], turn["text"]), ("completed", "Recovered."))
            self.assertEqual(turn["usage"]["protocol_failures"], 2)
            self.assertEqual([l[1] for l in world.ledger()], ["good"])
            bad = world.json("run", "-a", "a", "-s", "s2", "again", check=1)
            self.assertEqual((bad["state"], bad["reason"]), ("failed", "repetition"))
            self.assertEqual(len(world.ledger()), 1)

    def test_F1_F2_errors_are_read_and_fatal_ones_end_the_turn(self):
        with World() as world:
            fail = "#!/bin/sh\necho noise >&2\necho 'the disk is on fire' >&2\nexit $1\n"
            for name, status in (("a", "3"), ("b", "78")):
                world.agent(name, {"name": name, "model": one_call("act"), "tools": [{"name": "act", "kind": "command", "run": ["./fail", status], "input": ANY}]}, files={"fail": fail})
            turn = world.json("run", "-a", "a", "-s", "s1", "go")
            self.assertEqual(turn["state"], "completed")
            self.assertIn("the disk is on fire", json.dumps(world.records("tool.completed")[0][4]["result"]))
            turn = world.json("run", "-a", "b", "-s", "s2", "go", check=1)
            self.assertEqual((turn["state"], turn["reason"]), ("failed", "tool_fatal"))


    def test_F8_words_in_an_error_decide_nothing(self):
        with World() as world:
            words = ["cancelled by the user", "rate limit exceeded, retry after 30 s", "prompt is too long", "connection reset", "outcome unknown", "fatal: paused"]
            world.agent("a", {"name": "a", "model": scripted({"when": {"step": 1}, "calls": [call("act", w) for w in words]}, {"text": "Done."}),
                              "tools": [{"name": "act", "kind": "command", "effects": "once", "run": ["./fail"], "input": ANY}]},
                        files={"fail": "#!/bin/sh\nread -r a\nprintf '%s' \"$a\" | sed 's/.*\"id\": *\"//; s/\".*//' >&2\nexit 1\n"})
            turn = world.json(*RUN)
            self.assertEqual((turn["state"], turn["text"]), ("completed", "Done."))
            receipts = [r[4] for r in world.records("tool.completed")]
            self.assertEqual([r["outcome"] for r in receipts], ["error"] * len(words))
            for word, receipt in zip(words, receipts):
                self.assertIn(word, receipt["result"]["error"])


class Storage(unittest.TestCase):
    def test_case_I3_a_lock_held_for_ten_seconds_delays_a_turn_and_loses_nothing(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": scripted({"when": {"step": 1}, "calls": [call("act")]}, {"text": "Done.", "delay": "100ms"}), "tools": [command("act", "once")]})
            world.run("run", "-a", "a", "-s", "other", "go", check=0)
            held = sqlite3.connect(world.database, timeout=30, isolation_level=None, check_same_thread=False)
            held.execute("begin immediate")
            release = threading.Timer(10, lambda: held.execute("rollback"))
            release.start()
            began = time.monotonic()
            turn = world.json(*RUN, limit=60)
            self.assertGreater(time.monotonic() - began, 9)
            self.assertEqual(turn["state"], "completed")
            self.assertEqual(len(world.ledger()), 2)
            release.join()
            held.close()
            self.assertEqual(world.run("verify")[0], 0)

    def test_case_I1_the_store_grows_with_what_was_said(self):
        """1,000 turns × 10 tools × 5 kB in small: what an empty store takes is no part of it."""
        with World() as world:
            text = "All work and no play makes a long reply. " * 120
            long = "#!/bin/sh\ncat >/dev/null\nprintf '\"%s\"' '" + text + "'\n"
            world.agent("a", {"name": "a", "model": scripted({"when": {"step": 1}, "calls": [call("act", str(i)) for i in range(10)]}, {"text": "Done."}),
                              "tools": [{"name": "act", "kind": "command", "effects": "none", "run": ["./long"], "input": ANY}]}, files={"long": long})
            world.run("run", "-a", "a", "-s", "first", "go", check=0)
            empty, said, sizes = os.path.getsize(world.database), 0, []
            for _ in range(12):
                world.run("run", "-a", "a", "-s", "s", "go", check=0)
                said += 10 * len(text)
                sizes.append(os.path.getsize(world.database))
            self.assertLess(sizes[-1] - empty, 1.6 * said)
            self.assertLess(sizes[-1] - sizes[5], 1.3 * (sizes[5] - empty), "as much at the end as at the beginning")

    def test_J8_a_newer_store_is_refused_and_left_as_it_is(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": scripted({"text": "Hi."})})
            world.run(*RUN, check=0)
            store = sqlite3.connect(world.database)
            store.execute("update pawl_meta set value = cast(value as integer) + 1 where key = 'schema'")
            store.commit()
            store.close()
            before = open(world.database, "rb").read()
            status, _, err = world.run("run", "-a", "a", "-s", "s", "more")
            self.assertEqual(status, 6)
            self.assertIn("newer", err)
            self.assertEqual(open(world.database, "rb").read(), before)

    def test_case_N1_a_lost_result_row_does_not_brick_the_session(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": scripted({"when": {"turn": "first", "step": 1}, "calls": [call("act")]}, {"text": "Done."}), "tools": [command("act", "none")]})
            world.run("run", "-a", "a", "-s", "s", "first", check=0)
            store = sqlite3.connect(world.database)
            store.execute("delete from pawl_journal where kind = 'tool.completed'")
            store.commit()
            store.close()
            turn = world.json("run", "-a", "a", "-s", "s", "second")
            self.assertEqual(turn["state"], "completed", turn)
            repaired = world.records("transcript.repaired")
            self.assertEqual(len(repaired), 1)
            self.assertIn("missing_result", json.dumps(repaired[0][4]))


class Text(unittest.TestCase):
    def test_case_N3_bad_bytes_anywhere_poison_nothing(self):
        with World() as world:
            junk = "#!/bin/sh\ncat >/dev/null\nprintf 'ok \\355\\240\\275 \\300\\257 \\000 \\360\\237\\230\\200'\n"
            world.agent("a", {"name": "a", "model": scripted({"when": {"step": 1}, "calls": [call("act")]}, {"text": "Read: {{last}}"}),
                              "tools": [{"name": "act", "kind": "command", "effects": "none", "run": ["./junk"], "input": ANY}]}, files={"junk": junk})
            process = subprocess.run([os.fsencode(BIN), b"run", b"-a", b"a", b"-s", b"s", b"--json", b"user \xff\xed\xa0\xbd text"], env=world.environment, cwd=world.folder,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(process.returncode, 0, process.stderr)
            turn = json.loads(process.stdout.decode("utf-8").strip().splitlines()[-1])  # strictly valid UTF-8
            self.assertEqual(turn["state"], "completed")
            for row in world.query("select body from pawl_journal"):
                json.loads(row[0])
                self.assertNotIn("\\ud83d", row[0])
            self.assertEqual(world.json("run", "-a", "a", "-s", "s", "again")["state"], "completed")
            for bad in ("a#b", "x" * 300, "a\nb"):
                self.assertEqual(world.run("run", "-a", "a", "-s", bad, "hi")[0], 2, bad)
            for bad in ("schedule:x", "continue:x", "child:x"):
                self.assertEqual(world.run("run", "-a", "a", "-s", "t", "--request-id", bad, "hi")[0], 2, bad)


class Stops(unittest.TestCase):
    """case P2: every stop names its own cause."""

    def why(self, world, session="s"):
        return world.json("why", session)

    def test_case_P2_budget_deadline_and_iterations(self):
        with World() as world:
            again = scripted(*({"when": {"step": step}, "calls": [call("act", str(step))], "usage": {"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.30}}
                               for step in range(1, 10)))
            for name, budget, state, reason, status in (
                    ("cost", {"max_cost_usd": 1.0}, "paused", "max_cost_usd", 3),
                    ("tokens", {"max_tokens": 250}, "paused", "max_tokens", 3),
                    ("calls", {"max_tool_calls": 2}, "paused", "max_tool_calls", 3),
                    ("iterations", {"max_iterations": 3}, "exhausted", "max_iterations", 3)):
                world.agent(name, {"name": name, "model": again, "budget": budget, "tools": [command("act", "none")]})
                turn = world.json("run", "-a", name, "-s", name, "go", check=status)
                self.assertEqual((turn["state"], turn["reason"]), (state, reason))
            cost = world.json("run", "-a", "cost", "-s", "cost2", "go", check=3)
            self.assertEqual(cost["usage"]["iterations"], 4, "the fourth call goes over, then nothing more")
            world.agent("slow", {"name": "slow", "model": one_call("act"), "budget": {"deadline": "700ms"}, "tools": [command("act", "once", "./hanger")]}, files={"hanger": HANGER})
            began = time.monotonic()
            turn = world.json("run", "-a", "slow", "-s", "slow", "go", check=3)
            self.assertEqual((turn["state"], turn["reason"]), ("paused", "deadline"))
            self.assertLess(time.monotonic() - began, 10)

    def test_case_P2_a_cancel_is_the_users(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": scripted({"when": {"turn": "slow"}, "text": "word " * 400, "pace": "50ms"}, {"text": "Next."})})
            process = world.start("run", "-a", "a", "-s", "s", "--request-id", "r", "--json", "slow")
            for line in process.stdout:
                if b"message.delta" in line:
                    break
            began = time.monotonic()
            world.run("cancel", "s", check=0)
            out, _ = process.communicate(timeout=10)
            self.assertLess(time.monotonic() - began, 2)
            self.assertEqual(process.returncode, 5)
            turn = json.loads(out.decode().strip().splitlines()[-1])
            self.assertEqual((turn["state"], turn["reason"]), ("cancelled", "user"))
            self.assertIn("word", turn["text"])
            self.assertEqual(world.json("run", "-a", "a", "-s", "s", "hello")["text"], "Next.")

    def test_case_P2_I6_sigterm_leaves_the_turn_open_and_the_next_process_resumes_it(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": scripted({"text": "word " * 40, "pace": "50ms"})})
            process = world.start("run", "-a", "a", "-s", "s", "--request-id", "r", "--json", "go")
            for line in process.stdout:
                if b"message.delta" in line:
                    break
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=10)
            why = self.why(world)
            self.assertEqual(why["reason"], "draining", why)
            self.assertEqual(len(world.records("turn.ended")), 0)
            turn = world.json("run", "-a", "a", "-s", "s", "--request-id", "r", "go")
            self.assertEqual(turn["state"], "completed")
            self.assertEqual(world.records("attempt.started")[0][4]["cause"], "drained")

    def test_case_P2_a_dead_owner_is_told_as_interrupted(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": scripted({"text": "word " * 40, "pace": "50ms"})})
            process = world.start("run", "-a", "a", "-s", "s", "--request-id", "r", "--json", "go")
            for line in process.stdout:
                if b"message.delta" in line:
                    break
            kill(process)
            self.assertEqual(self.why(world)["reason"], "interrupted")

    def test_I3_a_cancel_that_waits_ends_a_recovered_turn_without_a_model_request(self):
        with World() as world:
            world.agent("a", {"name": "a", "model": one_call("act"), "tools": [command("act", "once", "./hanger")]}, files={"hanger": HANGER})
            process = world.start(*RUN)
            wait_for(world.ledger, what="the call")
            kill(process)
            asked = len(world.records("model.completed"))
            world.run("cancel", "s", check=0)
            turn = world.json(*RUN, check=5)
            self.assertEqual(turn["state"], "cancelled")
            self.assertEqual(len(world.records("model.completed")), asked)
            self.assertEqual(len(world.records("attempt.started")), 0)
            self.assertEqual(len(world.ledger()), 1)


if __name__ == "__main__":
    unittest.main()
