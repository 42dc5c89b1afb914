#!/usr/bin/env python3
"""The fake model must be as strict as it says: each refusal, and each way to break an answer, tried by hand."""
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fake_model import FakeModel  # noqa: E402

HEADERS = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "sk-test"}


def user(*blocks):
    return {"role": "user", "content": [b if isinstance(b, dict) else {"type": "text", "text": b} for b in blocks]}


def assistant(*blocks):
    return {**user(*blocks), "role": "assistant"}


def use(call, name="look", value=None):
    return {"type": "tool_use", "id": call, "name": name, "input": {} if value is None else value}


def result(call, **more):
    return {"type": "tool_result", "tool_use_id": call, **more}


def open_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def ask(fm, messages, raw=None, headers=None, **more):
    """(status, body) of one request; a broken answer raises."""
    body = raw or json.dumps({"model": "claude-x", "max_tokens": 10, "stream": True, "messages": messages, **more})
    connection = http.client.HTTPConnection(fm.host, fm.port, timeout=10)
    connection.request("POST", "/v1/messages", body, {**HEADERS, **(headers or {})})
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, data.decode()


class Strictness(unittest.TestCase):
    def refused(self, messages, words, **more):
        with FakeModel() as fm:
            status, body = ask(fm, messages, **more)
            self.assertEqual(status, 400, body)
            self.assertIn(words, json.loads(body)["error"]["message"])

    def test_good_conversation(self):
        with FakeModel([{"reply": {"text": "hello"}}]) as fm:
            messages = [user("hi"), assistant(use("a"), use("b")), user(result("a"), result("b", is_error=True), "so?")]
            status, body = ask(fm, messages)
            self.assertEqual(status, 200, body)
            self.assertIn("message_stop", body)

    def test_a_missing_result(self):
        self.refused([user("hi"), assistant(use("a"), use("b")), user(result("a"))], "without `tool_result`")
        self.refused([user("hi"), assistant(use("a")), user("well?")], "without `tool_result`")

    def test_b_orphan_result(self):
        self.refused([user("hi"), assistant("x"), user(result("a"))], "unexpected `tool_use_id`")
        self.refused([user("hi"), assistant(use("a")), user(result("a"), result("a"))], "single result")
        self.refused([user("hi"), assistant(use("a")), user("first", result("a"))], "must come first")

    def test_c_repeated_id(self):
        self.refused([user("hi"), assistant(use("a")), user(result("a")), assistant(use("a")), user(result("a"))],
                     "must be unique")

    def test_d_thinking(self):
        thinking = {"type": "thinking", "thinking": "hm", "signature": "made up"}
        self.refused([user("hi"), assistant(thinking, "x"), user("y")], "Invalid `signature`")
        script = [{"when": {"call": 1}, "reply": {"thinking": "hm", "calls": [{"name": "look", "input": {"a": 1}}]}}]
        with FakeModel(script) as fm:
            ask(fm, [user("hi")])
            thinking = {"type": "thinking", "thinking": "hm", "signature": "fm+sig/1.0=="}
            call = use("c1", value={"a": 1})
            good = [user("hi"), assistant(thinking, call), user(result("c1"))]
            self.assertEqual(ask(fm, good)[0], 200)
            without = [user("hi"), assistant(call), user(result("c1"))]
            self.assertIn("complete, in order", ask(fm, without)[1])
            changed = [user("hi"), assistant({**thinking, "thinking": ""}, call), user(result("c1"))]
            self.assertIn("cannot be modified", ask(fm, changed)[1].replace("\\n", " "))

    def test_e_text_that_is_none(self):
        for text in ("a\\u0000b", "\\ud800"):
            raw = '{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"%s"}]}' % text
            with FakeModel() as fm:
                self.assertEqual(ask(fm, None, raw=raw)[0], 400)
        with FakeModel() as fm:
            self.assertEqual(ask(fm, None, raw=b'{"model":"\xff"}')[0], 400)

    def test_f_blank_text(self):
        self.refused([user("hi"), assistant(" \n\u2003"), user("x")], "non-whitespace")
        self.refused([user("")], "non-empty")
        self.refused([{"role": "user", "content": []}], "non-empty content")

    def test_h_too_long(self):
        with FakeModel({"rules": [], "limit_tokens": 50}) as fm:
            status, body = ask(fm, [user("x" * 1000)])
            self.assertEqual(status, 400)
            self.assertIn("prompt is too long", body)

    def test_other_refusals(self):
        self.refused([assistant("x"), user("y")], "first message")
        self.refused([user("x"), assistant("y")], "prefill")
        self.refused([user("x"), assistant(use("a:b")), user(result("a:b"))], "should match pattern")
        self.refused([user("x"), assistant(use("a", value=[])), user(result("a"))], "valid dictionary")
        self.refused([user("x")], "Extra inputs", temprature=1)
        mark = {"cache_control": {"type": "ephemeral"}}
        self.refused([user(*[{"type": "text", "text": "x", **mark}] * 4)], "maximum of 4", **mark)
        self.refused([user("x"), assistant({"type": "thinking", "thinking": "", "signature": "s", **mark}, "a"),
                      user("y")], "cache_control cannot")
        server = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
        self.refused([user("x"), assistant(server), user("y")], "without its result")
        with FakeModel() as fm:
            self.assertEqual(ask(fm, [user("x"), assistant(server)])[0], 200)  # paused: it may be continued

    def test_the_key(self):
        with FakeModel({"rules": [], "key": "sk-right"}) as fm:
            self.assertEqual(ask(fm, [user("x")])[0], 401)
            self.assertEqual(ask(fm, [user("x")], headers={"x-api-key": "sk-right"})[0], 200)


class Breakage(unittest.TestCase):
    def test_errors_and_headers(self):
        reply = {"status": 529, "headers": {"retry-after": "3"}, "error": {"type": "overloaded_error", "message": "no"}}
        with FakeModel([{"when": {"times": 1}, "reply": reply}, {"reply": {"text": "yes"}}]) as fm:
            status, body = ask(fm, [user("x")])
            self.assertEqual((status, json.loads(body)["error"]["type"]), (529, "overloaded_error"))
            self.assertEqual(ask(fm, [user("x")])[0], 200)

    def test_small_writes_and_recordings(self):
        with tempfile.NamedTemporaryFile(suffix=".sse") as file:
            file.write(b"event: ping\ndata: {}\n\n")
            file.flush()
            with FakeModel([{"when": {"call": 1}, "reply": {"text": "a" * 50, "write": 7}},
                            {"reply": {"file": file.name, "write": 7}}]) as fm:
                self.assertIn("message_stop", ask(fm, [user("x")])[1])
                self.assertEqual(ask(fm, [user("x")])[1], "event: ping\ndata: {}\n\n")

    def test_cuts(self):
        for how in ("rst", "fin"):
            with FakeModel([{"reply": {"text": "a" * 500, "cut": {"after": 300, "how": how}}}]) as fm:
                with self.assertRaises((ConnectionError, http.client.IncompleteRead)):
                    ask(fm, [user("x")])
                fm.wait(lambda f: f.ended)
                self.assertEqual(fm.ended[0]["how"], "cut")
                self.assertEqual(fm.ended[0]["bytes"], 300)

    def test_stall_with_pings(self):
        with FakeModel([{"reply": {"text": "abc", "stall": {"after": 2, "for": 0.3, "ping": 0.1}}}]) as fm:
            began = time.monotonic()
            body = ask(fm, [user("x")])[1]
            self.assertGreater(time.monotonic() - began, 0.25)
            self.assertGreater(body.count("event: ping"), 2)

    def test_client_goes(self):
        with FakeModel([{"reply": {"text": "abc", "stall": {"after": 1, "for": 60}}}]) as fm:
            connection = http.client.HTTPConnection(fm.host, fm.port, timeout=10)
            connection.request("POST", "/v1/messages", json.dumps(
                {"model": "m", "max_tokens": 1, "messages": [user("x")]}), HEADERS)
            response = connection.getresponse()
            response.close()
            connection.close()
            fm.wait(lambda f: f.ended, 5)
            self.assertEqual(fm.ended[0]["how"], "client_closed")

    def test_in_band_error(self):
        with FakeModel([{"reply": {"text": "abc", "in_band": {"after": 3, "type": "overloaded_error", "message": "m"}}}]) as fm:
            body = ask(fm, [user("x")])[1]
            self.assertIn("overloaded_error", body)
            self.assertNotIn("message_stop", body)


class Rules(unittest.TestCase):
    def test_matching(self):
        script = [
            {"when": {"role": "tool", "tool_result": "look", "is_error": True}, "reply": {"text": "failed"}},
            {"when": {"tool_result": "look"}, "reply": {"text": "saw {{last}}"}},
            {"when": {"contains": "marker:b"}, "replies": [{"text": "b1"}, {"text": "b2 {{marker}}"}]},
            {"when": {"turn": "look"}, "reply": {"calls": [{"name": "look", "input": {"q": "{{last}}"}}]}},
        ]
        with FakeModel(script) as fm:
            self.assertIn("b1", ask(fm, [user("marker:b")])[1])
            self.assertIn("b2 b", ask(fm, [user("marker:b")])[1].replace('"}', "").replace("  ", " "))
            self.assertIn("input_json_delta", ask(fm, [user("look here")])[1])
            self.assertIn("saw it", ask(fm, [user("look"), assistant(use("a")), user(result("a", content="it"))])[1])
            self.assertIn("failed", ask(fm, [user("look"), assistant(use("a")),
                                             user(result("a", content="it", is_error=True))])[1])
            self.assertIn("no rule", ask(fm, [user("else")])[1])

    def test_stable_prefix_is_seen(self):
        with FakeModel() as fm:
            first = '{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"marker:p"}'
            ask(fm, None, raw=first + "]}")
            ask(fm, None, raw=first + ',{"role":"user","content":"b"}]}')
            ask(fm, None, raw=first.replace("marker:p", "marker:p ") + "]}")
            self.assertEqual([r["extends"] for r in fm.requests], [True, True, False])

    def test_as_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            script, log = os.path.join(folder, "s.json"), os.path.join(folder, "log")
            with open(script, "w", encoding="utf-8") as file:
                json.dump([{"reply": {"text": "hello"}}], file)
            program = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), "fake_model.py"),
                                        "--script", script, "--log", log], stdout=subprocess.PIPE, text=True)
            try:
                port = int(program.stdout.readline().split()[1])

                class Address:
                    host = "127.0.0.1"

                Address.port = port
                self.assertIn("hello", ask(Address, [user("canary")])[1])
                until = time.monotonic() + 10
                while time.monotonic() < until and '"end"' not in open_text(log):
                    time.sleep(0.01)
            finally:
                program.terminate()
                program.wait()
                program.stdout.close()
            with open(log, encoding="utf-8") as file:
                entries = [json.loads(line) for line in file]
            self.assertEqual([e["event"] for e in entries], ["request", "end"])
            self.assertIn("canary", entries[0]["body"])
            self.assertEqual(entries[0]["headers"]["x-api-key"], "sk-test")


if __name__ == "__main__":
    unittest.main()
