#!/usr/bin/env python3
"""What must hold whichever protocol the model speaks: one test body, run for each of them through the program and the strict fake model."""
import base64
import json
import os
import signal
import sqlite3
import unittest

from harness import AskingTest, call, command, everywhere, folded, kill, named, wait_for

LONG = "Here is the plan, word for word, as it was asked for: first this, then that, and so on. "
ALL = ("anthropic", "responses", "chat")
THINKERS = ("anthropic", "responses", "deepseek", "openrouter")  # who wants reasoning back


class Broken(AskingTest):
    """Answers that go wrong on the way."""

    @everywhere(*ALL)
    def test_case_F3_C5_a_reset_after_partial_text_restarts_the_text_and_counts_both_attempts(self, speaker):
        usage = {"input_tokens": 100, "output_tokens": 10}
        world = self.world(speaker, [{"replies": [{"text": LONG, "usage": usage, "chunk": 5, "pace": 0.005, "cut": {"text": 60, "how": "rst"}},
                                                  {"text": "Another answer altogether.", "usage": usage}]}])
        turn, events = world.watch("go")
        self.assertEqual((turn["state"], turn["text"], folded(events)), ("completed", "Another answer altogether.", "Another answer altogether."))
        for name in ("message.restarted", "model.retrying", "message.completed"):
            self.assertEqual(len(named(events, name)), 1, name)
        self.assertIn("Here is the p", "".join(d["text"] for d in named(events, "message.delta")), "the first attempt was shown")
        self.assertEqual(turn["usage"]["retries"], 1)
        self.assertGreaterEqual(turn["usage"]["input_tokens"], 200 if speaker == "anthropic" else 100, "what was told of both")
        names = [name for _, name, _ in events]
        shown = "".join(d["text"] for _, n, d in events[:names.index("message.restarted")] if n == "message.delta")
        self.assertNotIn("Another", shown, "restarted is told before new text")

    @everywhere(*ALL)
    def test_F5_C6_cuts_everywhere_are_retried_and_no_cut_call_is_run(self, speaker):
        places = [{"text": "x", "cut": {"after": 0, "how": "fin"}}, {"text": LONG, "cut": {"text": 20, "how": "fin"}}, {"text": "whole", "unfinished": True, "stop": None},
                  {"calls": [call("send", "cut, within its arguments")], "cut": {"arguments": 8, "how": "rst"}},
                  {"text": "x", "in_band": {"text": 1, "fails": "overloaded", "message": "busy"}}, {"body": "<html>busy</html>", "content_type": "text/html"}]
        world = self.world(speaker, [{"when": {"marker": f"m{i}"}, "replies": [place, {"text": "Fine."}]} for i, place in enumerate(places)], command("send", "once"))
        processes = [world.start(*world.command(f"marker:m{i}", f"s{i}")) for i in range(len(places))]
        for i, process in enumerate(processes):
            process.communicate(timeout=60)
            turn = world.ask(f"marker:m{i}", f"s{i}", f"again{i}")
            self.assertEqual((turn["state"], turn["text"]), ("completed", "Fine."), places[i])
        self.assertEqual([r[4]["usage"].get("retries", 0) for r in world.records("turn.ended")], [1, 0] * len(places))
        self.assertEqual((world.ledger(), world.refusals()), ([], []))

    @everywhere(*ALL)
    def test_F9_keep_alives_are_not_progress(self, speaker):
        world = self.world(speaker, [{"replies": [{"text": LONG, "stall": {"after": 1, "for": 60, "ping": 0.1}}, {"text": LONG, "chunk": 10, "stall": {"text": 30, "for": 60, "ping": 0.1}},
                                                  {"text": "Fine."}]}], model={"first_token_timeout": "1s", "idle_timeout": "1s"})
        turn, events = world.watch("go")
        self.assertEqual((turn["state"], turn["text"], turn["usage"]["retries"], folded(events)), ("completed", "Fine.", 2, "Fine."))
        self.assertEqual([d["code"] for d in named(events, "model.retrying")], ["stalled"] * 2)
        self.assertEqual(len(named(events, "message.restarted")), 1, "of the first nothing was shown")

    @everywhere(*ALL)
    def test_case_L3_F10_a_rate_limit_survives_a_kill_and_no_more_of_the_body_than_its_message_is_seen(self, speaker):
        told = {"type": "error", "account": "acct_CANARY", "error": {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "slow down", "account": "acct_CANARY"}}
        limit = {"status": 429, "headers": {"retry-after": "7"}, "body": json.dumps(told), "content_type": "application/json"}
        world = self.world(speaker, [{"when": {"role": "user"}, "reply": {"calls": [call("send")]}}, {"when": {"role": "tool"}, "replies": [limit, {"text": "Fine."}]}], command("send", "once"))
        process = world.start(*world.command("go", "s", "r"), "--json")
        wait_for(lambda: world.records("wait.set"), what="the wait in the journal")
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate()
        why = world.json("why", "s")
        self.assertEqual((why["state"], why["reason"]), ("waiting", "rate_limit"), why)
        turn, events = world.watch("go", "s", "r")
        self.assertEqual((turn["state"], turn["text"], turn["usage"]["lost_calls"]), ("completed", "Fine.", 0))
        times = [r["at"] for r in world.fm.requests]
        self.assertEqual(len(times), 3)
        self.assertGreaterEqual(times[2] - times[1], 6.95, "not before the time")
        self.assertEqual(len(world.ledger()), 1, "nothing was run again")
        self.assertNotIn("CANARY", repr([out, err, events, turn, why, world.run("show", "s")]))

    @everywhere(*ALL)
    def test_case_L3_F5_errors_that_no_repetition_mends_fail_in_one_try(self, speaker):
        words = ("key", "permission", "money", "no_model", "invalid")
        world = self.world(speaker, [{"when": {"marker": word}, "reply": {"fails": word, "message": f"no luck: {word}"}} for word in words])
        for word in words:
            turn = world.ask(f"marker:{word}", word, check=1)
            self.assertEqual((turn["state"], turn["reason"], turn["detail"]), ("failed", "model", f"no luck: {word}"))
        self.assertEqual(len(world.fm.requests), len(words))

    @everywhere(*ALL)
    def test_G5_a_context_that_is_too_long_pauses(self, speaker):
        world = self.world(speaker, [{"when": {"role": "user"}, "reply": {"calls": [call("act", "x" * 4000)]}}, {"text": "Fine."}], command("act", "none"))
        world.fm.script["limit_tokens"] = 1500
        turn = world.ask("go", check=3)
        self.assertEqual((turn["state"], turn["reason"]), ("paused", "context"))


class Ends(AskingTest):
    """Replies that are whole and odd (C6)."""

    @everywhere(*ALL)
    def test_C6_an_empty_reply_is_asked_once_more_and_not_for_ever(self, speaker):
        world = self.world(speaker, [{"when": {"turn": "once"}, "replies": [{"blocks": []}, {"text": "Now."}]}, {"when": {"turn": "abnormal"}, "reply": {"blocks": [], "stop": "max_output"}},
                                     {"when": {"turn": "silent"}, "reply": {"thinking": "hm"}}, {"when": {"turn": "blank"}, "reply": {"text": " \n"}}, {"text": "Next."}])
        self.assertEqual(world.ask("once")["text"], "Now.")
        for prompt, asked in (("abnormal", 1), ("silent", 2), ("blank", 2)):
            before = len(world.fm.requests)
            turn = world.ask(prompt, check=1)
            self.assertEqual((turn["reason"], len(world.fm.requests) - before), ("empty_reply", asked), prompt)
        self.assertEqual(world.ask("next")["text"], "Next.")
        self.assertEqual(world.refusals(), [])

    @everywhere(*ALL)
    def test_C6_F3_truncated_replies_say_so_and_truncated_arguments_never_run(self, speaker):
        cut = {"call": "send", "json": '{"id": "half of i', "open": True}
        world = self.world(speaker, [{"when": {"turn": "text"}, "reply": {"text": "half a sen", "stop": "max_output"}}, {"when": {"turn": "refuse"}, "reply": {"text": "I would rath", "stop": "refused"}},
                                     {"when": {"turn": "call", "role": "user"}, "reply": {"blocks": [{"text": "I send."}, cut], "stop": "max_output"}},
                                     {"when": {"turn": "call", "is_error": True}, "reply": {"text": "Then not."}}, {"text": "Next."}], command("send", "once"))
        for prompt, text, stop in (("text", "half a sen", "max_output"), ("refuse", "I would rath", "refused"), ("call", "Then not.", "done"), ("next", "Next.", "done")):
            turn = world.ask(prompt)
            self.assertEqual((turn["state"], turn["text"], turn["stop"]), ("completed", text, stop))
        self.assertEqual((world.ledger(), world.refusals()), ([], []))

    @everywhere(*ALL)
    def test_crlf_small_writes_and_json_bodies_are_the_same_answer(self, speaker):
        text = "Grüße 😀, naïve text with “quotes” and a tab\t, to be cut anywhere. "
        looks = [{"newline": "\r\n", "write": 7}, {"chunk": 1, "ascii": True, "write": 1}, {"json": True}]
        world = self.world(speaker, [{"when": {"marker": f"m{i}", "role": "user"}, "reply": {"thinking": text, "text": text, "calls": [call("act", text)], **look}} for i, look in enumerate(looks)]
                           + [{"when": {"role": "tool"}, "reply": {"text": text}}], command("act", "none"))
        for i, look in enumerate(looks):
            turn, events = world.watch(f"marker:m{i}", f"s{i}")
            self.assertEqual((turn["state"], turn["text"], turn["usage"]["tool_calls"]), ("completed", text, 1), look)
            self.assertEqual(named(events, "action.requested")[0]["arguments"], {"id": text})
        self.assertEqual(world.refusals(), [])


class Conversations(AskingTest):
    """C8, C9, C10, D10: what goes back."""

    @everywhere(*THINKERS)
    def test_case_N2_C8_C10_reasoning_and_calls_over_three_steps_with_a_kill_9_between_each(self, speaker):
        thoughts = ["  two spaces, é as such, 😀 and a tab\t.\n\n", "short", "\u2028line\u2029separators and \"quotes\" \\ / </script>"]
        steps = [{"when": {"tool_results": i, "turn": "go"}, "reply": {"blocks": [{"thinking": thought, "signature": f"Eq+/{i}=="}, {"redacted": f"secret+/{i}=="}, {"text": f"Step {i}."},
                                                                                  {"call": "look", "input": {"id": f"{i}a"}}, {"call": "look", "input": {"id": f"{i}b"}}], "chunk": 3}}
                 for i, thought in enumerate(thoughts)]
        if speaker == "responses":  # an item holds one seal, and something always follows it
            for step in steps:
                blocks = step["reply"]["blocks"]
                step["reply"]["blocks"] = [blocks[0], blocks[2], blocks[1], blocks[3], blocks[4]]
        world = self.world(speaker, steps + [{"text": "Done."}], command("look", "none", "./killer"))
        deaths = 0
        while world.run(*world.command("go", "s", "r"))[0] == -signal.SIGKILL:
            deaths += 1
        self.assertGreaterEqual(deaths, 3)
        self.assertEqual(world.ask("go", "s", "r")["text"], "Done.")
        self.assertEqual(len(world.fm.requests), 4, "nothing answered was asked again")
        self.assertEqual(world.ask("more")["state"], "completed")
        self.check_requests(world)
        self.assertEqual([r["name"] for r in world.said(3)[-1].results], ["look"] * 2)

    def test_case_N2_C8_models_that_change_between_turns_are_sent_no_foreign_blocks(self):
        think = {"thinking": "hm {{n}}", "text": "I look.", "calls": [call("look", "{{n}}")]}
        world = self.world("anthropic", [{"when": {"turn": "tools", "role": "user"}, "reply": think}, {"thinking": "so {{n}}", "text": "Fine {{n}}."}], command("look", "none"))
        turns = [("anthropic", {}), ("responses", {}), ("chat", {}), ("responses", {"name": "gpt-other-2"}), ("anthropic", {"name": "claude-other-2"}), ("chat", {"name": "chat-other-2"}),
                 ("anthropic", {}), ("responses", {})]
        for i, (speaker, more) in enumerate(turns):
            world.define(model=world.model(speaker, **more))
            turn = world.ask(f"tools {i}")
            self.assertEqual((turn["state"], turn["text"]), ("completed", f"Fine {2 * i + 2}."), turn)
            self.assertEqual(turn["model"], more.get("name", world.model(speaker)["name"]))
        self.assertEqual(world.refusals(), [])
        said = world.said(-1)
        self.assertEqual([r["text"] for m in said for r in m.results], [f'{{"ok":true,"id":"{2 * i + 1}"}}' for i in range(len(turns))])
        for i in range(len(turns) - 1):
            self.assertIn(f"Fine {2 * i + 2}.", world.bodies()[-1])

    @everywhere("anthropic", "responses", "chat", "mistral")
    def test_D10_C9_repeated_empty_and_odd_call_ids_all_run_and_never_collide(self, speaker):
        odd = ["same", "same", "", "", "functions.send:0", "a b", "ü", "x" * 200, ".1", "call_0"]
        world = self.world(speaker, [{"when": {"tool_results": step}, "reply": {"thinking": "hm", "calls": [call("send", f"{step}.{i}", id=identity) for i, identity in enumerate(odd)]}}
                                     for step in range(2)] + [{"text": "Done."}], command("send", "once"))
        turn = world.ask("go")
        self.assertEqual((turn["state"], turn["usage"]["tool_calls"]), ("completed", 20), turn)
        self.assertEqual([i for _, i, _ in world.ledger()], [f"{step}.{i}" for step in range(2) for i in range(len(odd))])
        self.assertEqual(len({key for _, _, key in world.ledger()}), 20)
        self.assertEqual([json.loads(r["text"])["id"] for m in world.said(2) for r in m.results], [i for _, i, _ in world.ledger()], "each result is its call's, in order")
        self.assertEqual(world.ask("again")["state"], "completed")
        self.check_requests(world)

    @everywhere(*ALL)
    def test_C8_numbers_pass_byte_for_byte(self, speaker):
        numbers = '{"id":"x","a":1.10,"b":12345678901234567890,"c":1e2,"d":-0.0,"e":0.1000000000000000055511151231257827}'
        world = self.world(speaker, [{"when": {"role": "user"}, "reply": {"calls": [{"name": "echo", "json": numbers}]}}, {"text": "Done."}], command("echo", "none", "./echo"))
        world.ask("go")
        self.assertEqual(world.said(1)[-1].results[0]["text"], numbers)
        body = world.bodies()[1].replace("\\", "")
        for number in ("1.10", "12345678901234567890", "1e2", "-0.0", "0.1000000000000000055511151231257827"):
            self.assertEqual(body.count(f":{number}"), 2, number)
        self.check_requests(world)

    def damaged(self, speaker, change):
        """Two turns with calls, then rows of the first are changed by hand: the next message is answered, what was mended is told, rows stay as they are."""
        world = self.world(speaker, [{"when": {"turn": "tools", "role": "user"}, "reply": {"thinking": "t", "calls": [call("look"), call("look", "2")]}}, {"text": "Fine."}], command("look", "none"))
        for i in range(2):
            world.ask(f"tools {i}")
        store = sqlite3.connect(world.database)
        rows = store.execute("select * from pawl_journal order by seq").fetchall()
        columns = [c[1] for c in store.execute("pragma table_info(pawl_journal)")]
        seq, kind = columns.index("seq"), columns.index("kind")
        rows = change(rows, [i for i, row in enumerate(rows) if row[kind] == "tool.completed"])
        store.execute("delete from pawl_journal")
        for at, row in enumerate(rows, 1):
            row = list(row)
            row[0], row[seq] = at, at
            store.execute(f"insert into pawl_journal values ({','.join('?' * len(row))})", row)
        store.execute("update pawl_turns set opened_seq = (select seq from pawl_journal j where j.turn = pawl_turns.turn and kind = 'turn.opened'), ended_seq = (select seq from pawl_journal j where j.turn = pawl_turns.turn and kind = 'turn.ended')")
        store.commit()
        store.close()
        before = world.query("select seq, kind, body from pawl_journal order by seq")
        self.assertEqual(world.ask("third")["text"], "Fine.")
        self.assertEqual(world.ask("tools again")["text"], "Fine.")
        self.assertEqual(world.refusals(), [])
        self.assertEqual(world.query("select seq, kind, body from pawl_journal order by seq")[:len(before)], before, "rows are not rewritten")
        repaired = world.records("transcript.repaired")
        self.assertEqual(len(repaired), 1, "told once")
        self.assertTrue(repaired[0][4]["repairs"])

    @everywhere(*ALL)
    def test_case_N1_a_deleted_result(self, speaker):
        self.damaged(speaker, lambda rows, results: rows[:results[0]] + rows[results[0] + 1:])

    @everywhere(*ALL)
    def test_case_N1_a_doubled_result(self, speaker):
        self.damaged(speaker, lambda rows, results: rows[:results[0] + 1] + rows[results[0]:])

    @everywhere(*ALL)
    def test_case_N1_a_result_moved_after_a_users_message(self, speaker):
        def move(rows, results):
            late = next(i for i, row in enumerate(rows) if i > results[1] and "turn.opened" in row)
            return rows[:results[0]] + rows[results[0] + 1:late + 1] + [rows[results[0]]] + rows[late + 1:]
        self.damaged(speaker, move)


class Content(AskingTest):
    """What people, tools and models say: text that is none, images, documents."""

    @everywhere(*ALL)
    def test_case_N3_A8_bad_characters_of_all_sides_poison_nothing(self, speaker):
        bad = "a\ud83d b\udc00 c\0d \ufeff 😀 \u2028 \ud83d\ude00"
        junk = "#!/bin/sh\ncat >/dev/null\nprintf 'ok \\355\\240\\275 \\300\\257 \\000 \\377 \\360\\237\\230'\n"
        fail = "#!/bin/sh\ncat >/dev/null\nprintf 'bad \\355\\240\\275 \\000 \\360\\237\\230' >&2\nexit 1\n"
        valid = "#!/bin/sh\ncat >/dev/null\nprintf '{\"\\\\ud83d\":\"\\\\u0000 \\\\udc00\"}'\n"
        calls = [{"name": "echo", "json": '{"id":"\\ud83d lone","\\udc00key":"\\u0000","nested":[{"k\\u0000":"\\ud83d\\ud83d"}],"pair":"\\ud83d\\ude00"}'},
                 {"name": "echo", "input": {"id": bad}}, {"name": "e\ud83do\0", "input": {"id": "x"}}, call("junk", id="\ud83d\0"), call("fail"), call("valid")]
        world = self.world(speaker, [{"when": {"role": "user", "turn": "user"}, "reply": {"thinking": bad, "text": bad, "calls": calls, "chunk": 1, "ascii": True}},
                                     {"when": {"turn": "user"}, "reply": {"thinking": bad, "text": "bad \ud83d end", "chunk": 1, "ascii": True}}, {"text": "Fine."}],
                           command("echo", "none", "./echo"), *[command(name, "none", f"./{name}") for name in ("junk", "fail", "valid")], files={"junk": junk, "fail": fail, "valid": valid})
        turn, events = world.watch(b"user \xff\xed\xa0\xbd text")
        self.assertEqual((turn["state"], turn["text"], turn["usage"]["protocol_failures"]), ("completed", "bad \ufffd end", 1))
        for whole in named(events, "message.completed"):
            streamed = "".join(d["text"] for d in named(events, "message.delta") if d["step"] == whole["step"])
            self.assertTrue(whole["text"].startswith(streamed), f"{streamed!r} streamed, {whole['text']!r} was kept")
        self.assertEqual(world.ask("again")["text"], "Fine.")
        self.assertEqual(world.refusals(), [])
        for record in world.query("select body from pawl_journal"):
            json.loads(record[0])
            record[0].encode("utf-8")
            self.assertNotRegex(record[0], r"\\u0000|\\u[dD][89a-fA-F]|\x00")
        self.assertIn("😀", world.said(1)[-1].results[1]["text"])

    PICTURE, OTHER, PAPER = (base64.b64encode(text).decode() for text in (b"\x89PNG a picture", b"\x89PNG BADBADBAD", b"%PDF-1.7 a paper"))

    @staticmethod
    def image(data):
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}

    @everywhere(*ALL)
    def test_images_and_documents_arrive_in_the_providers_form(self, speaker):
        world = self.world(speaker, [{"text": "Seen."}])
        world.submit([{"type": "text", "text": "see these"}, self.image(self.PICTURE), {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                      {"type": "document", "title": "paper.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": self.PAPER}},
                      {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain words of a document"}}])
        turn, _ = world.proceed()
        self.assertEqual((turn["state"], turn["text"]), ("completed", "Seen."), turn)
        self.assertEqual(world.ask("again")["text"], "Seen.")
        self.check_requests(world)
        request = world.fm.requests[0]
        pictures = [data for _, data in world.fm.protocols[request["protocol"]].pictures(request["json"])]
        self.assertEqual(len(pictures), 2)
        self.assertTrue(pictures[0].endswith(self.PICTURE))
        self.assertIn("https://example.org/a.png", request["body"])
        self.assertIn(self.PAPER, request["body"])
        words = "plain words of a document"
        self.assertTrue(words in request["body"] or base64.b64encode(words.encode()).decode() in request["body"])

    @everywhere(*ALL)
    def test_case_N3_C9_an_image_refused_by_its_position_is_left_out_for_ever_and_the_turn_goes_on(self, speaker):
        world = self.world(speaker, [{"text": "Seen {{n}}."}])
        world.fm.script["bad_image"] = self.OTHER
        self.assertEqual(world.ask("first")["text"], "Seen 1.")
        world.submit([{"type": "text", "text": "two of them"}, self.image(self.PICTURE), self.image(self.OTHER), self.image(self.PICTURE)])
        turn, events = world.proceed()
        self.assertEqual((turn["state"], turn["text"]), ("completed", "Seen 3."), turn)
        self.assertEqual(len(named(events, "transcript.repaired")), 1)
        self.assertEqual([n for n, _ in world.fm.refused], [2])
        for prompt in ("third", "fourth"):
            self.assertEqual(world.ask(prompt)["state"], "completed")
        self.assertEqual(len(world.fm.refused), 1, "never sent again")
        for body in world.bodies()[2:]:
            self.assertEqual((body.count(self.PICTURE), self.OTHER in body), (2, False))
        self.assertIn("left out", world.bodies()[-1], "the model is told")

    def test_case_N2_C9_thinking_that_is_not_signed_any_more_does_not_end_the_session(self):
        world = self.world("anthropic", [{"when": {"role": "tool"}, "reply": {"text": "Put."}}, {"when": {"turn": "first"}, "reply": {"thinking": "I will put it.", "calls": [call("put")]}}, {"text": "Still here."}],
                           command("put", "idempotent"))
        self.assertEqual(world.ask("first")["state"], "completed")
        world.fm.protocols["anthropic"].signed.clear()  # the provider's keys change: it takes its old signatures no more
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


class Keys(AskingTest):
    """N3, case M5."""

    def hunt(self, speaker, how, key):
        """A key given in one of three ways, answers of all kinds that repeat it, a kill: it is found nowhere."""
        echo = f"your key {key} is not welcome, {key}"
        errors = [{"fails": "key", "message": echo}, {"status": 400, "error": {"type": key, "code": key, "message": echo}}, {"status": 400, "body": echo},
                  {"status": 403, "body": json.dumps({"error": echo}), "content_type": "application/json"}, {"status": 500, "body": f"<html>{key}</html>", "headers": {"x-echo": key, "x-should-retry": "false"}},
                  {"status": 302, "body": "", "headers": {"location": f"http://127.0.0.1:1/?key={key}"}},
                  {"fails": "rate_limit", "message": echo, "headers": {"retry-after": "30"}}, {"fails": "overloaded", "message": echo}, {"text": "some text", "in_band": {"text": 3, "fails": "invalid", "message": echo}},
                  {"body": json.dumps({"error": {"type": key, "code": key, "message": echo}}), "content_type": "application/json"}]
        world = self.world(speaker, [{"when": {"turn": "tool", "role": "user"}, "reply": {"calls": [{"name": "environment", "input": {}}]}}, {"when": {"turn": "tool"}, "reply": {"text": "Done."}}]
                           + [{"when": {"marker": f"m{i}"}, "replies": [error, {"text": "Fine."}]} for i, error in enumerate(errors)],
                           {"name": "environment", "kind": "command", "effects": "none", "run": ["/usr/bin/env"]})
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
            del world.environment[name]
        secret = os.path.join(world.folder, "secret")
        if how == "api_key_file":
            with open(secret, "w", encoding="utf-8") as file:
                file.write(key + "\n")
            world.define(model={**world.definition["model"], "api_key_file": secret})
        elif how == "api_key_env":
            world.environment["OTHER_KEY"] = key
            world.define(model={**world.definition["model"], "api_key_env": "OTHER_KEY"})
        else:
            world.environment["ANTHROPIC_API_KEY" if speaker == "anthropic" else "OPENAI_API_KEY"] = key
        self.assertEqual(world.ask("tool", "tool")["text"], "Done.")
        with open(os.path.join(world.folder, "captured"), "wb") as log:
            processes = [world.start(*world.command(f"marker:m{i}", f"s{i}"), "--json", stdout=log, stderr=log) for i in range(len(errors)) if i != 6]
            killed = world.start(*world.command("marker:m6", "killed", "r"), stdout=log, stderr=log)
            wait_for(lambda: any(r[4].get("reason") == "rate_limit" for r in world.records("wait.set")), what="a wait")
            kill(killed)
            for process in processes:
                process.wait(timeout=60)
            self.assertIn("is not welcome", json.dumps([r[4] for r in world.records("turn.ended")]), "the message itself is told")
            for words in [("sessions",), ("verify",), ("doctor",)] + [(name, f"s{i}") for i in range(len(errors)) if i != 6 for name in ("show", "why")]:
                log.write(repr(world.run(*words, "--json")).encode())
        sent = [r["headers"].get("x-api-key", r["headers"].get("authorization", "")) for r in world.fm.requests]
        self.assertTrue(all(key in header for header in sent), "the key went out as a header")
        self.assertGreaterEqual(len(sent), 2 + len(errors))
        self.assertFalse(any(key in r["body"] for r in world.fm.requests))
        looked = 0
        for folder, _, files in os.walk(world.folder):
            for name in files:
                path = os.path.join(folder, name)
                if path != secret:
                    looked += 1
                    with open(path, "rb") as file:
                        self.assertNotIn(key.encode(), file.read(), os.path.relpath(path, world.folder))
        self.assertGreater(looked, 4)

    WAYS = {"anthropic": ("default", "sk-ant-api03-CANARY-0123456789abcdef"), "anthropic token": ("api_key_env", "sk-ant-oat01-CANARY-abcdef"),
            "responses": ("default", "sk-proj-CANARY-0123456789abcdef"), "chat": ("api_key_file", "CANARY/with+odd=chars~0123456789")}

    @everywhere(*WAYS)
    def test_case_M5_N3_the_key_is_found_nowhere(self, way):
        self.hunt(way.split()[0], *self.WAYS[way])


if __name__ == "__main__":
    unittest.main()
