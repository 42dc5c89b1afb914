#!/usr/bin/env python3
"""FM: a strict fake model server that speaks Anthropic Messages.

Python's standard library only. HTTP/1.1, keep-alive, answers streamed as server-sent events.

    fake_model.py --port 0 --script FILE --log FILE      prints "port N" when it listens

    with FakeModel(script) as fm:                         the same, in a thread of a test
        ... fm.url, fm.requests, fm.wait(lambda fm: len(fm.requests) == 2) ...

THE SCRIPT is JSON: a list of rules, or {"rules": [...], and any of
    "strict": true        answer 400 as the provider does (below); false: take anything that is JSON
    "key": "sk-..."       the only key accepted, others are 401
    "limit_tokens": 0     more than this (characters / 4) is "prompt is too long"; 0: no limit
    "marker": REGEX       what names a session in a request body; its first group, or the whole match.
                          Default: marker:([A-Za-z0-9_.-]+). No match: ""}

A rule is {"when": {...}, "reply": {...}} or {"when": ..., "replies": [r1, r2, ...]} (in turn; the last repeats).
The first rule whose matchers all hold answers; none: a text that says so. Matchers, all optional:
    "call": n             the n-th request accepted by this server, from 1
    "session_call": n     the n-th of its marker
    "contains": TEXT      anywhere in the body
    "last": TEXT          in the last message
    "turn": TEXT          in the last message that holds text of a person
    "role": user | tool   tool: the last message holds a tool_result
    "tool_result": NAME   ... of a call of this tool; true: of any
    "is_error": BOOL      ... one that is (not) an error
    "tool_results": n     messages with tool results since the person last spoke
    "model": TEXT         the model asked for
    "marker": TEXT        the marker is exactly this
    "times": n            the rule answers n times at most

A reply is made of content:
    "thinking": TEXT, "text": TEXT, "calls": [{"name", "input": {...}, "id"?}]     in this order, or
    "blocks": [{"thinking": T, "signature"?: S} | {"redacted": DATA} | {"text": T} |
               {"tool_use": NAME, "input": {...}, "id"?: ID, "json"?: RAW TEXT, "open"?: true} | {"raw": BLOCK}]
                          open: the block's end is not sent, as when max_tokens cuts it
    "stop": REASON        default tool_use when there are calls, else end_turn; null: none is sent
    "stop_sequence", "stop_details", "usage": {...}, "message_id", "model"
  In texts {{last}} is the text of the last message, {{n}} the number of this request, {{marker}} its marker.
of pacing:
    "delay": s            before the head          "chunk": n     characters in a delta (20)
    "write": n            bytes in a write         "pace": s      before each event
    "newline": "\\r\\n"     between lines             "ascii": true  \\uXXXX escapes, lone surrogates too
    "stall": {"after": k events, "for": s, "ping": s}      silence, or pings only
of breakage:
    "cut": {"after": n bytes of the body, "how": "rst" | "fin"}
    "in_band": {"after": k events, "type", "message"}      an error event, then the end
    "unfinished": true    no message_stop at the end
    "status": 529, "headers": {...}, "error": {"type", "message", "details"?} or "body": TEXT      an HTTP error
or of something else whole:
    "file": PATH          a recorded body, with "write"
    "body": TEXT, "content_type": TEXT
    "json": true          one JSON object although a stream was asked for

STRICT answers 400 invalid_request_error to: a tool_use without its result in the next message, an orphan or repeated
tool_result, a result after text, a repeated tool_use id, an id outside ^[a-zA-Z0-9_-]+$, an input that is no object,
thinking changed, forged or left out of the tool loop it belongs to, blank text, lone surrogates, NUL, bytes that are
not UTF-8, more than four cache_control, one on thinking, a first message that is not the user's, a last one that is
the assistant's (unless it paused in a server tool), a server tool use that nothing answers, members it does not know,
too many tokens. It remembers what it sent: signatures, and which thinking belongs to which calls.

THE LOG is JSON lines; nothing is redacted, so that tests can look for canaries:
    {"event": "request", "n", "at", "marker", "concurrent", "extends", "headers", "body"}
        concurrent: requests of this marker open now, this one included; extends: the body begins with the marker's
        last conversation (a stable prefix)
    {"event": "refused", "n", "status", "message"}
    {"event": "end", "n", "at", "how": "whole" | "cut" | "client_closed" | "error", "bytes"}

GET /_fm/stats answers {"requests", "refused", "open", "max_concurrent": {marker: n}}; POST /_fm/script replaces the
script, keeping what is remembered.
"""
import argparse
import asyncio
import json
import re
import socket
import struct
import sys
import threading
import time

ID = re.compile(r"^[a-zA-Z0-9_-]+$")
TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
TOP_LEVEL = {"model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking", "output_config",
             "cache_control", "metadata", "stop_sequences", "stream", "service_tier", "temperature", "top_p", "top_k",
             "container", "context_management", "mcp_servers", "inference_geo", "speed"}
MEMBERS = {
    "text": {"type", "text", "citations", "cache_control"},
    "tool_use": {"type", "id", "name", "input", "caller", "toolset_name", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"type", "thinking", "signature", "cache_control"},
    "redacted_thinking": {"type", "data", "cache_control"},
}


class Refusal(Exception):
    """An answer that is not 2xx."""

    def __init__(self, message, status=400, kind="invalid_request_error", headers=None, details=None):
        super().__init__(message)
        self.status, self.kind, self.headers, self.details = status, kind, headers or {}, details

    def body(self):
        error = {"type": self.kind, "message": str(self)}
        if self.details:
            error["details"] = self.details
        return json.dumps({"type": "error", "error": error, "request_id": "req_fm"}).encode()


def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def blocks_of(message):
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text_of(message):
    """All that a message says, tool results included."""
    parts = []
    for block in blocks_of(message):
        if block.get("type") == "text":
            parts.append(block.get("text", ""))
        elif block.get("type") == "tool_result":
            content = block.get("content", "")
            parts.append(content if isinstance(content, str)
                         else "".join(b.get("text", "") for b in content))
    return "".join(parts)


def results_of(message):
    if message["role"] != "user":
        return []
    return [b for b in blocks_of(message) if b.get("type") == "tool_result"]


# --- What a strict provider refuses ---------------------------------------------------------------


class Strict:
    """The provider's checks, and its memory of what it signed."""

    def __init__(self):
        self.signed = {}  # signature → the block as it was sent
        self.loops = {}   # model and calls → thinking blocks sent with them

    def remember(self, model, blocks):
        thinking = [b for b in blocks if b["type"] == "redacted_thinking" or b.get("signature")]  # unsigned: worth nothing
        for block in thinking:
            self.signed[block.get("signature") or block.get("data")] = canonical(block)
        calls = [b for b in blocks if b["type"] == "tool_use"]
        if calls:
            self.loops[self.loop_key(model, calls)] = [canonical(b) for b in thinking]

    @staticmethod
    def loop_key(model, calls):
        return canonical([model, [[c.get("name"), c.get("input")] for c in calls]])

    def check(self, body, limit_tokens):
        self.check_strings(body, "body")
        self.check_top(body)
        messages = body["messages"]
        self.check_cache(body)
        for i, message in enumerate(messages):
            self.check_message(i, message, last=i == len(messages) - 1)
        merged = self.merge(messages)
        if merged[0]["role"] != "user":
            raise Refusal("messages: first message must use the \"user\" role")
        self.check_pairs(merged)
        self.check_servers(merged)
        self.check_end(merged)
        self.check_loop(body["model"], merged)
        tokens = len(json.dumps([body.get("system"), body.get("tools"), messages], ensure_ascii=False)) // 4
        if limit_tokens and tokens > limit_tokens:
            raise Refusal("prompt is too long: %d tokens > %d maximum" % (tokens, limit_tokens),
                          headers={"x-should-retry": "false"})

    def check_strings(self, value, where):
        """No NUL and no lone surrogate anywhere, keys included."""
        if isinstance(value, str):
            if "\0" in value:
                raise Refusal("%s: strings must not contain null bytes" % where)
            if any(0xD800 <= ord(c) <= 0xDFFF for c in value):
                raise Refusal("%s: no low surrogate in string" % where)
        elif isinstance(value, dict):
            for key, member in value.items():
                self.check_strings(key, where)
                self.check_strings(member, where + "." + key)
        elif isinstance(value, list):
            for i, member in enumerate(value):
                self.check_strings(member, "%s.%d" % (where, i))

    @staticmethod
    def check_top(body):
        for key in body:
            if key not in TOP_LEVEL:
                raise Refusal("%s: Extra inputs are not permitted" % key)
        for key in ("model", "max_tokens", "messages"):
            if key not in body:
                raise Refusal("%s: Field required" % key)
        if not isinstance(body["max_tokens"], int) or isinstance(body["max_tokens"], bool) or body["max_tokens"] < 1:
            raise Refusal("max_tokens: must be greater than or equal to 1")
        if not isinstance(body["messages"], list) or not body["messages"]:
            raise Refusal("messages: at least one message is required")
        names = set()
        for i, tool in enumerate(body.get("tools", [])):
            if "type" not in tool or tool["type"] == "custom":
                if not TOOL_NAME.match(tool.get("name", "")):
                    raise Refusal("tools.%d.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'" % i)
                if not isinstance(tool.get("input_schema"), dict) or tool["input_schema"].get("type") != "object":
                    raise Refusal("tools.%d.input_schema.type: Field required" % i)
            if tool.get("name") in names:
                raise Refusal("tools: Tool names must be unique.")
            names.add(tool.get("name"))
        system = body.get("system", [])
        for i, block in enumerate([{"type": "text", "text": system}] if isinstance(system, str) else system):
            if not block.get("text", "").strip():
                raise Refusal("system.%d: text content blocks must be non-empty" % i)

    @staticmethod
    def check_cache(body):
        holders = []
        if isinstance(body.get("system"), list):
            holders += body["system"]
        holders += body.get("tools", [])
        for message in body["messages"]:
            if not isinstance(message, dict) or not isinstance(message.get("content"), (str, list)):
                continue
            for block in blocks_of(message):
                if isinstance(block, dict) and "cache_control" in block:
                    if block.get("type") in ("thinking", "redacted_thinking"):
                        raise Refusal("messages: cache_control cannot be set for thinking blocks")
                    holders.append(block)
        count = sum("cache_control" in h for h in holders) + ("cache_control" in body)
        if count > 4:
            raise Refusal("A maximum of 4 blocks with cache_control may be provided. Found %d." % count)

    def check_message(self, i, message, last):
        if not isinstance(message, dict) or set(message) - {"role", "content"}:
            raise Refusal("messages.%d: Extra inputs are not permitted" % i)
        if message.get("role") not in ("user", "assistant"):
            raise Refusal("messages.%d.role: Input should be 'user' or 'assistant'" % i)
        if not isinstance(message.get("content"), (str, list)):
            raise Refusal("messages.%d.content: Field required" % i)
        if not message["content"] and not (last and message["role"] == "assistant"):
            raise Refusal("messages.%d: all messages must have non-empty content" % i)
        for k, block in enumerate(blocks_of(message)):
            self.check_block("messages.%d.content.%d" % (i, k), block, message["role"])

    def check_block(self, where, block, role):
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            raise Refusal("%s.type: Field required" % where)
        extra = set(block) - MEMBERS.get(kind, set(block))
        if extra:
            raise Refusal("%s.%s.%s: Extra inputs are not permitted" % (where, kind, sorted(extra)[0]))
        if kind == "text":
            if not block.get("text"):
                raise Refusal("messages: text content blocks must be non-empty")
            if not block["text"].strip():
                raise Refusal("messages: text content blocks must contain non-whitespace text")
        elif kind == "tool_use":
            if role != "assistant":
                raise Refusal("%s: `tool_use` blocks can only be in `assistant` messages" % where)
            if not ID.match(block.get("id", "")):
                raise Refusal("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'" % where)
            if not isinstance(block.get("input"), dict):
                raise Refusal("%s.tool_use.input: Input should be a valid dictionary" % where)
        elif kind == "tool_result":
            if role != "user":
                raise Refusal("%s: `tool_result` blocks can only be in `user` messages" % where)
            if not ID.match(block.get("tool_use_id", "")):
                raise Refusal("%s.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'" % where)
            self.check_result(where, block)
        elif kind in ("thinking", "redacted_thinking"):
            self.check_thinking(where, block, role)

    @staticmethod
    def check_result(where, block):
        content = block.get("content", "x")
        if isinstance(content, list):
            for part in content:
                if part.get("type") == "text" and not part.get("text", "").strip():
                    raise Refusal("%s.content: text content blocks must be non-empty" % where)
        elif not isinstance(content, str):
            raise Refusal("%s.tool_result.content: Input should be a valid string" % where)
        if not isinstance(block.get("is_error", False), bool):
            raise Refusal("%s.tool_result.is_error: Input should be a valid boolean" % where)

    def check_thinking(self, where, block, role):
        if role != "assistant":
            raise Refusal("%s: thinking blocks can only be in `assistant` messages" % where)
        seal = block.get("signature") or block.get("data")
        if not seal:
            raise Refusal("%s.thinking.signature: Field required" % where)
        if seal not in self.signed:
            raise Refusal("%s: Invalid `signature` in `thinking` block" % where)
        bare = {k: v for k, v in block.items() if k != "cache_control"}
        if self.signed[seal] != canonical(bare):
            raise Refusal("%s: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
                          "modified. These blocks must remain as they were in the original response." % where)

    @staticmethod
    def merge(messages):
        """Neighbours of one role are one message."""
        merged = []
        for message in messages:
            if merged and merged[-1]["role"] == message["role"]:
                merged[-1]["content"] = merged[-1]["content"] + blocks_of(message)
            else:
                merged.append({"role": message["role"], "content": list(blocks_of(message))})
        return merged

    @staticmethod
    def check_pairs(merged):
        seen = set()
        for i, message in enumerate(merged):
            calls = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
            for call in calls:
                if call in seen:
                    raise Refusal("messages.%d: `tool_use` ids must be unique" % i)
                seen.add(call)
            results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
            before = merged[i - 1]["content"] if i else []
            asked = [b["id"] for b in before if b["type"] == "tool_use"]
            for result in results:
                if result not in asked:
                    raise Refusal("messages.%d.content: unexpected `tool_use_id` found in `tool_result` blocks: %s. "
                                  "Each `tool_result` block must have a corresponding `tool_use` block in the "
                                  "previous message." % (i, result))
            if len(set(results)) != len(results):
                raise Refusal("messages.%d.content: each tool_use must have a single result. Found multiple "
                              "`tool_result` blocks" % i)
            if results and [b["type"] for b in message["content"][:len(results)]] != ["tool_result"] * len(results):
                raise Refusal("messages.%d.content: `tool_result` blocks must come first" % i)
            after = merged[i + 1]["content"] if i + 1 < len(merged) else []
            answered = {b["tool_use_id"] for b in after if b["type"] == "tool_result"}
            missing = [c for c in calls if c not in answered]
            if missing:
                raise Refusal("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: "
                              "%s. Each `tool_use` block must have a corresponding `tool_result` block in the next "
                              "message." % (i, ", ".join(missing)))

    @staticmethod
    def check_servers(merged):
        answered = {b.get("tool_use_id") for m in merged if m["role"] == "assistant" for b in m["content"]
                    if b["type"].endswith("_tool_result")}
        used = set()
        for i, message in enumerate(merged):
            if message["role"] != "assistant":
                continue
            rest = [b for m in merged[i + 1:] if m["role"] == "user" for b in m["content"]]
            waits = all(b["type"] == "tool_result" for b in rest)
            for block in message["content"]:
                if block["type"].endswith("_tool_use"):
                    used.add(block.get("id"))
                    if block.get("id") not in answered and not waits:
                        raise Refusal("messages.%d: `%s` block without its result: %s" %
                                      (i, block["type"], block.get("id")))
                elif block["type"].endswith("_tool_result") and block.get("tool_use_id") not in used:
                    raise Refusal("messages.%d: `%s` block without its use: %s" %
                                  (i, block["type"], block.get("tool_use_id")))

    @staticmethod
    def check_end(merged):
        last = merged[-1]
        if last["role"] == "assistant" and not (
                last["content"] and last["content"][-1]["type"].endswith(("_tool_use", "_tool_result"))):
            raise Refusal("This model does not support assistant message prefill. The conversation must end with a "
                          "user message.")

    def check_loop(self, model, merged):
        """In a tool loop the thinking sent with the calls comes back, complete and in order."""
        for message in reversed(merged):
            if message["role"] == "user":
                if not results_of(message):
                    return
                continue
            calls = [b for b in message["content"] if b["type"] == "tool_use"]
            sent = self.loops.get(self.loop_key(model, calls)) if calls else None
            echoed = [canonical(b) for b in message["content"] if b["type"] in ("thinking", "redacted_thinking")]
            if sent is not None and [b for b in echoed if b in sent] != sent:
                raise Refusal("Expected `thinking` or `redacted_thinking`, but found `tool_use`. The thinking of this "
                              "tool loop must come back complete, in order, unchanged.")
            return


# --- Making answers ---------------------------------------------------------------------------------


class Answer:
    """One reply of a script as events of a stream, or as one object."""

    def __init__(self, reply, request, number, marker):
        self.reply, self.request, self.number, self.marker = reply, request, number, marker
        self.last = text_of(request["messages"][-1]) if request.get("messages") else ""
        self.blocks = [self.block(b, k) for k, b in enumerate(self.parts())]

    def fill(self, text):
        return (text.replace("{{last}}", self.last).replace("{{n}}", str(self.number))
                .replace("{{marker}}", self.marker))

    def fill_all(self, value):
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, dict):
            return {k: self.fill_all(v) for k, v in value.items()}
        return [self.fill_all(v) for v in value] if isinstance(value, list) else value

    def parts(self):
        reply = self.reply
        if "blocks" in reply:
            return reply["blocks"]
        parts = []
        if "thinking" in reply:
            parts.append({"thinking": reply["thinking"]})
        if reply.get("text"):
            parts.append({"text": reply["text"]})
        for call in reply.get("calls", []):
            parts.append({"tool_use": call["name"], **{k: v for k, v in call.items() if k != "name"}})
        return parts

    def block(self, part, k):
        """The whole block, with what streams apart under keys that begin with a space."""
        if "thinking" in part:
            return {"type": "thinking", "thinking": self.fill(part["thinking"]),
                    "signature": part.get("signature", "fm+sig/%d.%d==" % (self.number, k))}
        if "redacted" in part:
            return {"type": "redacted_thinking", "data": part["redacted"]}
        if "text" in part:
            return {"type": "text", "text": self.fill(part["text"])}
        if "raw" in part:
            return {"signature": "", **part["raw"]} if part["raw"].get("type") == "thinking" else part["raw"]
        value = self.fill_all(part.get("input", {}))
        return {"type": "tool_use", "id": part.get("id", "toolu_fm_%d_%d" % (self.number, k)),
                "name": part["tool_use"], "input": value, " open": part.get("open", False),
                " json": part["json"] if "json" in part else ("" if value == {} else json.dumps(value))}

    def whole_blocks(self):
        return [{k: v for k, v in b.items() if not k.startswith(" ")} for b in self.blocks]

    def stop(self):
        if "stop" in self.reply:
            return self.reply["stop"]
        return "tool_use" if any(b["type"] == "tool_use" for b in self.blocks) else "end_turn"

    def usage(self):
        usage = {"input_tokens": len(json.dumps(self.request)) // 4, "cache_creation_input_tokens": 0,
                 "cache_read_input_tokens": 0, "output_tokens": max(1, len(json.dumps(self.whole_blocks())) // 4)}
        usage.update(self.reply.get("usage", {}))
        return usage

    def head(self):
        return {"id": self.reply.get("message_id", "msg_fm_%d" % self.number), "type": "message",
                "role": "assistant", "model": self.reply.get("model", self.request.get("model", "fm")),
                "content": [], "stop_reason": None, "stop_sequence": None}

    def message(self):
        return {**self.head(), "content": self.whole_blocks(), "stop_reason": self.stop(),
                "stop_sequence": self.reply.get("stop_sequence"), "usage": self.usage()}

    def events(self):
        usage = self.usage()
        yield {"type": "message_start", "message": {**self.head(), "usage": {**usage, "output_tokens": 1}}}
        for index, block in enumerate(self.blocks):
            yield from self.block_events(index, block)
        delta = {"stop_reason": self.stop(), "stop_sequence": self.reply.get("stop_sequence")}
        if "stop_details" in self.reply:
            delta["stop_details"] = self.reply["stop_details"]
        yield {"type": "message_delta", "delta": delta, "usage": usage}
        if not self.reply.get("unfinished"):
            yield {"type": "message_stop"}

    def block_events(self, index, block):
        kind, empty = block["type"], {k: v for k, v in block.items() if not k.startswith(" ")}
        deltas = []
        if kind == "text":
            empty["text"] = ""
            deltas = [{"type": "text_delta", "text": t} for t in self.pieces(block["text"])]
        elif kind == "thinking":
            empty["thinking"] = empty["signature"] = ""
            deltas = [{"type": "thinking_delta", "thinking": t} for t in self.pieces(block["thinking"])]
            deltas += [{"type": "signature_delta", "signature": block["signature"]}] if block["signature"] else []
        elif kind == "tool_use":
            empty["input"] = {}
            deltas = [{"type": "input_json_delta", "partial_json": ""}]
            deltas += [{"type": "input_json_delta", "partial_json": t} for t in self.pieces(block.get(" json", ""))]
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        if not block.get(" open"):
            yield {"type": "content_block_stop", "index": index}

    def pieces(self, text):
        size = self.reply.get("chunk", 20)
        return [text[i:i + size] for i in range(0, len(text), size)]

    @staticmethod
    def encode(event, reply=None):
        """With trailing blanks now and then, as the provider pads."""
        reply = reply or {}
        text = json.dumps(event, ensure_ascii=reply.get("ascii", False))
        lines = "event: %s\ndata: %s%s\n\n" % (event["type"], text, " " * (len(text) % 5))
        return lines.replace("\n", reply.get("newline", "\n")).encode()


def signed_blocks(stream):
    """The thinking and tool_use blocks of a recorded stream, so that their echo is known."""
    blocks = {}
    for line in stream.decode("utf-8", "replace").splitlines():
        if not line.startswith("data:"):
            continue
        try:
            event = json.loads(line[5:])
        except ValueError:
            continue
        block = blocks.get(event.get("index"))
        delta = event.get("delta", {})
        if event.get("type") == "content_block_start":
            blocks[event["index"]] = {**event["content_block"], " json": ""}
        elif block and delta.get("type") == "thinking_delta":
            block["thinking"] += delta["thinking"]
        elif block and delta.get("type") == "signature_delta":
            block["signature"] = delta["signature"]
        elif block and delta.get("type") == "input_json_delta":
            block[" json"] += delta["partial_json"]
    for block in blocks.values():
        try:
            block["input"] = json.loads(block[" json"]) if block[" json"] else block.get("input", {})
        except ValueError:
            block["input"] = {}
        del block[" json"]
        if block["type"] in ("thinking", "redacted_thinking"):
            block.pop("input", None)
    return list(blocks.values())


# --- The server --------------------------------------------------------------------------------------


class ClientClosed(Exception):
    pass


class Connection:
    """One client's connection: requests one after another."""

    def __init__(self, server, reader, writer):
        self.server, self.reader, self.writer = server, reader, writer
        self.sent = 0

    async def run(self):
        try:
            while await self.one_request():
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ClientClosed, ValueError):
            pass
        finally:
            self.writer.close()

    async def one_request(self):
        line = await self.reader.readline()
        if not line:
            return False
        method, path, _ = line.decode("latin-1").split(" ", 2)
        headers = {}
        while True:
            line = (await self.reader.readline()).decode("latin-1").rstrip("\r\n")
            if not line:
                break
            name, value = line.split(":", 1)
            headers[name.strip().lower()] = value.strip()
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        if path.startswith("/_fm/"):
            await self.serve_own(method, path, body)
            return True
        return await self.serve_model(method, path, headers, body)

    async def serve_own(self, method, path, body):
        if method == "POST" and path == "/_fm/script":
            self.server.set_script(json.loads(body))
        await self.whole(200, json.dumps(self.server.stats()).encode(), "application/json")

    async def serve_model(self, method, path, headers, body):
        server = self.server
        number, marker = server.admit(headers, body)
        how = "error"
        self.sent = 0
        try:
            reply, answer = server.answer(method, path, headers, body, number, marker)
            await self.pause(reply.get("delay", 0))
            how = await self.play(reply, answer)
        except Refusal as refusal:
            server.log({"event": "refused", "n": number, "status": refusal.status, "message": str(refusal)})
            server.refused.append((number, str(refusal)))
            await self.whole(refusal.status, refusal.body(), "application/json", refusal.headers)
        except (ConnectionError, ClientClosed):
            how = "client_closed"
        finally:
            server.leave(number, marker, how, self.sent)
        return how in ("whole", "error")

    async def pause(self, seconds):
        """Sleeps unless the client goes."""
        if seconds <= 0:
            return
        gone = asyncio.ensure_future(self.reader.read(1))
        done, _ = await asyncio.wait({gone}, timeout=seconds)
        if done:
            gone.exception()
            raise ClientClosed()
        gone.cancel()
        try:
            await gone
        except asyncio.CancelledError:
            pass

    async def send(self, data):
        if self.writer.is_closing() or self.reader.at_eof():
            raise ClientClosed()
        self.writer.write(data)
        await self.writer.drain()

    async def whole(self, status, body, content_type, headers=None):
        head = "HTTP/1.1 %d X\r\ncontent-type: %s\r\ncontent-length: %d\r\nrequest-id: req_fm\r\n" % (
            status, content_type, len(body))
        for name, value in (headers or {}).items():
            head += "%s: %s\r\n" % (name, value)
        await self.send(head.encode("latin-1") + b"\r\n" + body)

    async def play(self, reply, answer):
        if "status" in reply and "body" in reply:
            await self.whole(reply["status"], reply["body"].encode(), reply.get("content_type", "text/plain"),
                             reply.get("headers"))
            return "error"
        if "status" in reply:
            error = reply.get("error", {})
            raise Refusal(error.get("message", "scripted"), reply["status"], error.get("type", "api_error"),
                          reply.get("headers"), error.get("details"))
        if "body" in reply:
            await self.whole(200, reply["body"].encode(), reply.get("content_type", "text/plain"),
                             reply.get("headers"))
            return "whole"
        if reply.get("json"):
            await self.whole(200, json.dumps(answer.message()).encode(), "application/json", reply.get("headers"))
            return "whole"
        await self.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nrequest-id: req_fm\r\n"
                        b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n")
        if "file" in reply:
            with open(reply["file"], "rb") as file:
                pieces = [file.read()]
        else:
            pieces = [Answer.encode(e, reply) for e in answer.events()]
        for k, piece in enumerate(pieces):
            if "in_band" in reply and k == reply["in_band"].get("after", 0):
                error = {k: v for k, v in reply["in_band"].items() if k != "after"}
                await self.body(Answer.encode({"type": "error", "error": error}), reply)
                break
            if "stall" in reply and k == reply["stall"].get("after", 1):
                await self.stall(reply["stall"])
            await self.pause(reply.get("pace", 0))
            if await self.body(piece, reply) == "cut":
                return "cut"
        await self.send(b"0\r\n\r\n")
        return "whole"

    async def stall(self, stall):
        until = time.monotonic() + stall.get("for", 1)
        ping = stall.get("ping")
        while time.monotonic() < until:
            await self.pause(min(ping or 3600, max(0.001, until - time.monotonic())))
            if ping:
                await self.chunk(Answer.encode({"type": "ping"}))

    async def chunk(self, data):
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))
        self.sent += len(data)

    async def body(self, data, reply):
        cut = reply.get("cut")
        if cut and self.sent + len(data) >= cut.get("after", 0):
            data = data[:max(0, cut.get("after", 0) - self.sent)]
        size = reply.get("write") or len(data) or 1
        for i in range(0, len(data), size):
            await self.chunk(data[i:i + size])
            await asyncio.sleep(0)
        if cut and self.sent >= cut.get("after", 0):
            if cut.get("how", "rst") == "rst":
                self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                                                struct.pack("ii", 1, 0))
                self.writer.transport.abort()
            return "cut"
        return "sent"


class FakeModel:
    """The server. As a context manager it runs in a thread of its own."""

    def __init__(self, script=None, port=0, log_path=None, host="127.0.0.1"):
        self.host, self.port = host, port
        self.lock = threading.Condition()
        self.log_file = open(log_path, "a", encoding="utf-8", buffering=1) if log_path else None
        self.strict_memory = Strict()
        self.requests = []     # {"n", "marker", "concurrent", "extends", "headers", "body" (text), "json"}
        self.refused = []      # (n, message)
        self.ended = []        # {"n", "how", "bytes"}
        self.open = {}         # marker → requests open now
        self.max_concurrent = {}
        self.last_body = {}    # marker → body of its last request
        self.session_calls = {}
        self.accepted = 0
        self.set_script(script or [])
        self.loop = self.thread = self.server = None

    # What a script says.

    def set_script(self, script):
        self.script = {"rules": script} if isinstance(script, list) else dict(script)
        self.rules = [{"used": 0, **rule} for rule in self.script.get("rules", [])]
        self.marker = re.compile(self.script.get("marker", r"marker:([A-Za-z0-9_.-]+)"))

    def matches(self, rule, request, text, number, marker):
        when, messages = rule.get("when", {}), request["messages"]
        last = messages[-1]
        results = results_of(last)
        names = {b["id"]: b["name"] for m in messages if m["role"] == "assistant" for b in blocks_of(m)
                 if b.get("type") == "tool_use"}
        spoken = [text_of(m) for m in messages if m["role"] == "user" and not results_of(m)]
        answered = 0
        for message in reversed(messages):
            if message["role"] == "user" and not results_of(message):
                break
            answered += bool(results_of(message))
        tool = when.get("tool_result")
        return all([
            when.get("call", self.accepted) == self.accepted,
            when.get("session_call", self.session_calls[marker]) == self.session_calls[marker],
            when.get("contains", "") in text,
            when.get("last", "") in text_of(last),
            when.get("turn", "") in (spoken[-1] if spoken else ""),
            "role" not in when or (when["role"] == "tool") == bool(results),
            tool is None or (bool(results) if tool is True else
                             any(names.get(b["tool_use_id"]) == tool for b in results)),
            "is_error" not in when or any(b.get("is_error", False) == when["is_error"] for b in results),
            when.get("tool_results", answered) == answered,
            when.get("model", "") in request.get("model", ""),
            when.get("marker", marker) == marker,
            rule["used"] < when.get("times", sys.maxsize),
        ])

    def choose(self, request, text, number, marker):
        for rule in self.rules:
            if self.matches(rule, request, text, number, marker):
                replies = rule.get("replies") or [rule.get("reply", {"text": "ok"})]
                reply = replies[min(rule["used"], len(replies) - 1)]
                rule["used"] += 1
                return reply
        return {"text": "(no rule of the script matches)"}

    # What happens to a request.

    def admit(self, headers, body):
        text = body.decode("utf-8", "replace")
        found = self.marker.search(text)
        marker = (found.group(1) if found.re.groups else found.group(0)) if found else ""
        with self.lock:
            number = len(self.requests) + 1
            self.open[marker] = self.open.get(marker, 0) + 1
            self.max_concurrent[marker] = max(self.max_concurrent.get(marker, 0), self.open[marker])
            before = self.last_body.get(marker)
            entry = {"n": number, "at": time.time(), "marker": marker, "concurrent": self.open[marker],
                     "extends": before is None or body.startswith(re.sub(rb"\]\}\s*$", b"", before)),
                     "headers": headers, "body": text}
            self.last_body[marker] = body
            self.requests.append(entry)
            self.log({"event": "request", **entry})
            self.lock.notify_all()
        return number, marker

    def answer(self, method, path, headers, body, number, marker):
        if method != "POST" or path.split("?")[0] != "/v1/messages":
            raise Refusal("Not found", 404, "not_found_error")
        key = headers.get("x-api-key") or headers.get("authorization", "").replace("Bearer ", "", 1)
        if "key" in self.script and key != self.script["key"]:
            raise Refusal("invalid x-api-key", 401, "authentication_error")
        try:
            text = body.decode("utf-8")
            request = json.loads(text)
        except ValueError as error:
            raise Refusal("The request body is not valid JSON: %s" % error) from None
        if not isinstance(request, dict):
            raise Refusal("Input should be an object")
        self.requests[number - 1]["json"] = request
        if self.script.get("strict", True):
            if "anthropic-version" not in headers:
                raise Refusal("anthropic-version: header is required")
            if headers["anthropic-version"] >= "2026-10-21" and "temperature" in request:
                raise Refusal("temperature: Extra inputs are not permitted")
            self.strict_memory.check(request, self.script.get("limit_tokens", 0))
        self.accepted += 1
        self.session_calls[marker] = self.session_calls.get(marker, 0) + 1
        reply = self.choose(request, text, number, marker)
        if "file" in reply:
            with open(reply["file"], "rb") as file:
                self.strict_memory.remember(request["model"], signed_blocks(file.read()))
            return reply, None
        answer = Answer(reply, request, number, marker)
        self.strict_memory.remember(request["model"], answer.whole_blocks())
        return reply, answer

    def leave(self, number, marker, how, sent):
        with self.lock:
            self.open[marker] -= 1
            self.ended.append({"n": number, "how": how, "bytes": sent})
            self.log({"event": "end", "n": number, "at": time.time(), "how": how, "bytes": sent})
            self.lock.notify_all()

    def log(self, entry):
        if self.log_file:
            self.log_file.write(json.dumps(entry) + "\n")

    def stats(self):
        return {"requests": len(self.requests), "refused": self.refused, "open": sum(self.open.values()),
                "max_concurrent": self.max_concurrent}

    # Running.

    async def serve(self, ready=None):
        async def connected(reader, writer):
            await Connection(self, reader, writer).run()

        self.loop = asyncio.get_running_loop()
        self.server = await asyncio.start_server(connected, self.host, self.port, backlog=2048, limit=1 << 26)
        self.port = self.server.sockets[0].getsockname()[1]
        if ready:
            ready()
        async with self.server:
            try:
                await self.server.serve_forever()
            except asyncio.CancelledError:
                pass

    @property
    def url(self):
        return "http://%s:%d" % (self.host, self.port)

    def __enter__(self):
        ready = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.serve(ready.set)), daemon=True)
        self.thread.start()
        if not ready.wait(10):
            raise RuntimeError("the fake model does not start")
        return self

    def __exit__(self, *ignored):
        def stop():
            for task in asyncio.all_tasks(self.loop):
                task.cancel()

        self.loop.call_soon_threadsafe(stop)
        self.thread.join(10)
        if self.log_file:
            self.log_file.close()

    def wait(self, condition, timeout=30):
        """Waits until condition(self) holds; looks again after each request and each end."""
        with self.lock:
            if not self.lock.wait_for(lambda: condition(self), timeout):
                raise TimeoutError("the fake model never saw it; %d requests, refused: %s" %
                                   (len(self.requests), self.refused))


def main():
    parser = argparse.ArgumentParser(description="A strict fake model server (Anthropic Messages).")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", help="JSON file of rules; none: every answer says that no rule matches")
    parser.add_argument("--log", help="JSON lines, appended")
    options = parser.parse_args()
    script = []
    if options.script:
        with open(options.script, encoding="utf-8") as file:
            script = json.load(file)
    fake = FakeModel(script, options.port, options.log)
    try:
        asyncio.run(fake.serve(lambda: print("port %d" % fake.port, flush=True)))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
