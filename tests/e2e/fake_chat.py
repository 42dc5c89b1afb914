"""The fake model's Chat Completions: POST /v1/chat/completions, as OpenAI's own server, DeepSeek, OpenRouter or Mistral would have it.

The script's "dialect" says whose: "openai" (ids of at most 40 characters, no reasoning in a request), "deepseek" (`reasoning_content`, to come
back within a tool loop), "openrouter" (`reasoning_details`, to come back unchanged), "mistral" (ids of nine letters and digits).
"""
import json
import re

from fake_protocol import Answer, Protocol, Refusal, Said, canonical, family, is_error_text

TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
TOP_LEVEL = {"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "max_completion_tokens", "max_tokens", "reasoning_effort",
             "verbosity", "response_format", "stop", "stream", "stream_options", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
             "safety_identifier", "user", "metadata", "store", "service_tier", "seed", "n", "temperature", "top_p", "frequency_penalty",
             "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "modalities", "web_search_options", "moderation"}
EXTRA = {"deepseek": {"thinking"}, "openrouter": {"reasoning", "provider", "usage", "include_reasoning"}, "mistral": {"random_seed", "safe_prompt", "prompt_mode"}}
REFUSED = {"openai": {"max_tokens"}, "deepseek": {"max_completion_tokens"}, "mistral": {"max_completion_tokens", "stream_options"}}
MEMBERS = {"system": {"role", "content", "name"}, "developer": {"role", "content", "name"}, "user": {"role", "content", "name"},
           "tool": {"role", "content", "tool_call_id"}, "assistant": {"role", "content", "name", "tool_calls", "refusal", "audio"}}
REASONING = {"deepseek": {"reasoning_content"}, "openrouter": {"reasoning", "reasoning_details"}}
BACK = {"deepseek": "reasoning_content", "openrouter": "reasoning_details"}  # what has to come back
IDS = {"mistral": (re.compile(r"^[a-zA-Z0-9]{9}$"), "Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.")}


def parts_of(message):
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def text_of(message):
    return "".join(p.get("text", "") for p in parts_of(message))


def calls_of(message):
    return message.get("tool_calls") or []


class Chat(Protocol):
    """The provider's checks, and its memory of the reasoning it gave."""

    name, path, conversation = "chat", "/v1/chat/completions", "messages"
    fails = {"invalid": (400, "invalid_request_error", None), "key": (401, "invalid_request_error", "invalid_api_key"),
             "money": (402, "insufficient_quota", "insufficient_quota"), "permission": (403, "permission_error", None),
             "no_model": (404, "invalid_request_error", "model_not_found"), "rate_limit": (429, "requests", "rate_limit_exceeded"),
             "server": (500, "server_error", None), "overloaded": (503, "server_error", "server_is_overloaded")}

    def __init__(self, dialect="openai"):
        self.given = {}    # the reasoning of a message → families it was given by
        self.loops = {}    # family and calls → the reasoning that came with them
        self.dialect = dialect

    # What a request says.

    def view(self, request):
        names = {c.get("id"): c.get("function", {}).get("name") for m in request["messages"] for c in calls_of(m)}
        said = []
        for message in request["messages"]:
            text = text_of(message)
            if message["role"] == "tool":
                if not said or said[-1].role != "tool":
                    said.append(Said("tool"))
                said[-1].add(text, [{"name": names.get(message.get("tool_call_id")), "is_error": is_error_text(text), "text": text}])
            else:
                said.append(Said(message["role"], text))
        return said

    def pictures(self, request):
        for i, message in enumerate(request["messages"]):
            for k, part in enumerate(parts_of(message)):
                if part.get("type") == "image_url":
                    yield "messages[%d].content[%d].image_url" % (i, k), part["image_url"].get("url", "")

    @staticmethod
    def bad_picture(where):
        return Refusal("Invalid '%s'. You uploaded an unsupported image. Please make sure your image is valid." % where, code="invalid_image_format", param=where)

    def error_body(self, refusal):
        if self.dialect == "mistral":
            return json.dumps({"object": "error", "message": str(refusal), "type": refusal.kind, "param": None, "code": refusal.code}).encode()
        return json.dumps({"error": {"message": str(refusal), "type": refusal.kind, "param": refusal.param,
                                     "code": refusal.code or (refusal.details or {}).get("error_code")}}).encode()

    # What it remembers.

    def answer(self, reply, request, number, marker, last):
        answer = ChatAnswer(self.dialect, reply, request, number, marker, last)
        message = answer.message()
        given = self.reasoning(message)
        if given:
            self.given.setdefault(canonical(given), set()).add(family(request["model"]))
        if calls_of(message):
            self.loops[self.loop_key(request["model"], message)] = given
        return answer

    def remember_recording(self, request, stream):
        """Recordings are played to see how they are read; their reasoning never has to come back."""

    def reasoning(self, message):
        return message.get(BACK.get(self.dialect))

    @staticmethod
    def loop_key(model, message):
        def arguments(call):
            try:
                return json.loads(call["function"]["arguments"] or "{}")
            except ValueError:
                return {}
        return canonical([family(model), [[c["function"]["name"], arguments(c)] for c in calls_of(message)]])

    # What it refuses.

    def check(self, body, headers, script):
        self.check_strings(body)
        self.check_top(body)
        messages = body["messages"]
        for i, message in enumerate(messages):
            self.check_message("messages[%d]" % i, message)
        self.check_order(messages)
        self.check_pairs(messages)
        self.check_loop(body["model"], messages)
        tokens, limit = self.tokens(body.get("tools"), messages), script.get("limit_tokens", 0)
        if limit and tokens > limit:
            raise Refusal("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the "
                          "messages." % (limit, tokens), code="context_length_exceeded", param="messages")

    def check_top(self, body):
        for key in body:
            if key not in (TOP_LEVEL | EXTRA.get(self.dialect, set())) - REFUSED.get(self.dialect, set()):
                raise Refusal("Unrecognized request argument supplied: %s" % key, code="unknown_parameter", param=key)
        for key in ("model", "messages"):
            if not body.get(key):
                raise Refusal("Missing required parameter: '%s'." % key, code="missing_required_parameter", param=key)
        if not body.get("tools"):
            if "tools" in body:
                raise Refusal("Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.", code="empty_array", param="tools")
            for key in ("parallel_tool_calls", "tool_choice"):
                if key in body:
                    raise Refusal("Invalid value for '%s': '%s' is only allowed when 'tools' are specified." % (key, key), param=key)
        if "stream_options" in body and not body.get("stream"):
            raise Refusal("The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options")
        self.check_tools(body)

    @staticmethod
    def check_tools(body):
        names = set()
        for i, tool in enumerate(body.get("tools", [])):
            where = "tools[%d]" % i
            function = tool.get("function")
            if tool.get("type") != "function" or not isinstance(function, dict) or set(tool) != {"type", "function"}:
                raise Refusal("Missing required parameter: '%s.function'." % where, code="missing_required_parameter", param=where + ".function")
            extra = set(function) - {"name", "description", "parameters", "strict"}
            if extra:
                raise Refusal("Unknown parameter: '%s.function.%s'." % (where, sorted(extra)[0]), code="unknown_parameter", param=where)
            if not TOOL_NAME.match(function.get("name") or "") or function["name"] in names:
                raise Refusal("Invalid '%s.function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$', once." % where,
                              code="invalid_value", param=where + ".function.name")
            names.add(function["name"])
            if "parameters" in function and function["parameters"].get("type") != "object":
                raise Refusal("Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"'." % function["name"],
                              code="invalid_function_parameters", param=where + ".function.parameters")

    def check_message(self, where, message):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in MEMBERS:
            raise Refusal("Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'." % role,
                          code="invalid_value", param=where + ".role")
        extra = set(message) - MEMBERS[role] - (REASONING.get(self.dialect, set()) if role == "assistant" else set())
        if extra:
            raise Refusal("Unrecognized request argument supplied: %s.%s" % (where, sorted(extra)[0]), code="unknown_parameter", param=where)
        if role == "assistant" and "tool_calls" in message:
            if not message["tool_calls"]:
                raise Refusal("Invalid '%s.tool_calls': empty array." % where, code="empty_array", param=where + ".tool_calls")
            for k, call in enumerate(message["tool_calls"]):
                self.check_call("%s.tool_calls[%d]" % (where, k), call)
        self.check_content(where, message, may_be_empty=role == "tool" or bool(calls_of(message)))
        if role == "tool":
            self.check_id(where + ".tool_call_id", message.get("tool_call_id"))

    def check_content(self, where, message, may_be_empty):
        content = message.get("content")
        if content in (None, "") and may_be_empty:
            return
        if content is None:
            raise Refusal("Invalid value for 'content': expected a string, got null.", param=where + ".content")
        if not content or not isinstance(content, (str, list)):
            raise Refusal("Invalid '%s.content': empty string." % where, code="empty_string", param=where + ".content")
        for k, part in enumerate(parts_of(message)):
            self.check_part("%s.content[%d]" % (where, k), part, message["role"])

    @staticmethod
    def check_part(where, part, role):
        kind = part.get("type")
        members = {"text": {"type", "text", "cache_control"}, "image_url": {"type", "image_url"}, "file": {"type", "file"}, "input_audio": {"type", "input_audio"},
                   "refusal": {"type", "refusal"}}.get(kind)
        if not members or set(part) - members or (kind in ("image_url", "file", "input_audio") and role != "user") or (kind == "refusal" and role != "assistant"):
            raise Refusal("Invalid content type in '%s'. %s messages do not take '%s' so." % (where, role, kind), code="invalid_value", param=where)
        if kind == "text" and not part.get("text", "").strip() and role != "tool":
            raise Refusal("Invalid '%s.text': empty string." % where, code="empty_string", param=where)
        if kind == "image_url" and not re.match(r"(https?://|data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$)", part["image_url"].get("url") or ""):
            raise Refusal("Invalid '%s.image_url'. Expected a valid URL, but got a value with an invalid format." % where, code="invalid_image_url", param=where)
        if kind == "file" and "file_id" not in part["file"] and (
                set(part["file"]) != {"filename", "file_data"} or not re.match(r"data:[a-z]+/[a-z0-9.+-]+;base64,[A-Za-z0-9+/=]+$", part["file"]["file_data"])):
            raise Refusal("Invalid '%s.file'. Expected a filename and a base64-encoded data URL." % where, code="invalid_value", param=where)

    def check_id(self, where, value):
        form, words = IDS.get(self.dialect, (re.compile(r"^.{1,40}$", re.S), None))
        if not isinstance(value, str) or not form.match(value):
            raise Refusal(words % value if words else "Invalid '%s': string too long. Expected a string with maximum length 40, but got a string with length %d instead."
                          % (where, len(value or "")), code="string_above_max_length", param=where)

    def check_call(self, where, call):
        function = call.get("function")
        if call.get("type", "function") != "function" or not isinstance(function, dict) or set(call) - {"id", "type", "function"} or set(function) != {"name", "arguments"}:
            raise Refusal("Invalid '%s': expected an id, a type and a function with name and arguments." % where, param=where)
        self.check_id(where + ".id", call.get("id"))
        if not TOOL_NAME.match(function["name"] or ""):
            raise Refusal("Invalid '%s.function.name': string does not match pattern." % where, code="invalid_value", param=where)
        if not isinstance(function["arguments"], str):
            raise Refusal("Invalid type for '%s.function.arguments': expected a string, but got an object instead." % where, code="invalid_type", param=where)
        try:
            whole = isinstance(json.loads(function["arguments"]), dict)
        except ValueError:
            whole = False
        if not whole:
            raise Refusal("invalid tool call arguments", param=where + ".function.arguments")

    def check_order(self, messages):
        rest = [m["role"] for m in messages]
        while rest and rest[0] in ("system", "developer"):
            del rest[0]
        if not rest or rest[0] != "user" or (self.dialect == "mistral" and set(rest) & {"system", "developer"}):
            raise Refusal("Expected the conversation to begin with a user's message, after the system's.", param="messages", code="invalid_request_message_order")
        if rest[-1] == "assistant":
            raise Refusal("Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant", param="messages", code="invalid_request_message_order")

    @staticmethod
    def check_pairs(messages):
        seen = set()
        for i, message in enumerate(messages):
            ids = [c["id"] for c in calls_of(message)]
            for one in ids:
                if one in seen:
                    raise Refusal("Duplicate value for 'tool_call_id' of '%s' in message with role 'assistant'." % one, param="messages[%d].tool_calls" % i)
                seen.add(one)
            answered, at = [], i + 1
            while at < len(messages) and messages[at]["role"] == "tool":
                answered.append(messages[at]["tool_call_id"])
                at += 1
            missing = [one for one in ids if one not in answered]
            if missing:
                raise Refusal("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following "
                              "tool_call_ids did not have response messages: %s" % ", ".join(missing), param="messages[%d].role" % at)
            if message["role"] == "tool":
                before = next((m for m in reversed(messages[:i]) if m["role"] != "tool"), {})
                if message["tool_call_id"] not in [c["id"] for c in calls_of(before)]:
                    raise Refusal("Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.", param="messages[%d].role" % i)
            if ids and len(set(answered)) != len(answered):
                raise Refusal("Duplicate value for 'tool_call_id' of '%s' in message with role 'tool'." % answered[0], param="messages[%d].tool_call_id" % i)

    def check_loop(self, model, messages):
        """Reasoning is what this server gave to this family; in a tool loop DeepSeek and OpenRouter want it back."""
        spoken = max([i for i, m in enumerate(messages) if m["role"] == "user"], default=-1)
        for i, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            echoed = self.reasoning(message)
            if echoed and family(model) not in self.given.get(canonical(echoed), ()):
                raise Refusal("Invalid reasoning in messages[%d]: it must be passed back unmodified, to the model that made it." % i, param="messages[%d]" % i)
            owed = self.loops.get(self.loop_key(model, message)) if i > spoken and calls_of(message) else None
            if owed and echoed != owed:
                raise Refusal("Missing `%s` field in the assistant message at message index %d. For more information, please refer to the guide on thinking "
                              "with tool calls." % (BACK[self.dialect], i), param="messages[%d]" % i)


class ChatAnswer(Answer):
    stops = {"done": "stop", "max_output": "length", "refused": "stop", "filtered": "content_filter", "context_full": "model_length"}

    def __init__(self, dialect, *arguments):
        super().__init__(*arguments)
        self.dialect = dialect

    def head(self):
        return {"id": self.reply.get("message_id", "chatcmpl-fm-%d" % self.number), "object": "chat.completion.chunk", "created": 1790000000, "model": self.model()}

    def refuses(self):
        return self.reply.get("stop") == "refused"

    def thoughts(self):
        return [p for p in self.parts if "thinking" in p or "redacted" in p]

    def detail(self, part, index):
        if "redacted" in part:
            return {"type": "reasoning.encrypted", "data": part["redacted"], "format": "anthropic-claude-v1", "index": index}
        return {"type": "reasoning.text", "text": part["thinking"], "signature": part["signature"], "format": "anthropic-claude-v1", "index": index}

    def message(self):
        """The whole message; its reasoning as the dialect has it."""
        text = "".join(p.get("text", p.get("refusal", "")) for p in self.parts)
        message = {"role": "assistant", "content": None if self.refuses() or not text else text, "refusal": text if self.refuses() else None}
        thought = "".join(p.get("thinking", "") for p in self.parts)
        if self.dialect == "deepseek" and thought:
            message["reasoning_content"] = thought
        elif self.dialect == "openrouter" and self.thoughts():
            message["reasoning"] = thought
            message["reasoning_details"] = [self.detail(p, i) for i, p in enumerate(self.thoughts())]
        calls = [{"id": p["id"], "type": "function", "function": {"name": p["call"], "arguments": p["json"] or "{}"}} for p in self.parts if "call" in p]
        if calls:
            message["tool_calls"] = calls
        return message

    def usage(self):
        counts = self.counts()
        return {"prompt_tokens": counts["input_tokens"], "completion_tokens": counts["output_tokens"], "total_tokens": counts["input_tokens"] + counts["output_tokens"],
                "prompt_tokens_details": {"cached_tokens": counts["cached_tokens"]}, "completion_tokens_details": {"reasoning_tokens": counts["reasoning_tokens"]}}

    def whole(self):
        return {**self.head(), "object": "chat.completion", "usage": self.usage(),
                "choices": [{"index": 0, "message": self.message(), "finish_reason": self.stop() or "stop"}]}

    def finished(self):
        return super().finished() and self.stop() is not None

    def error(self, refusal):
        """As vLLM and OpenRouter end a stream: an object with an error, then DONE."""
        return self.sse(None, {**self.head(), "error": {"message": str(refusal), "type": refusal.kind, "code": refusal.code or refusal.status}}) + self.sse(None, "[DONE]")

    def ping(self):
        return b": keep-alive\n\n"

    def events(self):
        shown = {"text": 0, "arguments": 0}
        for delta in self.deltas():
            shown["text"] += len(delta.get("content") or delta.get("refusal") or "")
            shown["arguments"] += sum(len(c["function"].get("arguments", "")) for c in delta.get("tool_calls", []))
            yield self.chunk(delta), dict(shown)
        if not self.finished():
            return
        yield self.chunk({}, self.stop()), dict(shown)
        if self.dialect == "mistral" or (self.request.get("stream_options") or {}).get("include_usage"):
            yield self.sse(None, {**self.head(), "choices": [], "usage": self.usage()}), dict(shown)
        yield self.sse(None, "[DONE]"), dict(shown)

    def chunk(self, delta, finish=None):
        return self.sse(None, {**self.head(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None})

    def deltas(self):
        yield {"role": "assistant", "content": ""}
        calls = thoughts = 0
        for part in self.parts:
            if "call" in part:
                yield from self.call_deltas(part, calls)
                calls += 1
            elif "thinking" in part or "redacted" in part:
                yield from self.thought_deltas(part, thoughts)
                thoughts += 1
            elif "raw" in part:
                yield part["raw"]
            else:
                for piece in self.pieces(part.get("text", part.get("refusal", ""))):
                    yield {"refusal" if self.refuses() else "content": piece}

    def thought_deltas(self, part, index):
        if self.dialect == "deepseek":
            for piece in self.pieces(part.get("thinking", "")):
                yield {"content": None, "reasoning_content": piece}
        elif self.dialect == "openrouter":
            whole = self.detail(part, index)
            if "data" in whole:
                yield {"content": "", "reasoning_details": [whole]}
                return
            for piece in self.pieces(whole["text"]):
                yield {"content": "", "reasoning": piece, "reasoning_details": [{"type": whole["type"], "text": piece, "format": whole["format"], "index": index}]}
            yield {"content": "", "reasoning": None, "reasoning_details": [{"type": whole["type"], "signature": whole["signature"], "format": whole["format"], "index": index}]}

    def call_deltas(self, part, index):
        function = {"name": part["call"], "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": part["id"], "type": "function", "function": function}]}
        for piece in self.pieces(part["json"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
