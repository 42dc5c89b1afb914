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
        self.refused([user("x"), assistant(use("a", name="e\ufffdo")), user(result("a"))], "tool_use.name")
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

    def test_images_and_documents(self):
        source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
        document = {"type": "document", "title": "t", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}}
        with FakeModel({"bad_image": "BADBAD"}) as fm:
            self.assertEqual(ask(fm, [user("see", {"type": "image", "source": source}, document)])[0], 200)
            status, body = ask(fm, [user("see", {"type": "image", "source": source}, {"type": "image", "source": {**source, "data": "BADBADaa"}})])
            self.assertEqual(status, 400)
            self.assertIn("messages.0.content.2.image.source.base64: image exceeds", body)
        self.refused([user({"type": "image", "source": {**source, "url": "x"}})], "Extra inputs")
        self.refused([user({"type": "image", "source": {**source, "media_type": "image/tiff"}})], "media_type")
        self.refused([user({"type": "image_url", "image_url": {"url": "x"}})], "does not match any of the expected tags")
        self.refused([user("x"), assistant({"type": "image", "source": source}, "y"), user("z")], "can only be in `user`")

    def test_the_key(self):
        with FakeModel({"rules": [], "key": "sk-right"}) as fm:
            self.assertEqual(ask(fm, [user("x")])[0], 401)
            self.assertEqual(ask(fm, [user("x")], headers={"x-api-key": "sk-right"})[0], 200)


def image(data="aGk="):
    return "data:image/png;base64," + data


class Foreign(unittest.TestCase):
    """What another model or server gave is refused by all."""

    def test_d_a_signature_of_another_model_or_server(self):
        thought = {"rules": [{"when": {"call": 1}, "reply": {"thinking": "hm", "calls": [{"name": "look", "input": {"a": 1}}]}}]}
        with FakeModel(thought) as fm, FakeModel() as other:
            ask(fm, [user("hi")])
            block = {"type": "thinking", "thinking": "hm", "signature": "fm+sig/1.0=="}
            echo = [user("hi"), assistant(block, use("c1", value={"a": 1})), user(result("c1"))]
            self.assertEqual(ask(fm, echo)[0], 200)
            self.assertEqual(ask(fm, echo, model="claude-x-20260101")[0], 200, "the same family")
            self.assertIn("Invalid `signature`", ask(fm, echo, model="claude-y")[1])
            self.assertEqual(ask(fm, [user("hi"), assistant(use("c1", value={"a": 1})), user(result("c1"))], model="claude-y")[0], 200, "another family needs none")
            self.assertIn("Invalid `signature`", ask(other, echo)[1])


class Responses(unittest.TestCase):
    """POST /v1/responses."""

    TOOL = {"type": "function", "name": "look", "strict": False, "parameters": {"type": "object", "properties": {"id": {"type": "string"}}}}

    def setUp(self):
        self.fm = FakeModel().__enter__()
        self.addCleanup(self.fm.__exit__)

    def ask(self, items, method="POST", path="/v1/responses", **more):
        body = json.dumps({"model": "gpt-x", "input": items, "stream": True, "store": False, "include": ["reasoning.encrypted_content"], **more})
        connection = http.client.HTTPConnection(self.fm.host, self.fm.port, timeout=10)
        self.addCleanup(connection.close)
        connection.request(method, path, body if method == "POST" and "cancel" not in path else None, {"content-type": "application/json", "authorization": "Bearer sk-test"})
        response = connection.getresponse()
        return response.status, response.read().decode()

    def accepted(self, items, **more):
        status, body = self.ask(items, **more)
        self.assertEqual(status, 200, body)
        return [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:")]

    def refused(self, items, words, status=400, **more):
        answered, body = self.ask(items, **more)
        self.assertEqual(answered, status, body)
        error = json.loads(body)["error"]
        self.assertIn(words, error["message"])
        self.assertLessEqual({"message", "type", "param", "code"}, set(error))

    @staticmethod
    def said(role, *parts):
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [p if isinstance(p, dict) else {"type": kind, "text": p} for p in parts]}

    @staticmethod
    def called(call, arguments="{}", **more):
        return {"type": "function_call", "call_id": call, "name": "look", "arguments": arguments, **more}

    @staticmethod
    def output(call, text="it"):
        return {"type": "function_call_output", "call_id": call, "output": text}

    def test_a_good_conversation(self):
        hi, file = self.said("user", "hi", {"type": "input_image", "image_url": image()}), {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}
        events = self.accepted([hi, self.called("a"), self.called("b"), self.output("a"), self.output("b"), self.said("assistant", "so"), self.said("user", "and?", file)],
                               tools=[self.TOOL], instructions="Be brief.", stream_options={"include_obfuscation": False})
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        self.assertEqual(events[-1]["type"], "response.completed")
        self.assertFalse([e for e in events if "obfuscation" in e])
        self.accepted("just text")

    def test_a_b_c_pairs(self):
        hi = self.said("user", "hi")
        self.refused([hi, self.called("a")], "No tool output found for function call a")
        self.refused([hi, self.called("a"), self.said("user", "x"), self.output("a")], "No tool output found")
        self.refused([hi, self.called("a"), self.called("b"), self.output("a"), self.called("c"), self.output("b"), self.output("c")], "No tool output found for function call b")
        self.refused([hi, self.output("a")], "No tool call found for function call output with call_id a")
        self.refused([hi, self.called("a"), self.output("a"), self.output("a")], "No tool call found")
        self.refused([hi, self.called("a"), self.output("a"), self.called("a"), self.output("a")], "Duplicate")

    def test_d_g_reasoning(self):
        self.fm.set_script([{"when": {"turn": "two"}, "reply": {"thinking": "hm", "text": "so"}},
                            {"when": {"role": "user"}, "reply": {"thinking": "hm", "calls": [{"name": "look", "input": {"a": 1}}, {"name": "look", "input": {"a": 2}}]}}])
        hi = self.said("user", "hi")
        done = [e["item"] for e in self.accepted([hi]) if e["type"] == "response.output_item.done"]
        thought = done[0]
        self.assertTrue(thought["encrypted_content"])
        one, two, outputs = self.called("c1", '{"a":1}'), self.called("c2", '{"a": 2}'), [self.output("c1"), self.output("c2")]
        self.accepted([hi, thought, one, two, *outputs])
        self.accepted([hi, done[0], done[1], done[2], self.output(done[1]["call_id"]), self.output(done[2]["call_id"])])
        self.refused([hi, one, two, *outputs], "without its required 'reasoning' item")
        self.refused([hi, one, thought, two, *outputs], "without its required")
        self.refused([hi, thought, self.said("assistant", "x"), one, two, *outputs], "required following item")
        self.refused([hi, one, two, *outputs, thought], "required")
        for changed in ({"summary": []}, {"id": "rs_fm_0_0"}, {"encrypted_content": "made+up=="}):
            status, body = self.ask([hi, {**thought, **changed}, one, two, *outputs])
            self.assertGreaterEqual(status, 400, changed)
        self.refused([hi, {**thought, "encrypted_content": "Eq+anthropic=="}, one, two, *outputs], "could not be verified")
        self.refused([hi, {k: v for k, v in thought.items() if k != "encrypted_content"}, one, two, *outputs], "not found", status=404)
        self.refused([hi, thought, one, two, *outputs], "could not be verified", model="gpt-y")
        self.accepted([hi, one, two, *outputs], model="gpt-y")
        self.accepted([hi, one, two, *outputs, self.said("assistant", "x"), self.said("user", "new turn")])
        self.assertEqual([e for e in self.accepted([hi], include=[]) if e.get("item", {}).get("encrypted_content")], [], "not asked for")

    def test_e_text_that_is_none(self):
        self.refused([self.said("user", "a\0b")], "null bytes")
        self.refused([self.said("user", "\ud83d")], "surrogate")
        self.refused([self.said("user", "x"), self.called("a", '{"k":"\0"}'), self.output("a")], "null bytes")

    def test_f_h_blank_and_long(self):
        self.refused([self.said("user", "")], "empty string")
        self.refused([self.said("user", "x"), self.said("assistant", " ")], "empty string")
        self.refused([{"role": "user", "content": []}], "empty")
        self.fm.set_script({"limit_tokens": 50})
        status, body = self.ask([self.said("user", "x" * 1000)])
        self.assertEqual(json.loads(body)["error"]["code"], "context_length_exceeded")

    def test_ids_arguments_members(self):
        hi = self.said("user", "hi")
        self.accepted([hi, self.called("x" * 64), self.output("x" * 64)])
        self.refused([hi, self.called("x" * 65), self.output("x" * 65)], "maximum length 64")
        self.refused([hi, self.called(""), self.output("")], "call_id")
        self.refused([hi, self.called("a", {}), self.output("a")], "expected a string")
        self.refused([hi, self.called("a", '{"half'), self.output("a")], "JSON object")
        self.refused([hi, self.called("a", "[]"), self.output("a")], "JSON object")
        self.refused([hi, self.called("a", id="toolu_1"), self.output("a")], "begins with 'fc'")
        self.refused([hi, self.called("a", id="fc_elsewhere"), self.output("a")], "not found", status=404)
        self.refused([hi, {"type": "tool_use", "id": "a"}], "Invalid value: 'tool_use'")
        self.refused([hi, {**hi, "cache_control": {}}], "Unknown parameter")
        self.refused([self.said("user", {"type": "text", "text": "x"})], "Invalid value: 'text'")
        self.refused([self.said("user", {"type": "output_text", "text": "x"})], "Invalid value")
        self.refused([self.said("user", {"type": "input_image", "image_url": "aGk="})], "valid URL")
        self.refused([self.said("user", {"type": "input_file", "file_data": "data:application/pdf;base64,aGk="})], "filename")
        self.refused([hi], "Unknown parameter: 'messages'", messages=[])
        self.refused([hi], "Unknown parameter: 'max_tokens'", max_tokens=5)
        self.refused([hi], ">= 16", max_output_tokens=5)
        self.refused([hi], "store", background=True)
        self.refused([hi], "tools[0].name", tools=[{"type": "function", "function": {"name": "look"}}])
        self.refused([hi], "additionalProperties", tools=[{k: v for k, v in self.TOOL.items() if k != "strict"}])
        self.refused([], "input")

    def test_a_bad_image_is_named_by_its_position(self):
        self.fm.set_script({"bad_image": "BADBAD"})
        status, body = self.ask([self.said("user", "x"), self.said("user", "two", {"type": "input_image", "image_url": image()}, {"type": "input_image", "image_url": image("BADBADaa")})])
        self.assertEqual((status, json.loads(body)["error"]["param"]), (400, "input[1].content[2].image_url"))

    def test_a_background_reply_is_kept_replayed_and_cancelled(self):
        self.fm.set_script([{"reply": {"text": "a" * 100, "cut": {"text": 40}, "resumes": [{"cut": {"text": 60, "how": "fin"}}]}}])
        with self.assertRaises((ConnectionError, http.client.IncompleteRead)):
            self.ask("go", store=True, background=True)
        with self.assertRaises(http.client.IncompleteRead):
            self.ask(None, "GET", "/v1/responses/resp_fm_1?stream=true")
        whole = self.ask(None, "GET", "/v1/responses/resp_fm_1?stream=true")[1]
        self.assertEqual(whole.count("event: response.created"), 1)
        later = [json.loads(line[5:]) for line in self.ask(None, "GET", "/v1/responses/resp_fm_1?stream=true&starting_after=0")[1].splitlines() if line.startswith("data:")]
        self.assertEqual((later[0]["type"], later[0]["sequence_number"], later[-1]["type"]), ("response.queued", 1, "response.completed"))
        self.assertEqual(json.loads(self.ask(None, "GET", "/v1/responses/resp_fm_1")[1])["status"], "completed")
        self.assertEqual(json.loads(self.ask(None, "POST", "/v1/responses/resp_fm_1/cancel")[1])["status"], "cancelled")
        self.assertEqual(json.loads(self.ask(None, "GET", "/v1/responses/resp_fm_1?stream=true")[1])["status"], "cancelled")
        self.assertEqual(self.ask(None, "GET", "/v1/responses/resp_elsewhere")[0], 404)
        self.assertEqual((len(self.fm.requests), len(self.fm.asked)), (1, 7))


class Chat(unittest.TestCase):
    """POST /v1/chat/completions."""

    TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}

    def setUp(self):
        self.fm = FakeModel().__enter__()
        self.addCleanup(self.fm.__exit__)

    def ask(self, messages, **more):
        body = json.dumps({"model": "chat-x", "messages": messages, "stream": True, **more})
        connection = http.client.HTTPConnection(self.fm.host, self.fm.port, timeout=10)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json", "authorization": "Bearer sk-test"})
        response = connection.getresponse()
        return response.status, response.read().decode()

    def accepted(self, messages, **more):
        status, body = self.ask(messages, **more)
        self.assertEqual(status, 200, body)
        self.assertTrue(body.rstrip().endswith("data: [DONE]"), body)
        return [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data: {")]

    def refused(self, messages, words, **more):
        status, body = self.ask(messages, **more)
        self.assertEqual(status, 400, body)
        self.assertIn(words, json.loads(body).get("message") or json.loads(body)["error"]["message"])

    @staticmethod
    def called(*ids, arguments="{}", content=None, **more):
        return {"role": "assistant", "content": content, "tool_calls": [{"id": i, "type": "function", "function": {"name": "look", "arguments": arguments}} for i in ids], **more}

    @staticmethod
    def output(call, text="it"):
        return {"role": "tool", "tool_call_id": call, "content": text}

    HI = {"role": "user", "content": "hi"}
    SO = {"role": "assistant", "content": "so"}

    def test_a_good_conversation(self):
        seen = {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": image()}},
                                            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}}]}
        chunks = self.accepted([{"role": "system", "content": "Be brief."}, self.HI, self.called("a", "b"), self.output("a"), self.output("b", ""), self.SO, seen],
                               tools=[self.TOOL], parallel_tool_calls=True, stream_options={"include_usage": True}, max_completion_tokens=5)
        self.assertTrue(chunks[-1]["usage"])
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertFalse([c for c in self.accepted([self.HI]) if c.get("usage")], "not asked for")

    def test_a_b_c_pairs(self):
        self.refused([self.HI, self.called("a", "b"), self.output("a")], "did not have response messages: b")
        self.refused([self.HI, self.called("a"), self.HI, self.output("a")], "did not have response messages: a")
        self.refused([self.HI, self.output("a")], "must be a response to a preceding message")
        self.refused([self.HI, self.called("a"), self.output("a"), self.output("b")], "must be a response")
        self.refused([self.HI, self.called("a"), self.output("a"), self.output("a")], "Duplicate")
        self.refused([self.HI, self.called("a"), self.output("a"), self.called("a"), self.output("a")], "Duplicate")

    def test_d_reasoning_content_of_a_tool_loop(self):
        self.fm.set_script({"dialect": "deepseek", "rules": [{"when": {"call": 1}, "reply": {"thinking": "hm", "calls": [{"name": "look", "input": {"a": 1}}]}}]})
        self.accepted([self.HI])
        call = self.called("c", arguments='{"a": 1}', content="")
        self.accepted([self.HI, {**call, "reasoning_content": "hm"}, self.output("c")])
        self.refused([self.HI, call, self.output("c")], "Missing `reasoning_content`")
        self.refused([self.HI, {**call, "reasoning_content": "h"}, self.output("c")], "unmodified")
        self.refused([self.HI, {**call, "reasoning_content": "hm"}, self.output("c")], "unmodified", model="chat-y")
        self.accepted([self.HI, call, self.output("c"), self.SO, self.HI])
        self.fm.set_script({"dialect": "openai"})
        self.refused([self.HI, {**call, "reasoning_content": "hm"}, self.output("c")], "Unrecognized request argument")

    def test_d_reasoning_details_unmodified(self):
        self.fm.set_script({"dialect": "openrouter", "rules": [{"when": {"call": 1}, "reply": {"blocks": [{"thinking": "hm", "signature": "s+1=="}, {"redacted": "r+1=="}, {"call": "look", "input": {}}]}}]})
        deltas = [c["choices"][0]["delta"] for c in self.accepted([self.HI]) if c["choices"]]
        details = [{"type": "reasoning.text", "text": "hm", "signature": "s+1==", "format": "anthropic-claude-v1", "index": 0},
                   {"type": "reasoning.encrypted", "data": "r+1==", "format": "anthropic-claude-v1", "index": 1}]
        self.assertIn(details[1], [d for delta in deltas for d in delta.get("reasoning_details", [])])
        self.assertEqual(self.ask([self.HI, self.called("c", reasoning="hm", reasoning_details=details), self.output("c")])[0], 200)
        self.assertEqual(self.ask([self.HI, self.called("c", reasoning_details=details), self.output("c")])[0], 200, "the text beside them may go")
        self.refused([self.HI, self.called("c", reasoning_details=details[::-1]), self.output("c")], "unmodified")
        self.refused([self.HI, self.called("c"), self.output("c")], "Missing")

    def test_e_f_h_text(self):
        self.refused([{"role": "user", "content": "a\0"}], "null bytes")
        self.refused([{"role": "user", "content": "\udc00"}], "surrogate")
        self.refused([{"role": "user", "content": ""}], "empty string")
        self.refused([{"role": "user", "content": [{"type": "text", "text": " "}]}], "empty string")
        self.refused([self.HI, {"role": "assistant", "content": None}, self.HI], "got null")
        self.fm.set_script({"limit_tokens": 50})
        self.refused([{"role": "user", "content": "x" * 1000}], "maximum context length is 50 tokens")

    def test_ids_arguments_roles_members(self):
        self.accepted([self.HI, self.called("x" * 40), self.output("x" * 40)])
        self.refused([self.HI, self.called("x" * 41), self.output("x" * 41)], "maximum length 40")
        self.refused([self.HI, self.called("a", arguments={}), self.output("a")], "expected a string")
        self.refused([self.HI, self.called("a", arguments="{"), self.output("a")], "invalid tool call arguments")
        self.refused([self.SO, self.HI], "begin with a user")
        self.refused([self.HI, self.SO], "Expected last role")
        self.refused([{**self.HI, "cache_control": {}}], "Unrecognized")
        self.refused([{"role": "user", "content": [{"type": "input_text", "text": "x"}]}], "Invalid content type")
        self.refused([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "aGk="}}]}], "valid URL")
        self.refused([{"role": "user", "content": [{"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk="}}]}], "filename")
        self.refused([self.HI], "max_tokens", max_tokens=5)
        self.refused([self.HI], "parallel_tool_calls", parallel_tool_calls=True)
        self.refused([self.HI], "stream_options", stream=False, stream_options={"include_usage": True})
        self.refused([self.HI], "function", tools=[{"type": "function", "name": "look"}])
        self.fm.set_script({"dialect": "mistral"})
        self.accepted([self.HI, self.called("aB3456789"), self.output("aB3456789")])
        self.refused([self.HI, self.called("call_6789"), self.output("call_6789")], "length of 9")
        self.refused([self.HI], "stream_options", stream_options={"include_usage": True})

    def test_a_bad_image_is_named_by_its_position(self):
        self.fm.set_script({"bad_image": "BADBAD"})
        status, body = self.ask([self.HI, self.SO, {"role": "user", "content": [{"type": "image_url", "image_url": {"url": image("BADBADaa")}}]}])
        self.assertEqual((status, json.loads(body)["error"]["param"]), (400, "messages[2].content[0].image_url"))


class Neutral(unittest.TestCase):
    """One script, three protocols."""

    def streams(self, reply, **script):
        with FakeModel({"rules": [{"reply": reply}], **script}) as fm:
            for path, body in (("/v1/messages", {"messages": [user("hi")], "max_tokens": 9}), ("/v1/responses", {"input": "hi"}), ("/v1/chat/completions", {"messages": [Chat.HI]})):
                connection = http.client.HTTPConnection(fm.host, fm.port, timeout=10)
                connection.request("POST", path, json.dumps({"model": "m", "stream": True, **body}), HEADERS)
                response = connection.getresponse()
                try:
                    yield response.status, response.read().decode()
                except http.client.IncompleteRead as cut:
                    yield "cut", cut.partial.decode()
                finally:
                    connection.close()

    def test_a_cut_after_so_much_text(self):
        for how, text in self.streams({"text": "abcdefghij" * 5, "chunk": 10, "cut": {"text": 30, "how": "fin"}}):
            self.assertEqual((how, text.count("abcdefghij")), ("cut", 3), text)

    def test_a_cut_within_arguments(self):
        for how, text in self.streams({"calls": [{"name": "look", "input": {"id": "0123456789" * 5}}], "chunk": 7, "cut": {"arguments": 20, "how": "fin"}}):
            self.assertEqual(how, "cut")
            self.assertIn("look", text)
            self.assertNotIn("0123456789" * 3, text)

    def test_errors_in_the_providers_form(self):
        for word, wanted in (("overloaded", [529, 503, 503]), ("rate_limit", [429] * 3), ("money", [402, 429, 402]), ("no_model", [404] * 3), ("key", [401] * 3)):
            got = list(self.streams({"fails": word, "message": "sorry"}))
            self.assertEqual([status for status, _ in got], wanted)
            self.assertEqual([json.loads(body)["error"]["message"] for _, body in got], ["sorry"] * 3)

    def test_errors_in_band(self):
        ends = ["event: error", "response.failed", '"error"']
        for (status, text), end in zip(self.streams({"text": "abcdefghij" * 5, "chunk": 10, "in_band": {"text": 20, "fails": "overloaded", "message": "sorry"}}), ends):
            self.assertEqual((status, text.count("abcdefghij")), (200, 2))
            self.assertIn("sorry", text)
            self.assertIn(end, text)

    def test_ends(self):
        for stop, words in (("max_output", ["max_tokens", "max_output_tokens", "length"]), ("refused", ["refusal", "response.refusal.delta", '"refusal": "a']), (None, ["null", "in_progress", "null"])):
            for (_, text), word in zip(self.streams({"text": "abc", "stop": stop}), words):
                self.assertIn(word, text)
                self.assertFalse(stop is None and ("[DONE]" in text or "response.completed" in text))

    def test_the_limit_and_the_key(self):
        self.assertEqual([status for status, _ in self.streams({"text": "x"}, key="sk-right")], [401] * 3)
        self.assertEqual([status for status, _ in self.streams({"text": "x"}, limit_tokens=1)], [400] * 3)


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
