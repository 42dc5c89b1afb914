"""What the fake model's three protocols share: how a request is refused, how one is read without its protocol's words, how a
reply of a script becomes an answer.

A protocol (fake_anthropic, fake_responses, fake_chat) checks requests as its provider does and remembers what it issued; it never
repairs anything and never reads the script's rules. A memory belongs to one server: what another one issued is foreign to it.
"""
import json
import re

FAMILY_END = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")


class Refusal(Exception):
    """An answer that is not 2xx."""

    def __init__(self, message, status=400, kind="invalid_request_error", code=None, param=None, headers=None, details=None):
        super().__init__(message)
        self.status, self.kind, self.code, self.param = status, kind, code, param
        self.headers, self.details = headers or {}, details


def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def family(model):
    """A model without its date: what a signature is bound to."""
    return FAMILY_END.sub("", model)


class Said:
    """One message of a request without its protocol's words: who said it, all its text, and the results in it."""

    def __init__(self, role, text="", results=()):
        self.role, self.text, self.results = role, text, list(results)  # results: {"name", "is_error", "text"}

    def add(self, text="", results=()):
        self.text += text
        self.results += results


def is_error_text(text):
    """Where the protocol marks no errors: does a result look like one of the engine's?"""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and ("error" in value or value.get("outcome") == "unknown" or value.get("cancelled") is True)


def conversation_of(body, key):
    """The body up to the end of its last message: what the next request of a stable prefix begins with. `key` names the list."""
    read, blank = json.JSONDecoder().raw_decode, re.compile(r"[\s,:]*")
    at = blank.match(body, body.index("{") + 1).end()
    while at < len(body) and body[at] != "}":
        name, at = read(body, at)
        _, end = read(body, blank.match(body, at).end())
        if name == key:
            return body[:end].rstrip().removesuffix("]").rstrip()
        at = blank.match(body, end).end()
    return body


class Protocol:
    """What a server speaks. One object holds the memory of one server."""

    name = path = conversation = ""  # conversation: the member that holds the messages
    fails = {}  # what went wrong, in one word → (status, type, code)

    def check_strings(self, value, where=""):
        """No NUL and no lone surrogate anywhere, keys included."""
        if isinstance(value, str):
            if "\0" in value:
                raise self.bad_string(where, "strings must not contain null bytes")
            if any(0xD800 <= ord(c) <= 0xDFFF for c in value):
                raise self.bad_string(where, "no low surrogate in string")
        elif isinstance(value, dict):
            for key, member in value.items():
                self.check_strings(key, where)
                self.check_strings(member, self.inside(where, key))
        elif isinstance(value, list):
            for i, member in enumerate(value):
                self.check_strings(member, self.inside(where, i))

    @staticmethod
    def inside(where, key):
        """The name of a member, as OpenAI writes it."""
        return "%s[%d]" % (where, key) if isinstance(key, int) else (where + "." + key if where else key)

    def bad_string(self, where, what):
        return Refusal("Invalid '%s': %s" % (where, what), code="invalid_value", param=where)

    def failure(self, reply):
        """The refusal that a script asks for: {"fails": WORD, "message"} or {"status", "error": {…}}."""
        error = reply.get("error", {})
        status, kind, code = self.fails[reply["fails"]] if "fails" in reply else (500, "api_error", None)
        return Refusal(error.get("message", reply.get("message", "scripted")), reply.get("status", status), error.get("type", kind),
                       error.get("code", code), error.get("param"), reply.get("headers"), error.get("details"))

    def in_band(self, error):
        """The same as an error within a stream."""
        status, kind, code = self.fails[error["fails"]] if "fails" in error else (500, error.get("type", "api_error"), error.get("code"))
        return Refusal(error.get("message", "scripted"), status, kind, code)

    @staticmethod
    def tokens(*parts):
        return len(json.dumps(parts, ensure_ascii=False)) // 4

    def pictures(self, request):
        """(where, data) of each image of a request, in its provider's way to name a place."""
        raise NotImplementedError

    def check_pictures(self, request, bad):
        """Refuses the first image whose data holds `bad`."""
        for where, data in self.pictures(request):
            if bad in data:
                raise self.bad_picture(where)


class Answer:
    """One reply of a script; a protocol makes events of a stream of it, or one object."""

    stops = {}  # neutral word → the protocol's
    call_prefix = "call_"

    def __init__(self, reply, request, number, marker, last):
        self.reply, self.request, self.number, self.marker, self.last = reply, request, number, marker, last
        self.parts = [self.part(p, k) for k, p in enumerate(self.all_parts())]

    def fill(self, text):
        return (text.replace("{{last}}", self.last).replace("{{n}}", str(self.number))
                .replace("{{marker}}", self.marker))

    def fill_all(self, value):
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, dict):
            return {k: self.fill_all(v) for k, v in value.items()}
        return [self.fill_all(v) for v in value] if isinstance(value, list) else value

    def all_parts(self):
        reply = self.reply
        if "blocks" in reply:
            return reply["blocks"]
        parts = []
        if "thinking" in reply:
            parts.append({"thinking": reply["thinking"]})
        if reply.get("text"):
            parts.append({"text": reply["text"]})
        for call in reply.get("calls", []):
            parts.append({"call": call["name"], **{k: v for k, v in call.items() if k != "name"}})
        return parts

    def part(self, part, k):
        """The part with its texts filled in: {"thinking", "signature"}, {"redacted"}, {"text"}, {"raw"} or
        {"call", "id", "input", "json", "open"}."""
        if "thinking" in part:
            return {"thinking": self.fill(part["thinking"]), "signature": part.get("signature", "fm+sig/%d.%d==" % (self.number, k))}
        if "text" in part:
            return {"text": self.fill(part["text"])}
        if "call" not in part:
            return part
        value = self.fill_all(part.get("input", {}))
        return {"call": part["call"], "id": part.get("id", "%sfm_%d_%d" % (self.call_prefix, self.number, k)), "input": value,
                "json": part["json"] if "json" in part else ("" if value == {} else json.dumps(value)), "open": part.get("open", False)}

    def has_calls(self):
        return any("call" in p for p in self.parts)

    def stop(self):
        stop = self.reply.get("stop", "tool_calls" if self.has_calls() else "done")
        return self.stops.get(stop, stop)

    def counts(self):
        """Tokens: {"input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"}."""
        return {"input_tokens": len(json.dumps(self.request)) // 4, "cached_tokens": 0, "reasoning_tokens": 0,
                "output_tokens": max(1, len(json.dumps(self.parts)) // 4), **self.reply.get("usage", {})}

    def model(self):
        return self.reply.get("model", self.request.get("model", "fm"))

    def pieces(self, text):
        size = self.reply.get("chunk", 20)
        return [text[i:i + size] for i in range(0, len(text), size)]

    def finished(self):
        """Does the stream end as the protocol says?"""
        return not self.reply.get("unfinished")

    def sse(self, event, data):
        """With trailing blanks now and then, as providers pad."""
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=self.reply.get("ascii", False))
        lines = ("event: %s\n" % event if event else "") + "data: %s%s\n\n" % (text, " " * (len(text) % 5))
        return lines.replace("\n", self.reply.get("newline", "\n")).encode()

    # A protocol's own: events() → (bytes, {"text": n, "arguments": n}) of each event, the characters shown so far beside it;
    # whole() → one object; error(refusal) → bytes of an error in the stream; ping() → bytes that are no progress.
