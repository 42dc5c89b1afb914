#!/usr/bin/env python3
"""Conversations with a strict fake provider through the program: every request valid whatever happened before it, prefixes stable, thinking echoed, bad
arguments and bad text harmless, keys nowhere."""
import json
import os
import signal
import unittest

from harness import ANY, ECHO, HANGER, KILLER, Asking, AskingTest, call, command, events_of, kill, wait_for


WRITE = {"name": "write", "kind": "sql", "effects": "transactional", "input": ANY,
         "sql": ["create table if not exists effects(id text)", "insert into effects(id) values (:id) returning id"]}


class Base(AskingTest):
    def world(self, script, *arguments, **more):
        world = Asking(script, *arguments, **{"files": {"killer": KILLER, "hanger": HANGER, "echo": ECHO}, **more})
        self.addCleanup(world.__exit__)
        return world


class Conversations(Base):
    """C8, C9, C10, D10."""

    def test_C9_C10_D2_D4_kill_9_at_every_record_of_a_turn_with_tools_of_all_classes(self):
        script = [{"when": {"turn": "again"}, "reply": {"text": "Still here."}},
                  {"when": {"tool_results": 0}, "reply": {"thinking": "First I look. ", "text": "I look.", "calls": [call("look"), call("write", "w{{marker}}"), call("send")], "delay": 0.02}},
                  {"when": {"tool_results": 1}, "reply": {"thinking": "Then I notify.", "calls": [call("notify"), call("send", "2")], "delay": 0.02}},
                  {"reply": {"text": "All done.", "delay": 0.02}}]
        world = self.world(script, [command("look", "none"), command("notify", "idempotent"), command("send", "once"), WRITE])
        at, total = 1, 99
        while at <= total:
            session, marker = f"s{at}", f"m{at}"
            process = world.start(*world.command(f"marker:{marker}", session, f"r{at}"))
            seen = lambda: world.query("select count(*) from pawl_journal j join pawl_sessions s on s.id = j.session where s.name = ?", session)
            wait_for(lambda: process.poll() is not None or (seen() or [(0,)])[0][0] >= at, limit=60, what=f"record {at}")
            kill(process)
            turn = world.ask(f"marker:{marker}", session, f"r{at}")
            self.assertEqual((turn["state"], turn["text"]), ("completed", "All done."))
            self.assertEqual(world.ask("again", session)["text"], "Still here.")
            self.check_requests(world, markers=[marker])
            ended = world.query("select seq from pawl_journal j join pawl_sessions s on s.id = j.session where s.name = ? and kind = 'turn.ended' order by seq", session)[0][0]
            total = min(total, ended)
            at += 1
        self.assertGreater(total, 10)
        rows = [row[0] for row in world.query("select id from effects")]
        self.assertEqual(sorted(rows), sorted(f"wm{i}" for i in range(1, at)), "every transactional write exactly once")
        keys = [key for tool, _, key in world.ledger() if tool == "send"]
        self.assertEqual(len(keys), len(set(keys)), "no once call ran twice")
        self.assertEqual(len(world.query("select 1 from pawl_journal where kind = 'turn.ended'")), 2 * (at - 1))

    def test_C9_D4_a_tool_of_each_class_that_kills_the_engine(self):
        steps = [[call("look"), call("send")], [call("notify"), call("write")], [call("send", "2"), call("look", "2")]]
        script = [{"when": {"tool_results": i}, "reply": {"thinking": f"Step {i}.", "calls": calls}} for i, calls in enumerate(steps)] + [{"reply": {"text": "Done."}}]
        world = self.world(script, [command("look", "none", "./killer"), command("notify", "idempotent", "./killer"), command("send", "once", "./killer"), WRITE])
        deaths = 0
        while world.run(*world.command("go", "s", "r"))[0] == -signal.SIGKILL:
            deaths += 1
        self.assertEqual(deaths, 5)
        turn = world.ask("go", "s", "r")
        self.assertEqual((turn["state"], turn["text"], turn["attempts"]), ("completed", "Done.", 6))
        self.assertEqual(sorted((t, i) for t, i, _ in world.ledger()),
                         [("look", "1"), ("look", "1"), ("look", "2"), ("look", "2"), ("notify", "1"), ("notify", "1"), ("send", "1"), ("send", "2")])
        self.assertEqual(len({key for tool, _, key in world.ledger() if tool == "notify"}), 1)
        self.assertEqual(len(world.fm.requests), 4, "nothing answered was asked again")
        self.assertEqual([r[4]["outcome"] for r in world.records("tool.completed") if r[4]["name"] == "send"], ["unknown", "unknown"])
        unknown = [b for m in json.loads(world.bodies()[1])["messages"] for b in m["content"] if b["type"] == "tool_result" and "unknown" in b["content"]]
        self.assertEqual(len(unknown), 1)
        self.assertTrue(unknown[0]["is_error"])
        self.check_requests(world)

    def test_C8_N2_thinking_over_three_steps_with_a_kill_between_each_goes_back_byte_for_byte(self):
        thoughts = ["  two spaces, then \\u00e9 as text, é as such, 😀 and a tab\t.\n\n", "", "\u2028line\u2029separators \u0001 and \"quotes\" \\ / </script>"]
        steps = [{"when": {"tool_results": i}, "reply": {"blocks": [{"thinking": thought, "signature": f"Eq+/{i}=="}, {"redacted": f"secret+/{i}=="}, {"text": f"Step {i}."},
                                                                    {"call": "look", "input": {"id": str(i)}}], "chunk": 3}} for i, thought in enumerate(thoughts)]
        world = self.world(steps + [{"reply": {"text": "Done."}}], [command("look", "none", "./killer")])
        for _ in thoughts:
            self.assertEqual(world.run(*world.command("go", "s", "r"))[0], -signal.SIGKILL)
        self.assertEqual(world.ask("go", "s", "r")["text"], "Done.")
        self.assertEqual(len(world.fm.requests), 4)
        self.check_requests(world)
        last = json.loads(world.bodies()[-1])["messages"]
        for i, thought in enumerate(thoughts):
            blocks = last[1 + 2 * i]["content"]
            self.assertEqual(blocks[0], {"type": "thinking", "thinking": thought, "signature": f"Eq+/{i}=="})
            self.assertEqual(blocks[1], {"type": "redacted_thinking", "data": f"secret+/{i}=="})
        self.assertEqual(world.ask("more")["state"], "completed")
        self.check_requests(world)

    def test_C8_N2_thinking_goes_back_behind_an_alias_and_not_to_another_family(self):
        script = [{"when": {"turn": "tools", "role": "user"}, "reply": {"model": "vendor-model-7", "thinking": "hm", "text": "I look.", "calls": [call("look")]}}, {"reply": {"model": "vendor-model-7", "thinking": "so", "text": "Fine."}}]
        world = self.world(script, [command("look", "none", "./killer")], model={"name": "our-alias"})
        self.assertEqual(world.run(*world.command("tools", "s", "r"))[0], -signal.SIGKILL)
        turn = world.ask("tools", "s", "r")
        self.assertEqual((turn["text"], turn["model"]), ("Fine.", "vendor-model-7"))
        self.assertEqual(world.ask("more")["text"], "Fine.")
        self.check_requests(world)
        self.assertEqual(world.bodies()[-1].count('"thinking":"'), 2)
        world.definition["model"]["name"] = "another-model"
        world.agent("a", world.definition, files=world.files)
        self.assertEqual(world.ask("more still")["text"], "Fine.")
        self.assertEqual(world.bodies()[-1].count('"thinking":"'), 0, "another family reads no foreign thinking")
        self.assertIn("I look.", world.bodies()[-1])
        self.assertEqual(world.refusals(), [])

    def test_C9_turns_after_a_cancel_a_failure_an_unknown_outcome_a_fatal_tool_and_a_pause_are_accepted(self):
        refused = "organization disabled"
        script = [{"when": {"turn": "cancel", "role": "user"}, "reply": {"thinking": "c", "calls": [call("look"), call("hang"), call("send", "never")]}},
                  {"when": {"turn": "fail", "role": "user"}, "reply": {"thinking": "f", "calls": [call("send", "f")]}},
                  {"when": {"turn": "fail"}, "reply": {"status": 403, "error": {"type": "permission_error", "message": refused}}},
                  {"when": {"turn": "unknown", "role": "user"}, "reply": {"thinking": "u", "calls": [call("die", "u")]}},
                  {"when": {"turn": "fatal", "role": "user"}, "reply": {"thinking": "t", "calls": [call("fatal"), call("send", "after fatal")]}},
                  {"when": {"turn": "pause", "role": "user"}, "reply": {"thinking": "p", "calls": [call("look", str(i)) for i in range(5)]}},
                  {"reply": {"text": "Fine."}}]
        world = self.world(script, [command("look", "none"), command("send", "once"), command("hang", "once", "./hanger"), command("die", "once", "./killer"), command("fatal", "once", "./fatal")],
                           files={"killer": KILLER, "hanger": HANGER, "fatal": "#!/bin/sh\nexit 78\n"}, budget={"max_tool_calls": 3})
        fine = lambda: self.assertEqual(world.ask("fine")["text"], "Fine.")
        process = world.start(*world.command("cancel", "s", "r1"))
        wait_for(lambda: [1 for tool, _, _ in world.ledger() if tool == "hang"], what="the hanging call")
        world.run("cancel", "s", check=0)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 5)
        fine()
        turn = world.ask("fail", check=1)
        self.assertEqual((turn["reason"], turn["detail"]), ("model", refused))
        fine()
        self.assertEqual(world.run(*world.command("unknown", "s", "r2"))[0], -signal.SIGKILL)
        self.assertEqual(world.ask("unknown", "s", "r2")["text"], "Fine.")
        fine()
        self.assertEqual(world.ask("fatal", check=1)["reason"], "tool_fatal")
        fine()
        turn = world.ask("pause", check=3)
        self.assertEqual((turn["state"], turn["reason"]), ("paused", "max_tool_calls"))
        fine()
        self.check_requests(world, refused)
        results = [b for m in json.loads(world.bodies()[-1])["messages"] for b in m["content"] if b["type"] == "tool_result"]
        self.assertEqual(len(results), 3 + 1 + 1 + 2 + 5)
        self.assertIn("unknown", results[1]["content"], "the call that ran when the turn was cancelled")
        self.assertIn("cancelled", results[2]["content"], "the call that had not run")
        self.assertEqual([i for tool, i, _ in world.ledger() if tool == "send"], ["f"])

    def test_C10_B4_a_window_of_whole_turns_and_messages_that_wait_are_valid_too(self):
        world = self.world([{"when": {"role": "user", "turn": "tools"}, "reply": {"thinking": "t", "calls": [call("look"), call("look", "2")]}}, {"reply": {"text": "Fine."}}],
                           [command("look", "none")], context={"messages": 5})
        for i in range(6):
            self.assertEqual(world.ask(f"tools {i}" if i % 2 else f"plain {i}")["text"], "Fine.")
        self.assertEqual(world.refusals(), [])
        self.assertLessEqual(len(json.loads(world.bodies()[-1])["messages"]), 5 + 4)

    def test_I7_partial_text_of_a_cancelled_reply_is_kept_for_people_and_sent_to_no_model(self):
        world = self.world([{"when": {"turn": "slow"}, "reply": {"thinking": "never to be signed", "text": "partial words " * 40, "chunk": 8, "pace": 0.02, "stall": {"after": 25, "for": 60}}}, {"reply": {"text": "Next."}}])
        process = world.start(*world.command("slow", "s", "r"), "--json")
        for line in process.stdout:
            if b'"message.delta"' in line:
                break
        world.run("cancel", "s", check=0)
        out, _ = process.communicate(timeout=30)
        _, turn = events_of(out.decode())
        self.assertEqual((turn["state"], turn["reason"]), ("cancelled", "user"))
        self.assertTrue(turn["text"].startswith("partial "), turn["text"])
        self.assertEqual(world.ask("next")["text"], "Next.")
        self.assertNotIn("partial ", world.bodies()[-1])
        self.assertEqual(world.refusals(), [])
        world.fm.wait(lambda fm: any(e["how"] == "client_closed" for e in fm.ended), 10)


    def test_C9_C10_C3_kill_9_when_the_last_byte_of_an_answer_has_gone_out(self):
        script = [{"when": {"tool_results": 0}, "reply": {"thinking": "a", "calls": [call("look"), call("send")]}}, {"when": {"tool_results": 1}, "reply": {"thinking": "b", "calls": [call("send", "2")]}},
                  {"reply": {"text": "All done."}}]
        world = self.world(script, [command("look", "none"), command("send", "once")])
        for n in range(1, 4):
            for again in range(3):
                session = f"s{n}.{again}"
                process = world.start(*world.command(f"marker:{session} go", session, "r"))
                mine = lambda fm: [e for e in fm.ended if e["how"] == "whole" and fm.requests[e["n"] - 1]["marker"] == session]
                world.fm.wait(lambda fm: len(mine(fm)) >= n, 60)
                kill(process)
                turn = world.ask(f"marker:{session} go", session, "r")
                self.assertEqual((turn["state"], turn["text"]), ("completed", "All done."))
                self.check_requests(world, markers=[session])
        keys = [key for tool, _, key in world.ledger() if tool == "send"]
        self.assertEqual(len(keys), len(set(keys)), "no once call ran twice")


class Arguments(Base):
    """case H1."""

    def test_case_H1_F3_malformed_calls_are_read_as_short_errors_and_the_valid_one_runs(self):
        garbage = "".join(chr(33 + i * 7 % 90) for i in range(1 << 20))
        calls = [{"name": "act", "json": '{"id": "x", }'}, {"name": "act", "json": "null"}, {"name": "act", "json": "[1]"}, {"name": "nothing_of_that_name", "input": {"id": "x"}},
                 {"name": "act", "json": '{"id": "' + garbage.replace("\\", "/").replace('"', "'")}, {"name": "act", "input": {"id": "valid"}}]
        world = self.world([{"when": {"turn": "mixed", "role": "user"}, "reply": {"thinking": "hm", "calls": calls, "chunk": 1 << 16}},
                            {"when": {"turn": "again"}, "reply": {"calls": [{"name": "act", "json": '{"id": "x", }'}]}}, {"reply": {"text": "Recovered."}}], [command("act", "none")])
        turn = world.ask("mixed")
        self.assertEqual((turn["state"], turn["text"], turn["usage"]["protocol_failures"]), ("completed", "Recovered.", 5))
        self.assertEqual([i for _, i, _ in world.ledger()], ["valid"])
        messages = json.loads(world.bodies()[1])["messages"]
        results = messages[2]["content"]
        self.assertEqual([r.get("is_error", False) for r in results], [True] * 5 + [False])
        for result in results[:5]:
            self.assertLessEqual(len(result["content"].encode()), 2048)
            self.assertIn("error", json.loads(result["content"]))
        self.assertIn("nothing_of_that_name", results[3]["content"])
        self.assertEqual([b["input"] for b in messages[1]["content"] if b["type"] == "tool_use"], [{}, {}, {}, {"id": "x"}, {}, {"id": "valid"}])
        self.assertLess(len(world.bodies()[1]), 20000, "the garbage is not echoed")
        turn = world.ask("again", check=1)
        self.assertEqual((turn["state"], turn["reason"]), ("failed", "repetition"))
        results = [b for m in json.loads(world.bodies()[-1])["messages"] for b in m["content"] if b["type"] == "tool_result"][6:]
        self.assertEqual(len(results), 4)
        self.assertNotIn("had the same outcome", results[1]["content"])
        self.assertIn("had the same outcome", results[2]["content"], "told to change its strategy at the third")
        world.fm.set_script([{"reply": {"text": "Next."}}])
        self.assertEqual(world.ask("next")["text"], "Next.")
        self.check_requests(world)

    def test_F3_over_five_failures_the_turn_fails_and_deep_or_odd_json_harms_nothing(self):
        bad = ["{" * 100000, '{"id":' + "[" * 5000, '"text"', "true", '{"id":"a"}{"id":"b"}', '{"id":"a"} x', "{'id':'a'}", '{"id":"\\q"}', "\ufeff{\"id\":\"a\"}"]
        world = self.world([{"when": {"tool_results": i}, "reply": {"calls": [{"name": "act", "json": text}], "chunk": 1 << 16}} for i, text in enumerate(bad)], [command("act", "once")],
                           max_protocol_failures=20)
        turn = world.ask("go", check=None, limit=60)
        self.assertEqual(turn["usage"]["protocol_failures"], len(bad), turn)
        self.assertEqual((world.ledger(), world.refusals()), ([], []))
        few = self.world([{"when": {"tool_results": i}, "reply": {"calls": [{"name": f"none{i}", "input": {}}]}} for i in range(9)], [command("act", "once")])
        turn = few.ask("go", check=1)
        self.assertEqual((turn["state"], turn["reason"], turn["usage"]["protocol_failures"]), ("failed", "protocol", 6))


class Text(Base):
    """case N3."""

    def test_case_N3_A8_lone_surrogates_and_nul_of_the_model_poison_nothing(self):
        bad = "a\ud83d b\udc00 c\0d \ufeff 😀 \u2028 \ud83d\ude00"
        calls = [{"name": "echo", "json": '{"id":"\\ud83d lone","\\udc00key":"\\u0000","nested":[{"k\\u0000":"\\ud83d\\ud83d"}],"pair":"\\ud83d\\ude00"}'},
                 {"name": "echo", "input": {"id": bad}}, {"name": "e\ud83do\0", "input": {"id": "x"}}]
        search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": bad}}
        found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "title": bad, "url": "https://example.org", "encrypted_content": "Eo8=="}]}
        cited = {"type": "text", "text": bad, "citations": [{"type": "char_location", "cited_text": bad}]}
        world = self.world([{"when": {"role": "user", "turn": "go"}, "reply": {"text": bad, "calls": calls, "chunk": 1, "ascii": True}},
                            {"when": {"turn": "go"}, "reply": {"blocks": [{"thinking": bad}, {"raw": search}, {"raw": found}, {"raw": cited}, {"text": "bad \ud83d end"}], "chunk": 1, "ascii": True}},
                            {"reply": {"text": "Fine."}}], [command("echo", "none", "./echo")])
        turn, events = world.watch("go")
        for _, _, whole in [e for e in events if e[1] == "message.completed"]:
            streamed = "".join(d["text"] for _, n, d in events if n == "message.delta" and d["step"] == whole["step"])
            self.assertTrue(whole["text"].startswith(streamed), f"{streamed!r} streamed, {whole['text']!r} was kept")
        self.assertEqual(turn["state"], "completed")
        self.assertTrue(turn["text"].endswith("bad \ufffd end"), turn["text"])
        self.assertEqual(turn["usage"]["protocol_failures"], 1)
        self.assertEqual(world.ask("again")["text"], "Fine.")
        self.assertEqual(world.refusals(), [])
        for record in world.query("select body from pawl_journal"):
            json.loads(record[0])
            record[0].encode("utf-8")
            self.assertNotRegex(record[0], r"\\u0000|\\u[dD][89a-fA-F]|\x00")
        result = json.loads(world.bodies()[1])["messages"][2]["content"][0]["content"]
        self.assertIn("😀", result)
        self.assertIn("lone", result)

    def test_case_N3_D7_results_are_cut_on_a_character_boundary(self):
        smile = "#!/bin/sh\nread -r a\nid=$(printf '%s' \"$a\" | sed -n 's/.*\"id\": *\"\\([^\"]*\\)\".*/\\1/p')\nprintf '%s' \"$id\"; i=0; while [ $i -lt 60 ]; do printf '\\360\\237\\230\\200'; i=$((i+1)); done\n"
        tools = [command(f"smile{limit}", "none", "./smile", result_limit=limit) for limit in range(80, 84)]
        calls = [call(f"smile{limit}", "abcd"[:k]) for limit in range(80, 84) for k in range(1, 5)]
        world = self.world([{"when": {"role": "user"}, "reply": {"calls": calls}}, {"reply": {"text": "Done."}}], tools, files={"smile": smile})
        self.assertEqual(world.ask("go")["text"], "Done.")
        results = json.loads(world.bodies()[1])["messages"][2]["content"]
        self.assertEqual(len(results), 16)
        for result in results:
            self.assertLess(len(result["content"].encode()), 400)
            self.assertNotIn("\ufffd", result["content"])
            self.assertIn("😀", result["content"])
        self.assertEqual(world.ask("again")["text"], "Done.")
        self.check_requests(world)

    def test_C9_blank_text_and_unsigned_thinking_are_not_sent_back(self):
        world = self.world([{"when": {"tool_results": 0}, "reply": {"blocks": [{"text": "\n\n"}, {"thinking": "hm"}, {"text": " \u00a0"}, {"call": "look", "input": {"id": "1"}}]}},
                            {"when": {"tool_results": 1}, "reply": {"blocks": [{"raw": {"type": "thinking", "thinking": "unsigned"}}, {"call": "look", "input": {"id": "2"}}]}},
                            {"reply": {"text": "Done. \n"}}], [command("look", "none", "./empty")], files={"empty": "#!/bin/sh\ncat >/dev/null\n"})
        world.ask("go")
        self.assertEqual(world.ask("again")["state"], "completed")
        self.check_requests(world)


class Keys(Base):
    """N3, case M5."""

    def test_N3_a_key_in_agent_yaml_or_in_an_address_is_refused_and_not_repeated(self):
        key = "sk-ant-api03-CANARY-0123456789abcdef"
        for options in ({"base_url": f"http://user:{key}@127.0.0.1:1"}, {"base_url": f"http://127.0.0.1:1/?key={key}"}, {"api_key": key}, {"x-api-key": key}, {"headers": {"x-api-key": key}}):
            world = self.world([{"text": "never"}], model=options)
            status, out, err = world.run(*world.command("go"))
            self.assertEqual(status, 2, err)
            self.assertNotIn(key, out + err)
            self.assertIn("model.", err)
            self.assertFalse(os.path.exists(world.database) and key.encode() in open(world.database, "rb").read())

    def test_N3_a_missing_key_is_said_without_one_and_asks_nobody(self):
        world = self.world([{"text": "never"}], model={"api_key_env": "NO_SUCH_KEY"})
        turn = world.ask("go", check=1)
        self.assertIn("NO_SUCH_KEY", turn["detail"])
        self.assertEqual(world.fm.requests, [])


if __name__ == "__main__":
    unittest.main()
