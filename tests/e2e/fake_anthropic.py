"""The fake model's Anthropic Messages: POST /v1/messages."""
import json
import re

from fake_protocol import Answer, Protocol, Refusal, Said, canonical, family

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
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "title", "context", "citations", "cache_control"},
}
SOURCES = {"base64": {"type", "media_type", "data"}, "url": {"type", "url"}, "text": {"type", "media_type", "data"}}
IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}


def blocks_of(message):
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text_of(block):
    """What a block says."""
    if block.get("type") == "text":
        return block.get("text", "")
    if block.get("type") != "tool_result":
        return ""
    content = block.get("content", "")
    return content if isinstance(content, str) else "".join(b.get("text", "") for b in content)


def results_of(message):
    if message["role"] != "user":
        return []
    return [b for b in blocks_of(message) if b.get("type") == "tool_result"]


class Anthropic(Protocol):
    """The provider's checks, and its memory of what it signed."""

    name, path, conversation = "anthropic", "/v1/messages", "messages"
    fails = {"invalid": (400, "invalid_request_error", None), "key": (401, "authentication_error", None), "money": (402, "billing_error", None),
             "permission": (403, "permission_error", None), "no_model": (404, "not_found_error", None),
             "rate_limit": (429, "rate_limit_error", None), "server": (500, "api_error", None), "overloaded": (529, "overloaded_error", None)}

    def __init__(self):
        self.signed = {}  # signature → (family, the block as it was sent)
        self.loops = {}   # model and calls → thinking blocks sent with them

    # What a request says.

    def view(self, request):
        names = {b.get("id"): b.get("name") for m in request["messages"] for b in blocks_of(m) if b.get("type") == "tool_use"}
        said = []
        for message in request["messages"]:
            results = [{"name": names.get(b.get("tool_use_id")), "is_error": b.get("is_error", False), "text": text_of(b)} for b in results_of(message)]
            said.append(Said("tool" if results else message["role"], "".join(text_of(b) for b in blocks_of(message)), results))
        return said

    def pictures(self, request):
        for i, message in enumerate(request["messages"]):
            for k, block in enumerate(blocks_of(message)):
                if block.get("type") == "image":
                    yield "messages.%d.content.%d" % (i, k), block.get("source", {}).get("data", "")

    @staticmethod
    def bad_picture(where):
        return Refusal("%s.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes" % where)

    def bad_string(self, where, what):
        return Refusal("%s: %s" % (where, what))

    @staticmethod
    def inside(where, key):
        return where + "." + str(key) if where else str(key)

    def error_body(self, refusal):
        error = {"type": refusal.kind, "message": str(refusal)}
        if refusal.details:
            error["details"] = refusal.details
        return json.dumps({"type": "error", "error": error, "request_id": "req_fm"}).encode()

    # What it remembers.

    def answer(self, reply, request, number, marker, last):
        answer = AnthropicAnswer(reply, request, number, marker, last)
        self.remember(request["model"], answer.blocks)
        return answer

    def remember_recording(self, request, stream):
        self.remember(request["model"], signed_blocks(stream))

    def remember(self, model, blocks):
        thinking = [b for b in blocks if b["type"] == "redacted_thinking" or b.get("signature")]  # unsigned: worth nothing
        for block in thinking:
            self.signed[block.get("signature") or block.get("data")] = (family(model), canonical(block))
        calls = [b for b in blocks if b["type"] == "tool_use"]
        if calls:
            self.loops[self.loop_key(model, calls)] = [canonical(b) for b in thinking]

    @staticmethod
    def loop_key(model, calls):
        return canonical([family(model), [[c.get("name"), c.get("input")] for c in calls]])

    # What it refuses.

    def check(self, body, headers, script):
        if "anthropic-version" not in headers:
            raise Refusal("anthropic-version: header is required")
        if headers["anthropic-version"] >= "2026-10-21" and "temperature" in body:
            raise Refusal("temperature: Extra inputs are not permitted")
        self.check_strings(body)
        self.check_top(body)
        messages = body["messages"]
        self.check_cache(body)
        for i, message in enumerate(messages):
            self.check_message(i, message, body["model"], last=i == len(messages) - 1)
        merged = self.merge(messages)
        if merged[0]["role"] != "user":
            raise Refusal("messages: first message must use the \"user\" role")
        self.check_pairs(merged)
        self.check_servers(merged)
        self.check_end(merged)
        self.check_loop(body["model"], merged)
        tokens, limit = self.tokens(body.get("system"), body.get("tools"), messages), script.get("limit_tokens", 0)
        if limit and tokens > limit:
            raise Refusal("prompt is too long: %d tokens > %d maximum" % (tokens, limit), headers={"x-should-retry": "false"})

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

    def check_message(self, i, message, model, last):
        if not isinstance(message, dict) or set(message) - {"role", "content"}:
            raise Refusal("messages.%d: Extra inputs are not permitted" % i)
        if message.get("role") not in ("user", "assistant"):
            raise Refusal("messages.%d.role: Input should be 'user' or 'assistant'" % i)
        if not isinstance(message.get("content"), (str, list)):
            raise Refusal("messages.%d.content: Field required" % i)
        if not message["content"] and not (last and message["role"] == "assistant"):
            raise Refusal("messages.%d: all messages must have non-empty content" % i)
        for k, block in enumerate(blocks_of(message)):
            self.check_block("messages.%d.content.%d" % (i, k), block, message["role"], model)

    def check_block(self, where, block, role, model):
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            raise Refusal("%s.type: Field required" % where)
        if role == "user" and kind not in ("text", "image", "document", "tool_result"):
            raise Refusal("%s: Input tag '%s' found using 'type' does not match any of the expected tags" % (where, kind))
        extra = set(block) - MEMBERS.get(kind, set(block))
        if extra:
            raise Refusal("%s.%s.%s: Extra inputs are not permitted" % (where, kind, sorted(extra)[0]))
        if kind == "text":
            if not block.get("text"):
                raise Refusal("messages: text content blocks must be non-empty")
            if not block["text"].strip():
                raise Refusal("messages: text content blocks must contain non-whitespace text")
        elif kind == "tool_use":
            if not ID.match(block.get("id", "")):
                raise Refusal("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'" % where)
            if not TOOL_NAME.match(block.get("name", "")):
                raise Refusal("%s.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'" % where)
            if not isinstance(block.get("input"), dict):
                raise Refusal("%s.tool_use.input: Input should be a valid dictionary" % where)
        elif kind == "tool_result":
            if role != "user":
                raise Refusal("%s: `tool_result` blocks can only be in `user` messages" % where)
            if not ID.match(block.get("tool_use_id", "")):
                raise Refusal("%s.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'" % where)
            self.check_result(where, block)
        elif kind in ("thinking", "redacted_thinking"):
            self.check_thinking(where, block, role, model)
        elif kind in ("image", "document"):
            self.check_source(where, kind, block, role)

    @staticmethod
    def check_source(where, kind, block, role):
        if role != "user":
            raise Refusal("%s: `%s` blocks can only be in `user` messages" % (where, kind))
        source = block.get("source", {})
        members = SOURCES.get(source.get("type"))
        if not members or (kind == "image" and source["type"] == "text"):
            raise Refusal("%s.%s.source: Input tag '%s' found using 'type' does not match any of the expected tags" % (where, kind, source.get("type")))
        if set(source) != members:
            raise Refusal("%s.%s.source.%s: %s" % (where, kind, sorted(set(source) ^ members)[0], "Extra inputs are not permitted" if set(source) - members else "Field required"))
        if kind == "image" and source["type"] == "base64" and source["media_type"] not in IMAGES:
            raise Refusal("%s.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'" % where)
        if kind == "document" and source["type"] == "base64" and source["media_type"] != "application/pdf":
            raise Refusal("%s.document.source.base64.media_type: Input should be 'application/pdf'" % where)
        if kind == "document" and source["type"] == "text" and source["media_type"] != "text/plain":
            raise Refusal("%s.document.source.text.media_type: Input should be 'text/plain'" % where)

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

    def check_thinking(self, where, block, role, model):
        seal = block.get("signature") or block.get("data")
        if not seal:
            raise Refusal("%s.thinking.signature: Field required" % where)
        bound, sent = self.signed.get(seal, (None, None))
        if bound != family(model):
            raise Refusal("%s: Invalid `signature` in `thinking` block" % where)
        bare = {k: v for k, v in block.items() if k != "cache_control"}
        if sent != canonical(bare):
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


class AnthropicAnswer(Answer):
    stops = {"done": "end_turn", "tool_calls": "tool_use", "max_output": "max_tokens", "refused": "refusal", "filtered": "refusal",
             "paused": "pause_turn", "context_full": "model_context_window_exceeded"}
    call_prefix = "toolu_"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.blocks = [self.block(p) for p in self.parts]

    @staticmethod
    def block(part):
        """The whole block, as a message holds it."""
        if "thinking" in part:
            return {"type": "thinking", "thinking": part["thinking"], "signature": part["signature"]}
        if "redacted" in part:
            return {"type": "redacted_thinking", "data": part["redacted"]}
        if "text" in part or "refusal" in part:
            return {"type": "text", "text": part.get("text", part.get("refusal"))}
        if "raw" in part:
            return {"signature": "", **part["raw"]} if part["raw"].get("type") == "thinking" else part["raw"]
        return {"type": "tool_use", "id": part["id"], "name": part["call"], "input": part["input"]}

    def usage(self):
        """Scripted counts of one's own pass as they are."""
        counts = self.counts()
        cached = counts.pop("cached_tokens")
        del counts["reasoning_tokens"]
        return {"cache_creation_input_tokens": 0, "cache_read_input_tokens": cached, **counts}

    def head(self):
        return {"id": self.reply.get("message_id", "msg_fm_%d" % self.number), "type": "message",
                "role": "assistant", "model": self.model(), "content": [], "stop_reason": None, "stop_sequence": None}

    def whole(self):
        return {**self.head(), "content": self.blocks, "stop_reason": self.stop(),
                "stop_sequence": self.reply.get("stop_sequence"), "usage": self.usage()}

    def error(self, refusal):
        return self.encode({"type": "error", "error": {"type": refusal.kind, "message": str(refusal)}})

    def ping(self):
        return self.encode({"type": "ping"})

    def encode(self, event):
        return self.sse(event["type"], event)

    def events(self):
        shown = {"text": 0, "arguments": 0}
        for event in self.plain_events():
            delta = event.get("delta", {})
            shown["text"] += len(delta.get("text", ""))
            shown["arguments"] += len(delta.get("partial_json", ""))
            yield self.encode(event), dict(shown)

    def plain_events(self):
        usage = self.usage()
        yield {"type": "message_start", "message": {**self.head(), "usage": {**usage, "output_tokens": 1}}}
        for index, block in enumerate(self.blocks):
            yield from self.block_events(index, block, self.parts[index])
        delta = {"stop_reason": self.stop(), "stop_sequence": self.reply.get("stop_sequence")}
        if "stop_details" in self.reply:
            delta["stop_details"] = self.reply["stop_details"]
        yield {"type": "message_delta", "delta": delta, "usage": usage}
        if self.finished():
            yield {"type": "message_stop"}

    def block_events(self, index, block, part):
        kind, empty = block["type"], dict(block)
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
            deltas += [{"type": "input_json_delta", "partial_json": t} for t in self.pieces(part.get("json", ""))]
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        if not part.get("open"):
            yield {"type": "content_block_stop", "index": index}


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
