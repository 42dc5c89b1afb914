#!/usr/bin/env python3
"""Answers of a model that go wrong on the way, through the program and a strict fake provider: cuts, silence, errors in and out of band, limits, odd ends."""
import json
import socket
import time
import unittest

from harness import Asking, call, command, events_of, folded, kill, named

LONG = "Here is the plan, word for word, as it was asked for: first this, then that, and so on. "


class Streams(unittest.TestCase):
    def world(self, replies, *arguments, **more):
        rules = replies if replies and "reply" in replies[0] or "when" in replies[0] else [{"replies": replies}]
        world = Asking(rules, *arguments, **more)
        self.addCleanup(world.__exit__)
        return world

    # --- Broken streams (F3 of the cases; F9) -----------------------------------------------------------

    def test_F5_cut_sockets_at_every_place_are_retried_and_no_cut_call_is_run(self):
        places = [{"text": "x", "cut": {"after": 0, "how": "rst"}}, {"text": "x", "cut": {"after": 0, "how": "fin"}},
                  {"text": LONG, "cut": {"after": 900, "how": "fin"}}, {"text": "whole", "unfinished": True, "stop": None},
                  {"calls": [call("send", "cut")], "cut": {"after": 700, "how": "rst"}}, {"calls": [call("send", "late")], "unfinished": True, "stop": None},
                  {"body": "", "content_type": "text/event-stream"}, {"body": "<html>busy</html>", "content_type": "text/html"}]
        world = self.world([{"when": {"marker": f"m{i}"}, "replies": [place, {"text": "Fine."}]} for i, place in enumerate(places)],
                           [command("send", "once")])
        for i in range(len(places)):
            with self.subTest(place=places[i]):
                turn = world.ask(f"marker:m{i}", session=f"s{i}")
                self.assertEqual((turn["state"], turn["text"]), ("completed", "Fine."))
                self.assertEqual(turn["usage"]["retries"], 1)
        self.assertEqual(world.ledger(), [])
        self.assertEqual(world.refusals(), [])

    def test_F9_a_slow_stream_that_goes_on_is_not_stalled(self):
        world = self.world([{"text": LONG, "chunk": 2, "pace": 0.05}], model={"first_token_timeout": "2s", "idle_timeout": "2s"})
        turn = world.ask("go")
        self.assertEqual((turn["text"], turn["usage"]["retries"]), (LONG, 0))

    # --- Errors of the provider (F5) ----------------------------------------------------------------------

    def failed(self, world, asked, words):
        turn, events = world.watch("go", check=1)
        self.assertEqual((turn["state"], turn["reason"]), ("failed", "model"))
        self.assertIn(words, turn["detail"])
        self.assertEqual(len(world.fm.requests), asked)
        return turn, events

    def test_case_L3_F5_a_wrong_key_fails_in_one_try_with_the_providers_message(self):
        world = self.world([{"text": "never"}])
        world.fm.set_script({"key": "sk-ant-other", "rules": []})
        self.failed(world, 1, "invalid x-api-key")

    def test_F5_errors_that_no_repetition_mends_fail_in_one_try(self):
        for status, kind, details in ((400, "invalid_request_error", None), (402, "billing_error", None), (403, "permission_error", None), (404, "not_found_error", None),
                                      (429, "rate_limit_error", {"error_code": "enforced_spend_limit_reached"})):
            with self.subTest(status=status):
                error = {"type": kind, "message": f"no luck with {status}", **({"details": details} if details else {})}
                self.failed(self.world([{"status": status, "error": error}]), 1, f"no luck with {status}")

    def test_F5_a_storm_of_529_ends_after_four_tries_and_each_is_told(self):
        world = self.world([{"status": 529, "error": {"type": "overloaded_error", "message": "Overloaded, sorry"}}])
        turn, events = self.failed(world, 4, "Overloaded, sorry")
        self.assertEqual(len(named(events, "model.retrying")), 3)
        self.assertEqual({d["code"] for d in named(events, "model.retrying")}, {"overloaded_error"})
        self.assertEqual(turn["usage"]["retries"], 3)
        world.fm.set_script([{"reply": {"text": "Back."}}])
        self.assertEqual(world.ask("again")["text"], "Back.")

    def test_F5_a_provider_that_is_not_there_is_tried_four_times(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            world = self.world([{"text": "never"}], model={"base_url": f"http://127.0.0.1:{taken.getsockname()[1]}"})
            turn, events = world.watch("go", check=1)
        self.assertEqual((turn["state"], turn["reason"], len(named(events, "model.retrying"))), ("failed", "model", 3))
        self.assertEqual({d["code"] for d in named(events, "model.retrying")}, {"connect"})

    def test_F5_errors_in_band_are_classed_as_those_by_status(self):
        overloaded = {"type": "overloaded_error", "message": "Overloaded"}
        world = self.world([{"when": {"marker": "early"}, "replies": [{"text": LONG, "in_band": {"after": 0, **overloaded}}, {"text": "Fine."}]},
                            {"when": {"marker": "late"}, "replies": [{"text": LONG, "in_band": {"after": 5, **overloaded}}, {"text": "Fine."}]},
                            {"when": {"marker": "calls"}, "replies": [{"calls": [call("send"), call("send", "2")], "in_band": {"after": 7, **overloaded}}, {"text": "Fine."}]},
                            {"when": {"marker": "final"}, "reply": {"text": LONG, "in_band": {"after": 5, "type": "invalid_request_error", "message": "never like this"}}}],
                           [command("send", "once")])
        for name in ("early", "late", "calls"):
            turn, events = world.watch(f"marker:{name}", session=name)
            self.assertEqual((turn["text"], turn["usage"]["retries"]), ("Fine.", 1), name)
            self.assertEqual(len(named(events, "message.restarted")), 1 if name == "late" else 0, name)
            self.assertEqual(folded(events), "Fine.")
        turn = world.ask("marker:final", session="final", check=1)
        self.assertEqual((turn["reason"], turn["detail"]), ("model", "never like this"))
        self.assertEqual(world.ledger(), [])

    # --- Rate limits (F5, F10) ----------------------------------------------------------------------------

    def test_F5_a_rate_limit_with_a_time_waits_and_counts_no_try(self):
        limit = {"status": 429, "headers": {"retry-after": "1"}, "error": {"type": "rate_limit_error", "message": "slow down"}}
        world = self.world([limit] * 5 + [{"text": "Fine."}])
        turn, events = world.watch("go")
        self.assertEqual((turn["state"], turn["text"]), ("completed", "Fine."))
        self.assertEqual({d["class"] for d in named(events, "model.retrying")}, {"wait"})
        times = [r["at"] for r in world.fm.requests]
        self.assertEqual(len(times), 6)
        for before, after in zip(times, times[1:]):
            self.assertGreaterEqual(after - before, 0.95)

    def test_F10_a_process_that_stays_waits_too_and_a_wait_past_the_deadline_pauses(self):
        limit = {"status": 429, "headers": {"retry-after": "6"}, "error": {"type": "rate_limit_error", "message": "slow down"}}
        world = self.world([limit, {"text": "Fine."}])
        turn, events = world.watch("go")
        self.assertEqual(turn["text"], "Fine.")
        self.assertEqual(named(events, "turn.waiting")[0]["reason"], "rate_limit")
        late = self.world([limit], budget={"deadline": "3s"})
        began = time.monotonic()
        turn = late.ask("go", check=3)
        self.assertEqual((turn["state"], turn["reason"]), ("paused", "deadline"))
        self.assertLess(time.monotonic() - began, 6)

    # --- Full contexts, odd ends (C6) -----------------------------------------------------------------------

    def test_G5_a_context_that_is_too_long_pauses_and_the_session_goes_on(self):
        world = self.world([{"when": {"role": "user"}, "reply": {"calls": [call("act", "x" * 4000)]}}, {"when": {"role": "tool"}, "reply": {"text": "Fine."}}], [command("act", "none")])
        world.fm.script["limit_tokens"] = 1500
        turn = world.ask("go", check=3)
        self.assertEqual((turn["state"], turn["reason"]), ("paused", "context"))
        self.assertEqual(len(world.fm.requests), 2)
        self.assertEqual(len(world.ledger()), 1)
        world.fm.set_script([{"reply": {"text": "Room again."}}])
        self.assertEqual(world.ask("again")["text"], "Room again.")
        self.assertEqual(world.refusals(), [r for r in world.fm.refused if "prompt is too long" in r[1]])
        full = self.world([{"text": "half of it", "stop": "model_context_window_exceeded"}])
        self.assertEqual(full.ask("go", check=3)["reason"], "context")

    def test_C6_after_a_tool_with_effects_silence_completes_and_after_a_read_it_does_not(self):
        for effects, check, state in (("once", 0, "completed"), ("idempotent", 0, "completed"), ("none", 1, "failed")):
            world = self.world([{"when": {"role": "user"}, "reply": {"calls": [call("act")]}}, {"when": {"role": "tool"}, "reply": {"blocks": []}}], [command("act", effects)])
            turn = world.ask("go", check=check)
            self.assertEqual(turn["state"], state, effects)
            self.assertEqual(len(world.fm.requests), 3)
            self.assertFalse(turn["text"])
            world.fm.set_script([{"reply": {"text": "Next."}}])
            self.assertEqual(world.ask("again")["text"], "Next.")
            self.assertEqual(world.refusals(), [])

    def test_C6_an_abnormal_end_with_nothing_fails_at_once(self):
        for stop in ("max_tokens", "refusal"):
            world = self.world([{"blocks": [], "stop": stop}])
            self.assertEqual(world.ask("go", check=1)["reason"], "empty_reply")
            self.assertEqual(len(world.fm.requests), 1)

    def test_C6_ends_that_are_no_failures_say_how_they_ended(self):
        for reply, stop in (({"text": "half a sen", "stop": "max_tokens"}, "max_output"), ({"text": "I would rath", "stop": "refusal"}, "refused"),
                            ({"text": "up to", "stop": "stop_sequence", "stop_sequence": "END"}, "stop_sequence"), ({"text": "odd", "stop": "a_new_reason"}, "done")):
            world = self.world([reply, {"text": "Next."}])
            turn = world.ask("go")
            self.assertEqual((turn["state"], turn["text"], turn["stop"]), ("completed", reply["text"], stop))
            self.assertEqual(world.ask("again")["text"], "Next.")
            self.assertEqual(world.refusals(), [])

    def test_C6_F3_max_tokens_inside_arguments_never_runs_the_call(self):
        cuts = [{"call": "send", "json": "{\"id\": \"half of i"}, {"call": "send", "json": "{\"id\": \"half of it\", \"am", "open": True},
                {"call": "send", "json": "{\"id\": \"12\"}", "open": True}, {"call": "send", "json": ""}, {"call": "send", "json": "{\"id\": \"a\nb", "open": True}]
        for cut in cuts:
            with self.subTest(cut=cut):
                world = self.world([{"when": {"role": "user"}, "reply": {"blocks": [{"text": "I send."}, cut], "stop": "max_tokens"}},
                                    {"when": {"is_error": True}, "reply": {"text": "Then not."}}], [command("send", "once")])
                turn = world.ask("go")
                self.assertEqual((turn["state"], turn["text"]), ("completed", "Then not."))
                self.assertEqual((world.ledger(), turn["usage"]["protocol_failures"], world.refusals()), ([], 1, []))

    def test_C6_C10_a_paused_reply_goes_back_unchanged_and_is_asked_on(self):
        use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "pawl", "n": 1.50}}
        found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "title": "Pawl", "url": "https://example.org", "encrypted_content": "Eo8=="}]}
        world = self.world([{"thinking": " hm \n", "blocks": [{"thinking": " hm \n"}, {"text": "I search."}, {"raw": use}], "stop": "pause_turn"},
                            {"blocks": [{"raw": found}, {"text": "Found."}]}, {"text": "Next."}])
        turn = world.ask("go")
        self.assertEqual((turn["state"], turn["usage"]["iterations"]), ("completed", 2))
        self.assertTrue(turn["text"].endswith("Found."), turn["text"])
        self.assertEqual(world.ask("again")["text"], "Next.")
        self.assertEqual(world.refusals(), [])
        second, third = (json.loads(body)["messages"] for body in world.bodies()[1:])
        self.assertEqual(second[1]["content"], [{"type": "thinking", "thinking": " hm \n", "signature": "fm+sig/1.0=="}, {"type": "text", "text": "I search."}, use])
        self.assertIn(found, third[2]["content"] + third[1]["content"])
        one, two, three = world.conversations()
        self.assertTrue(two.startswith(one) and three.startswith(two))

    def test_C5_a_kill_while_text_streams_shows_it_once_in_the_end(self):
        world = self.world([{"text": LONG, "chunk": 5, "pace": 0.02, "stall": {"after": 9, "for": 60}}, {"text": "Another answer."}])
        process = world.start(*world.command("go", "s", "r"), "--json")
        shown = ""
        for line in process.stdout:
            events, _ = events_of(line.decode())
            shown += "".join(d["text"] for _, n, d in events if n == "message.delta")
            if len(shown) > 10:
                break
        kill(process)
        turn, events = world.watch("go", "s", "r")
        self.assertEqual((turn["text"], turn["attempts"], turn["usage"]["lost_calls"]), ("Another answer.", 2, 1))
        self.assertEqual(folded(events), "Another answer.")
        self.assertEqual(named(events, "attempt.started")[0]["attempt"], 2)


if __name__ == "__main__":
    unittest.main()
