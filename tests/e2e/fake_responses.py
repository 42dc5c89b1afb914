"""The fake model's OpenAI Responses: POST /v1/responses, with background replies: GET /v1/responses/{id}, POST …/cancel."""
import json
import re

from fake_protocol import Answer, Protocol, Refusal, Said, canonical, family, is_error_text

TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
ID_MAX = 64
TOP_LEVEL = {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens", "max_tool_calls",
             "reasoning", "include", "store", "previous_response_id", "conversation", "background", "background_options",
             "context_management", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "user",
             "metadata", "service_tier", "text", "stream", "stream_options", "truncation", "moderation", "temperature", "top_p",
             "top_logprobs"}
MEMBERS = {
    "message": {"type", "id", "role", "content", "status", "phase"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "status", "caller", "namespace"},
    "function_call_output": {"type", "id", "call_id", "output", "status", "caller"},
}
PREFIXES = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "function_call_output": "fco_"}
PARTS = {
    "input_text": {"type", "text", "prompt_cache_breakpoint"},
    "input_image": {"type", "image_url", "file_id", "detail", "prompt_cache_breakpoint"},
    "input_file": {"type", "file_data", "file_id", "file_url", "filename", "detail", "prompt_cache_breakpoint"},
    "output_text": {"type", "text", "annotations", "logprobs"},
    "refusal": {"type", "refusal"},
}
ROLES = {"user": ("input_text", "input_image", "input_file"), "system": ("input_text",), "developer": ("input_text",), "assistant": ("output_text", "refusal")}


def kind_of(item):
    return item.get("type", "message")


def parts_of(item):
    content = item.get("content", [])
    return [{"type": "output_text" if item.get("role") == "assistant" else "input_text", "text": content}] if isinstance(content, str) else content


def text_of(item):
    if kind_of(item) == "function_call_output":
        output = item.get("output", "")
        return output if isinstance(output, str) else "".join(p.get("text", "") for p in output)
    return "".join(p.get("text", p.get("refusal", "")) for p in parts_of(item))


def items_of(request):
    asked = request["input"]
    return [{"role": "user", "content": asked}] if isinstance(asked, str) else asked


def what(item):
    """What an item says, whatever its ids are."""
    if kind_of(item) == "function_call":
        try:
            arguments = json.loads(item["arguments"] or "{}")
        except ValueError:
            arguments = {}
        return canonical([item["name"], arguments])
    return canonical(text_of(item))


class Responses(Protocol):
    """The provider's checks, its memory of what it sealed, and the replies that it keeps."""

    name, path, conversation = "responses", "/v1/responses", "input"
    fails = {"invalid": (400, "invalid_request_error", None), "key": (401, "invalid_request_error", "invalid_api_key"),
             "money": (429, "insufficient_quota", "insufficient_quota"), "permission": (403, "invalid_request_error", "unsupported_country_region_territory"),
             "no_model": (404, "invalid_request_error", "model_not_found"), "rate_limit": (429, "requests", "rate_limit_exceeded"),
             "server": (500, "server_error", "server_error"), "overloaded": (503, "service_unavailable_error", "server_is_overloaded")}

    def __init__(self):
        self.sealed = {}    # encrypted content → (family, the item, what the item that follows it says)
        self.needs = {}     # family and what a call says → seals before it, None among them when there was none once
        self.issued = set() # ids of items sent
        self.kept = {}      # response id → Kept

    # What a request says.

    def view(self, request):
        names = {i.get("call_id"): i.get("name") for i in items_of(request) if kind_of(i) == "function_call"}
        said, before = [], None
        for item in items_of(request):
            kind = kind_of(item)
            if kind == "function_call_output":
                text = text_of(item)
                if before != kind:
                    said.append(Said("tool"))
                said[-1].add(text, [{"name": names.get(item.get("call_id")), "is_error": is_error_text(text), "text": text}])
            elif kind == "message":
                said.append(Said(item.get("role", ""), text_of(item)))
            before = kind
        return said

    def pictures(self, request):
        for i, item in enumerate(items_of(request)):
            for k, part in enumerate(parts_of(item) if kind_of(item) == "message" else []):
                if part.get("type") == "input_image":
                    yield "input[%d].content[%d].image_url" % (i, k), part.get("image_url", "")

    @staticmethod
    def bad_picture(where):
        return Refusal("Invalid '%s'. The image data you provided does not represent a valid image. Please check your input and try again." % where,
                       code="invalid_image_url", param=where)

    def error_body(self, refusal):
        return json.dumps({"error": self.error_object(refusal)}).encode()

    @staticmethod
    def error_object(refusal):
        return {"message": str(refusal), "type": refusal.kind, "param": refusal.param, "code": refusal.code or (refusal.details or {}).get("error_code")}

    # What it remembers.

    def answer(self, reply, request, number, marker, last):
        answer = ResponsesAnswer(reply, request, number, marker, last)
        self.remember(request, answer.items())
        if request.get("background"):
            self.kept[answer.id] = Kept(answer)
        return answer

    def remember_recording(self, request, stream):
        items = []
        for line in stream.decode("utf-8", "replace").splitlines():
            if line.startswith("data:") and '"response.output_item.done"' in line:
                items.append(json.loads(line[5:])["item"])
        self.remember(request, items)

    def remember(self, request, items):
        model, before = family(request["model"]), None
        for i, item in enumerate(items):
            self.issued.add(item.get("id"))
            if item["type"] == "reasoning":
                if not item.get("encrypted_content"):
                    continue
                before = item["encrypted_content"]
                follower = next((what(f) for f in items[i + 1:] if f["type"] != "reasoning"), None)
                self.sealed[before] = (model, canonical(self.bare(item)), follower)
            elif item["type"] == "function_call":
                self.needs.setdefault((model, what(item)), set()).add(before)
                before = None
            else:
                before = None

    @staticmethod
    def bare(item):
        return {k: v for k, v in item.items() if k != "status" and not (k == "content" and not v)}

    # What it refuses.

    def check(self, body, headers, script):
        if not headers.get("content-type", "").startswith("application/json"):
            raise Refusal("Unsupported content type. This API method only accepts 'application/json' requests")
        self.check_strings(body)
        self.check_top(body)
        items = items_of(body)
        for i, item in enumerate(items):
            self.check_item("input[%d]" % i, item)
        self.check_pairs(items)
        self.check_reasoning(body, items)
        tokens, limit = self.tokens(body.get("instructions"), body.get("tools"), items), script.get("limit_tokens", 0)
        if limit and tokens > limit:
            raise Refusal("Your input exceeds the context window of this model. Please adjust your input and try again.",
                          code="context_length_exceeded", param="input")

    @staticmethod
    def check_top(body):
        for key in body:
            if key not in TOP_LEVEL:
                raise Refusal("Unknown parameter: '%s'." % key, code="unknown_parameter", param=key)
        for key in ("model", "input"):
            if not body.get(key):
                raise Refusal("Missing required parameter: '%s'." % key, code="missing_required_parameter", param=key)
        limit = body.get("max_output_tokens", 16)
        if limit is not None and (not isinstance(limit, int) or limit < 16):
            raise Refusal("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got %s instead." % limit,
                          code="integer_below_min_value", param="max_output_tokens")
        if body.get("previous_response_id") and body.get("conversation"):
            raise Refusal("Mutually exclusive parameters: 'previous_response_id' and 'conversation'.", code="mutually_exclusive_parameters")
        if body.get("background") and body.get("store") is False:
            raise Refusal("Background mode requires 'store' to be true.", param="background")
        if "stream_options" in body and not body.get("stream"):
            raise Refusal("The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options")
        if body.get("instructions") == "":
            raise Refusal("Invalid 'instructions': empty string.", code="empty_string", param="instructions")
        Responses.check_tools(body)

    @staticmethod
    def check_tools(body):
        names = set()
        for i, tool in enumerate(body.get("tools", [])):
            where = "tools[%d]" % i
            if tool.get("type") != "function":
                continue
            if "function" in tool or not tool.get("name"):
                raise Refusal("Missing required parameter: '%s.name'." % where, code="missing_required_parameter", param=where + ".name")
            extra = set(tool) - {"type", "name", "description", "parameters", "strict", "defer_loading", "allowed_callers", "output_schema"}
            if extra:
                raise Refusal("Unknown parameter: '%s.%s'." % (where, sorted(extra)[0]), code="unknown_parameter", param=where)
            if not TOOL_NAME.match(tool["name"]):
                raise Refusal("Invalid '%s.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'." % where,
                              code="invalid_value", param=where + ".name")
            if tool["name"] in names:
                raise Refusal("Duplicate tool name: '%s'." % tool["name"], param=where + ".name")
            names.add(tool["name"])
            schema = tool.get("parameters")
            if not isinstance(schema, dict) or schema.get("type") != "object":
                raise Refusal("Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"'." % tool["name"],
                              code="invalid_function_parameters", param=where + ".parameters")
            if tool.get("strict", True) is not False:
                if schema.get("additionalProperties") is not False or set(schema.get("required", [])) != set(schema.get("properties", {})):
                    raise Refusal("Invalid schema for function '%s': In context=(), 'additionalProperties' is required to be supplied and to be false, "
                                  "and 'required' is required to be an array including every key in properties." % tool["name"],
                                  code="invalid_function_parameters", param=where + ".parameters")

    def check_item(self, where, item):
        kind = kind_of(item) if isinstance(item, dict) else None
        if kind not in MEMBERS:
            raise Refusal("Invalid value: '%s'. Supported values are: %s." % (kind, ", ".join("'%s'" % k for k in MEMBERS)), code="invalid_value", param=where)
        extra = set(item) - MEMBERS[kind]
        if extra:
            raise Refusal("Unknown parameter: '%s.%s'." % (where, sorted(extra)[0]), code="unknown_parameter", param="%s.%s" % (where, sorted(extra)[0]))
        if "id" in item:
            self.check_id(where, item["id"], PREFIXES[kind])
        if kind == "message":
            self.check_message(where, item)
        elif kind == "reasoning":
            if not isinstance(item.get("summary"), list):
                raise Refusal("Missing required parameter: '%s.summary'." % where, code="missing_required_parameter", param=where + ".summary")
        else:
            self.check_call(where, item, kind)

    def check_id(self, where, value, prefix):
        if not isinstance(value, str) or not value.startswith(prefix) or len(value) > ID_MAX:
            raise Refusal("Invalid '%s.id': '%s'. Expected an ID that begins with '%s'." % (where, value, prefix[:-1]), code="invalid_value", param=where + ".id")
        if value not in self.issued:
            raise Refusal("Item with id '%s' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or "
                          "remove this item from your input." % value, status=404, param="input")

    def check_message(self, where, item):
        role = item.get("role")
        if role not in ROLES:
            raise Refusal("Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'." % role, code="invalid_value", param=where)
        if not item.get("content"):
            raise Refusal("Invalid '%s.content': empty." % where, code="empty_array", param=where + ".content")
        for k, part in enumerate(parts_of(item)):
            at = "%s.content[%d]" % (where, k)
            if not isinstance(part, dict):
                raise Refusal("Invalid type for '%s': expected an object." % at, code="invalid_type", param=at)
            if part.get("type") not in ROLES[role]:
                raise Refusal("Invalid value: '%s'. Supported values are: %s." % (part.get("type"), " and ".join("'%s'" % t for t in ROLES[role])),
                              code="invalid_value", param=at)
            extra = set(part) - PARTS[part["type"]]
            if extra:
                raise Refusal("Unknown parameter: '%s.%s'." % (at, sorted(extra)[0]), code="unknown_parameter", param=at)
            self.check_part(at, part)

    @staticmethod
    def check_part(at, part):
        kind = part["type"]
        if kind in ("input_text", "output_text", "refusal"):
            member = "refusal" if kind == "refusal" else "text"
            if not isinstance(part.get(member), str) or not part[member].strip():
                raise Refusal("Invalid '%s.%s': empty string. Expected a string with minimum length 1, but got an empty string instead." % (at, member),
                              code="empty_string", param="%s.%s" % (at, member))
        elif kind == "input_image":
            if not re.match(r"(https?://|data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$)", part.get("image_url") or "") and not part.get("file_id"):
                raise Refusal("Invalid '%s.image_url'. Expected a valid URL, but got a value with an invalid format." % at, code="invalid_value", param=at + ".image_url")
        elif kind == "input_file":
            if sum(k in part for k in ("file_data", "file_id", "file_url")) != 1:
                raise Refusal("Missing required parameter: '%s.file_data'." % at, code="missing_required_parameter", param=at)
            if "file_data" in part and (not part.get("filename") or not re.match(r"data:[a-z]+/[a-z0-9.+-]+;base64,[A-Za-z0-9+/=]+$", part["file_data"])):
                raise Refusal("Invalid '%s.file_data'. Expected a base64-encoded data URL with MIME type and a filename." % at, code="invalid_value", param=at)

    @staticmethod
    def check_call(where, item, kind):
        call = item.get("call_id")
        if not isinstance(call, str) or not call:
            raise Refusal("Missing required parameter: '%s.call_id'." % where, code="missing_required_parameter", param=where + ".call_id")
        if len(call) > ID_MAX:
            raise Refusal("Invalid '%s.call_id': string too long. Expected a string with maximum length %d, but got a string with length %d instead."
                          % (where, ID_MAX, len(call)), code="string_above_max_length", param=where + ".call_id")
        if kind == "function_call_output":
            if not isinstance(item.get("output"), (str, list)):
                raise Refusal("Missing required parameter: '%s.output'." % where, code="missing_required_parameter", param=where + ".output")
            return
        if not TOOL_NAME.match(item.get("name") or ""):
            raise Refusal("Invalid '%s.name': string does not match pattern." % where, code="invalid_value", param=where + ".name")
        if not isinstance(item.get("arguments"), str):
            raise Refusal("Invalid type for '%s.arguments': expected a string, but got an object instead." % where, code="invalid_type", param=where + ".arguments")
        try:
            whole = isinstance(json.loads(item["arguments"]), dict)
        except ValueError:
            whole = False
        if not whole:
            raise Refusal("Invalid '%s.arguments': expected a string of a JSON object." % where, code="invalid_value", param=where + ".arguments")

    @staticmethod
    def check_pairs(items):
        seen, open_calls, answering = set(), [], False
        for i, item in enumerate(items):
            kind = kind_of(item)
            if kind == "function_call_output":
                if item["call_id"] not in open_calls:
                    raise Refusal("No tool call found for function call output with call_id %s." % item["call_id"], param="input")
                open_calls.remove(item["call_id"])
                answering = True
                continue
            if open_calls and (answering or (kind == "message" and item["role"] != "assistant")):
                raise Refusal("No tool output found for function call %s." % open_calls[0], param="input")
            answering = False
            if kind == "function_call":
                if item["call_id"] in seen:
                    raise Refusal("Duplicate call_id '%s' found in 'input[%d]'. Remove duplicate items from your input and try again." % (item["call_id"], i), param="input")
                seen.add(item["call_id"])
                open_calls.append(item["call_id"])
        if open_calls:
            raise Refusal("No tool output found for function call %s." % open_calls[0], param="input")

    def check_reasoning(self, body, items):
        model = family(body["model"])
        spoken = max([i for i, item in enumerate(items) if kind_of(item) == "message" and item["role"] != "assistant"], default=-1)
        for i, item in enumerate(items):
            if kind_of(item) == "reasoning":
                self.check_seal(model, item, next((f for f in items[i + 1:] if kind_of(f) != "reasoning"), None))
            elif kind_of(item) == "function_call" and i > spoken:
                needed = self.needs.get((model, what(item)), {None})
                before = items[i - 1].get("encrypted_content") if i and kind_of(items[i - 1]) == "reasoning" else None
                if before not in needed:
                    raise Refusal("Item '%s' of type 'function_call' was provided without its required 'reasoning' item." % item.get("id", item["call_id"]), param="input")

    def check_seal(self, model, item, follower):
        name, seal = item.get("id", "rs_"), item.get("encrypted_content")
        if not seal:
            raise Refusal("Item with id '%s' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or "
                          "remove this item from your input." % name, status=404, param="input")
        bound, sent, required = self.sealed.get(seal, (None, None, None))
        if bound != model or sent != canonical(self.bare(item)):
            raise Refusal("The encrypted content for item %s could not be verified. Reason: Encrypted content could not be decrypted or parsed." % name,
                          code="invalid_encrypted_content", param="input")
        if required is None or follower is None or what(follower) != required:
            raise Refusal("Item '%s' of type 'reasoning' was provided without its required following item." % name, param="input")


class Kept:
    """A background reply: what a GET of it tells."""

    def __init__(self, answer):
        self.answer, self.cancelled, self.gets = answer, False, 0

    def reply(self):
        """How this GET is played: the next of the reply's "resumes", else whole."""
        resumes = self.answer.reply.get("resumes", [])
        self.gets += 1
        return resumes[self.gets - 1] if self.gets <= len(resumes) else {}

    def whole(self):
        return {**self.answer.whole(), "status": "cancelled", "output": []} if self.cancelled else self.answer.whole()

    def events_after(self, number):
        return [(data, shown) for n, data, shown in self.answer.numbered() if n > number]


class ResponsesAnswer(Answer):
    stops = {"max_output": "max_output_tokens", "filtered": "content_filter"}

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.id = self.reply.get("message_id", "resp_fm_%d" % self.number)

    def part(self, part, k):
        part = super().part(part, k)
        if "text" in part and self.reply.get("stop") == "refused":
            return {"refusal": part["text"]}
        return part

    def items(self):
        return [self.item(p, k) for k, p in enumerate(self.parts)]

    def item(self, part, k):
        """The whole item, as `output_item.done` has it."""
        name = "%%s_fm_%d_%d" % (self.number, k)
        if "raw" in part:
            return part["raw"]
        if "thinking" in part or "redacted" in part:
            summary = [{"type": "summary_text", "text": part["thinking"]}] if part.get("thinking") else []
            item = {"id": name % "rs", "type": "reasoning", "summary": summary}
            if "reasoning.encrypted_content" in (self.request.get("include") or []):
                item["encrypted_content"] = part.get("signature", part.get("redacted"))
            return item
        if "call" in part:
            return {"id": name % "fc", "type": "function_call", "status": "incomplete" if part["open"] else "completed", "call_id": part["id"],
                    "name": part["call"], "arguments": part["json"] or "{}"}
        content = {"type": "refusal", "refusal": part["refusal"]} if "refusal" in part else {"type": "output_text", "annotations": [], "logprobs": [], "text": part["text"]}
        return {"id": name % "msg", "type": "message", "status": "completed", "role": "assistant", "content": [content], **({"phase": part["phase"]} if "phase" in part else {})}

    def usage(self):
        counts = self.counts()
        return {"input_tokens": counts["input_tokens"], "input_tokens_details": {"cached_tokens": counts["cached_tokens"], "cache_write_tokens": 0},
                "output_tokens": counts["output_tokens"], "output_tokens_details": {"reasoning_tokens": counts["reasoning_tokens"]},
                "total_tokens": counts["input_tokens"] + counts["output_tokens"]}

    def cut(self):
        """Why the reply is incomplete, or None."""
        return self.stop() if self.stop() in ("max_output_tokens", "content_filter") else None

    def head(self, status):
        return {"id": self.id, "object": "response", "created_at": 1790000000, "status": status, "background": bool(self.request.get("background")),
                "error": None, "incomplete_details": None, "instructions": self.request.get("instructions"), "model": self.model(), "output": [],
                "parallel_tool_calls": True, "store": self.request.get("store", True), "tool_choice": "auto", "usage": None, "metadata": {}}

    def whole(self):
        cut = self.cut()
        return {**self.head("incomplete" if cut else "completed"), "output": self.items(), "usage": self.usage(), "incomplete_details": {"reason": cut} if cut else None}

    def finished(self):
        return super().finished() and self.stop() is not None

    def error(self, refusal):
        """An error event, as recorded: nested, and response.failed after it."""
        error = {"type": refusal.kind, "code": refusal.code or refusal.kind, "message": str(refusal), "param": None}
        failed = {**self.head("failed"), "error": {"code": error["code"], "message": error["message"]}}
        return self.sse("error", {"type": "error", "sequence_number": 98, "error": error}) + self.sse("response.failed", {"type": "response.failed", "sequence_number": 99, "response": failed})

    def ping(self):
        return b": keep-alive\n\n"

    def events(self):
        for _, data, shown in self.numbered():
            yield data, shown

    def numbered(self):
        shown = {"text": 0, "arguments": 0}
        for number, event in enumerate(self.plain_events()):
            if event["type"] in ("response.output_text.delta", "response.refusal.delta"):
                shown["text"] += len(event["delta"])
            elif event["type"] == "response.function_call_arguments.delta":
                shown["arguments"] += len(event["delta"])
            if event["type"].endswith(".delta") and (self.request.get("stream_options") or {}).get("include_obfuscation", True):
                event["obfuscation"] = "x" * (number % 7 + 1)
            yield number, self.sse(event["type"], {**event, "sequence_number": number}), dict(shown)

    def plain_events(self):
        yield {"type": "response.created", "response": self.head("in_progress")}
        if self.request.get("background"):
            yield {"type": "response.queued", "response": self.head("queued")}
        yield {"type": "response.in_progress", "response": self.head("in_progress")}
        for index, (item, part) in enumerate(zip(self.items(), self.parts)):
            for event in self.item_events(item, part):
                yield {**event, "output_index": index}
        if self.finished():
            whole = self.whole()
            yield {"type": "response." + whole["status"], "response": whole}

    def item_events(self, item, part):
        kind = item["type"]
        names = {"item_id": item.get("id")}
        if kind == "message":
            yield {"type": "response.output_item.added", "item": {**item, "status": "in_progress", "content": []}}
            yield from self.text_events(names, item["content"][0])
        elif kind == "reasoning":
            yield {"type": "response.output_item.added", "item": {**item, "summary": [], **({"encrypted_content": "not+yet+whole=="} if "encrypted_content" in item else {})}}
            for i, summary in enumerate(item["summary"]):
                at = {**names, "summary_index": i}
                yield {"type": "response.reasoning_summary_part.added", **at, "part": {"type": "summary_text", "text": ""}}
                for piece in self.pieces(summary["text"]):
                    yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
                yield {"type": "response.reasoning_summary_text.done", **at, "text": summary["text"]}
                yield {"type": "response.reasoning_summary_part.done", **at, "part": summary}
        elif kind == "function_call" and "raw" not in part:
            yield {"type": "response.output_item.added", "item": {**item, "status": "in_progress", "arguments": ""}}
            for piece in self.pieces(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **names, "delta": piece}
            if part["open"]:
                return
            yield {"type": "response.function_call_arguments.done", **names, "arguments": item["arguments"]}
        else:
            yield {"type": "response.output_item.added", "item": item}
        yield {"type": "response.output_item.done", "item": item}

    def text_events(self, names, content):
        word = "refusal" if content["type"] == "refusal" else "output_text"
        member = "refusal" if word == "refusal" else "text"
        at = {**names, "content_index": 0}
        yield {"type": "response.content_part.added", **at, "part": {**content, member: ""}}
        for piece in self.pieces(content[member]):
            yield {"type": "response.%s.delta" % word, **at, "delta": piece}
        yield {"type": "response.%s.done" % word, **at, member: content[member]}
        yield {"type": "response.content_part.done", **at, "part": content}
