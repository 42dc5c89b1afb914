#!/usr/bin/env python3
"""FM: a strict fake model server that speaks Anthropic Messages, OpenAI Responses and Chat Completions.

Python's standard library only. HTTP/1.1, keep-alive, answers streamed as server-sent events.

    fake_model.py --port 0 --script FILE --log FILE      prints "port N" when it listens

    with FakeModel(script) as fm:                         the same, in a thread of a test
        ... fm.url, fm.requests, fm.wait(lambda fm: len(fm.requests) == 2) ...

THE PROTOCOL is the path: POST /v1/messages, POST /v1/responses (with GET /v1/responses/{id} and POST …/cancel of a reply asked
for with `background`), POST /v1/chat/completions. One script serves all three: it says what a model does, in words of no protocol.
What a provider checks, remembers and sends stands in fake_anthropic, fake_responses and fake_chat.

THE SCRIPT is JSON: a list of rules, or {"rules": [...], and any of
    "strict": true        answer 400 as the provider does (below); false: take anything that is JSON
    "key": "sk-..."       the only key accepted, others are 401
    "limit_tokens": 0     more than this (characters / 4) is too long; 0: no limit
    "bad_image": TEXT     an image whose data holds TEXT is refused, its position named
    "dialect": NAME       whose Chat Completions: openai, deepseek, openrouter, mistral (kept until another one is named)
    "marker": REGEX       what names a session in a request body; its first group, or the whole match.
                          Default: marker:([A-Za-z0-9_.-]+). No match: ""}

A rule is {"when": {...}, "reply": {...}} or {"when": ..., "replies": [r1, r2, ...]} (in turn; the last repeats).
The first rule whose matchers all hold answers; none: a text that says so. Matchers, all optional:
    "call": n             the n-th request accepted by this server, from 1
    "session_call": n     the n-th of its marker
    "contains": TEXT      anywhere in the body
    "last": TEXT          in the last message
    "turn": TEXT          in the last message that holds text of a person
    "role": user | tool   tool: the last message holds a result
    "tool_result": NAME   ... of a call of this tool; true: of any
    "is_error": BOOL      ... one that is (not) an error
    "tool_results": n     messages with tool results since the person last spoke
    "model": TEXT         in the model asked for
    "protocol": NAME      anthropic, responses, chat
    "marker": TEXT        the marker is exactly this
    "times": n            the rule answers n times at most

A reply is made of content:
    "thinking": TEXT, "text": TEXT, "calls": [{"name", "input": {...}, "id"?}]     in this order, or
    "blocks": [{"thinking": T, "signature"?: S} | {"redacted": DATA} | {"text": T} |
               {"call": NAME, "input": {...}, "id"?: ID, "json"?: RAW TEXT, "open"?: true} | {"raw": BLOCK}]
                          signature, redacted: encrypted_content of a reasoning item, signature and data of reasoning_details
                          open: the block's end is not sent, as when a limit cuts it; raw: a block, item or delta of the protocol's own
    "stop": WORD          done, tool_calls (when there are calls), max_output, refused, filtered, paused, context_full, stop_sequence where the
                          protocol has it; else as it is; null: none is sent
    "stop_sequence", "stop_details", "message_id", "model"
    "usage": {"input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"}
  In texts {{last}} is the text of the last message, {{n}} the number of this request, {{marker}} its marker.
of pacing:
    "delay": s            before the head          "chunk": n     characters in a delta (20)
    "write": n            bytes in a write         "pace": s      before each event
    "newline": "\\r\\n"     between lines             "ascii": true  \\uXXXX escapes, lone surrogates too
    "stall": {PLACE, "for": s, "ping": s}                  silence, or what is no progress only
of breakage, at a PLACE: "after": k events, "text": k or "arguments": k characters shown so far
    "cut": {PLACE (here "after" is bytes of the body), "how": "rst" | "fin"}
    "in_band": {PLACE, "fails": WORD | "type", "message"}  an error event, then the end
    "unfinished": true    no end of the stream as the protocol has it
    "fails": WORD, "message", "headers"                    an HTTP error in the provider's own form: invalid, key, money, permission,
                          no_model, rate_limit, server, overloaded
    "status": 529, "headers": {...}, "error": {"type", "message", "code"?, "details"?} or "body": TEXT      any other
of a background reply:
    "resumes": [{...}]    pacing and breakage of its first, second, … GET; then it is told whole
or of something else whole:
    "file": PATH          a recorded body, with "write"
    "body": TEXT, "content_type": TEXT
    "json": true          one JSON object although a stream was asked for

STRICT answers 400 in the provider's words and shape to what providers refuse: a call without its result in the next message, an orphan or
repeated result, a repeated call id, an id that is not in the provider's form, arguments that are no object (Anthropic) or no string of JSON, reasoning
changed, forged, of another model family or server, left out of the tool loop it belongs to, or (Responses) without the item that follows it, blank
text, lone surrogates, NUL, bytes that are not UTF-8, roles out of order, members that it does not know, too many cache markers, too many tokens.

THE LOG is JSON lines; nothing is redacted, so that tests can look for canaries:
    {"event": "request", "n", "at", "protocol", "marker", "concurrent", "extends", "headers", "body"}
        concurrent: requests of this marker open now, this one included; extends: the body begins with the marker's
        last conversation (a stable prefix)
    {"event": "asked", "method", "path"}                   a GET of a background reply, or a cancel
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

from fake_anthropic import Anthropic
from fake_chat import Chat
from fake_protocol import Refusal, conversation_of
from fake_responses import Responses


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
        self.sent = 0
        if path.startswith("/_fm/"):
            await self.serve_own(method, path, body)
            return True
        if path.startswith("/v1/responses/"):
            return await self.serve_kept(method, path, headers)
        return await self.serve_model(method, path, headers, body)

    async def serve_own(self, method, path, body):
        if method == "POST" and path == "/_fm/script":
            self.server.set_script(json.loads(body))
        await self.whole(200, json.dumps(self.server.stats()).encode(), "application/json")

    async def serve_model(self, method, path, headers, body):
        server = self.server
        protocol = server.protocol_of(path)
        number, marker = server.admit(protocol, headers, body)
        how = "error"
        try:
            reply, answer = server.answer(protocol, method, path, headers, body, number, marker)
            await self.pause(reply.get("delay", 0))
            how = await self.play(protocol, reply, answer)
        except Refusal as refusal:
            server.note_refused(number, refusal)
            await self.whole(refusal.status, protocol.error_body(refusal), "application/json", refusal.headers)
        except (ConnectionError, ClientClosed):
            how = "client_closed"
        finally:
            server.leave(number, marker, how, self.sent)
        return how in ("whole", "error")

    async def serve_kept(self, method, path, headers):
        """A background reply: asked for again, or cancelled."""
        server, protocol = self.server, self.server.protocols["responses"]
        path, _, query = path.partition("?")
        asked = dict(pair.partition("=")[::2] for pair in query.split("&"))
        server.note_asked(method, path + ("?" + query if query else ""), headers)
        try:
            server.check_key(headers)
            name, _, verb = path[len("/v1/responses/"):].partition("/")
            kept = protocol.kept.get(name)
            if kept is None:
                raise Refusal("Response with id '%s' not found." % name, 404)
            if (method, verb) == ("POST", "cancel"):
                kept.cancelled = True
            elif (method, verb) != ("GET", ""):
                raise Refusal("Invalid URL (%s %s)" % (method, path), 404)
            reply = kept.reply() if method == "GET" else {}
            if "fails" in reply or "status" in reply:
                raise protocol.failure(reply)
            if asked.get("stream") != "true" or kept.cancelled:
                await self.whole(200, json.dumps(kept.whole()).encode(), "application/json")
                return True
            return await self.stream(reply, kept.answer, kept.events_after(int(asked.get("starting_after", "-1")))) == "whole"
        except Refusal as refusal:
            await self.whole(refusal.status, protocol.error_body(refusal), "application/json", refusal.headers)
            return True

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

    async def play(self, protocol, reply, answer):
        if "status" in reply and "body" in reply:
            await self.whole(reply["status"], reply["body"].encode(), reply.get("content_type", "text/plain"),
                             reply.get("headers"))
            return "error"
        if "status" in reply or "fails" in reply:
            raise protocol.failure(reply)
        if "body" in reply:
            await self.whole(200, reply["body"].encode(), reply.get("content_type", "text/plain"),
                             reply.get("headers"))
            return "whole"
        if reply.get("json"):
            await self.whole(200, json.dumps(answer.whole()).encode(), "application/json", reply.get("headers"))
            return "whole"
        if "file" in reply:
            with open(reply["file"], "rb") as file:
                return await self.stream(reply, answer, [(file.read(), {})])
        if "in_band" in reply:
            return await self.stream(reply, answer, answer.events(), answer.error(protocol.in_band(reply["in_band"])))
        return await self.stream(reply, answer, answer.events())

    async def stream(self, reply, answer, events, error=b""):
        """Plays events with the reply's pacing and breakage."""
        await self.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nrequest-id: req_fm\r\n"
                        b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n")
        stalled, before = False, {}
        for k, (piece, shown) in enumerate(events):
            if self.at(reply.get("in_band"), k, before):
                await self.body(error, reply)
                break
            if self.at(reply.get("cut"), None, before):
                return self.cut(reply["cut"])
            if not stalled and self.at(reply.get("stall"), k, before, 1):
                stalled = True
                await self.stall(reply["stall"], answer)
            await self.pause(reply.get("pace", 0))
            if await self.body(piece, reply) == "cut":
                return "cut"
            before = shown
        await self.send(b"0\r\n\r\n")
        return "whole"

    @staticmethod
    def at(place, k, shown, default=0):
        """Is this the place? `k` events went out, and so many characters of text and arguments."""
        if place is None:
            return False
        for what in ("text", "arguments"):
            if what in place:
                return shown.get(what, 0) >= place[what]
        return k is not None and k == place.get("after", default)

    async def stall(self, stall, answer):
        until = time.monotonic() + stall.get("for", 1)
        ping = stall.get("ping")
        while time.monotonic() < until:
            await self.pause(min(ping or 3600, max(0.001, until - time.monotonic())))
            if ping:
                await self.chunk(answer.ping())

    async def chunk(self, data):
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))
        self.sent += len(data)

    async def body(self, data, reply):
        cut = reply.get("cut", {})
        limit = None if not cut or "text" in cut or "arguments" in cut else cut.get("after", 0)
        if limit is not None and self.sent + len(data) >= limit:
            data = data[:max(0, limit - self.sent)]
        size = reply.get("write") or len(data) or 1
        for i in range(0, len(data), size):
            await self.chunk(data[i:i + size])
            await asyncio.sleep(0)
        if limit is not None and self.sent >= limit:
            return self.cut(cut)
        return "sent"

    def cut(self, cut):
        if cut.get("how", "rst") == "rst":
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                                            struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        return "cut"


class FakeModel:
    """The server. As a context manager it runs in a thread of its own."""

    def __init__(self, script=None, port=0, log_path=None, host="127.0.0.1", dialect="openai"):
        self.host, self.port = host, port
        self.lock = threading.Condition()
        self.log_file = open(log_path, "a", encoding="utf-8", buffering=1) if log_path else None
        self.protocols = {p.name: p for p in (Anthropic(), Responses(), Chat(dialect))}
        self.requests = []     # {"n", "protocol", "marker", "concurrent", "extends", "headers", "body" (text), "json"}
        self.asked = []        # {"method", "path", "headers"} of background replies asked for again, or cancelled
        self.refused = []      # (n, message)
        self.ended = []        # {"n", "how", "bytes"}
        self.open = {}         # marker → requests open now
        self.max_concurrent = {}
        self.last_talk = {}    # marker → conversation of its last request
        self.session_calls = {}
        self.accepted = 0
        self.set_script(script or [])
        self.loop = self.thread = self.server = None

    # What a script says.

    def set_script(self, script):
        self.script = {"rules": script} if isinstance(script, list) else dict(script)
        self.rules = [{"used": 0, **rule} for rule in self.script.get("rules", [])]
        self.marker = re.compile(self.script.get("marker", r"marker:([A-Za-z0-9_.-]+)"))
        chat = self.protocols["chat"]
        chat.dialect = self.script.get("dialect", chat.dialect)

    def matches(self, rule, protocol, request, text, marker):
        when, said = rule.get("when", {}), protocol.view(request)
        results = said[-1].results
        spoken = max([i for i, m in enumerate(said) if m.role == "user"], default=-1)
        answered = sum(m.role == "tool" for m in said[spoken + 1:])
        tool = when.get("tool_result")
        return all([
            when.get("call", self.accepted) == self.accepted,
            when.get("session_call", self.session_calls[marker]) == self.session_calls[marker],
            when.get("contains", "") in text,
            when.get("last", "") in said[-1].text,
            when.get("turn", "") in (said[spoken].text if spoken >= 0 else ""),
            "role" not in when or (when["role"] == "tool") == bool(results),
            tool is None or (bool(results) if tool is True else any(r["name"] == tool for r in results)),
            "is_error" not in when or any(r["is_error"] == when["is_error"] for r in results),
            when.get("tool_results", answered) == answered,
            when.get("model", "") in request.get("model", ""),
            when.get("protocol", protocol.name) == protocol.name,
            when.get("marker", marker) == marker,
            rule["used"] < when.get("times", sys.maxsize),
        ])

    def choose(self, protocol, request, text, marker):
        for rule in self.rules:
            if self.matches(rule, protocol, request, text, marker):
                replies = rule.get("replies") or [rule.get("reply", {"text": "ok"})]
                reply = replies[min(rule["used"], len(replies) - 1)]
                rule["used"] += 1
                return reply
        return {"text": "(no rule of the script matches)"}

    # What happens to a request.

    def protocol_of(self, path):
        """Of an unknown path any: it says that there is nothing there."""
        path = path.split("?")[0]
        return next((p for p in self.protocols.values() if p.path == path), self.protocols["anthropic"])

    def admit(self, protocol, headers, body):
        text = body.decode("utf-8", "replace")
        found = self.marker.search(text)
        marker = (found.group(1) if found.re.groups else found.group(0)) if found else ""
        try:
            talk = conversation_of(text, protocol.conversation)
        except (ValueError, IndexError, AttributeError):
            talk = text
        with self.lock:
            number = len(self.requests) + 1
            self.open[marker] = self.open.get(marker, 0) + 1
            self.max_concurrent[marker] = max(self.max_concurrent.get(marker, 0), self.open[marker])
            entry = {"n": number, "at": time.time(), "protocol": protocol.name, "marker": marker, "concurrent": self.open[marker],
                     "extends": talk.startswith(self.last_talk.get(marker, "")), "headers": headers, "body": text}
            self.last_talk[marker] = talk
            self.log({"event": "request", **entry})
            self.requests.append({**entry, "talk": talk})
            self.lock.notify_all()
        return number, marker

    def note_asked(self, method, path, headers):
        with self.lock:
            self.asked.append({"method": method, "path": path, "headers": headers})
            self.log({"event": "asked", "method": method, "path": path})
            self.lock.notify_all()

    def note_refused(self, number, refusal):
        self.log({"event": "refused", "n": number, "status": refusal.status, "message": str(refusal)})
        self.refused.append((number, str(refusal)))

    def check_key(self, headers):
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if "key" in self.script and key != self.script["key"]:
            raise Refusal("invalid x-api-key", 401, "authentication_error", code="invalid_api_key")

    def answer(self, protocol, method, path, headers, body, number, marker):
        if method != "POST" or path.split("?")[0] != protocol.path:
            raise Refusal("Not found", 404, "not_found_error")
        self.check_key(headers)
        try:
            text = body.decode("utf-8")
            request = json.loads(text)
        except ValueError as error:
            raise Refusal("The request body is not valid JSON: %s" % error) from None
        if not isinstance(request, dict):
            raise Refusal("Input should be an object")
        self.requests[number - 1]["json"] = request
        if self.script.get("strict", True):
            protocol.check(request, headers, self.script)
        if self.script.get("bad_image"):
            protocol.check_pictures(request, self.script["bad_image"])
        self.accepted += 1
        self.session_calls[marker] = self.session_calls.get(marker, 0) + 1
        reply = self.choose(protocol, request, text, marker)
        if "file" in reply:
            with open(reply["file"], "rb") as file:
                protocol.remember_recording(request, file.read())
            return reply, None
        said = protocol.view(request)
        return reply, protocol.answer(reply, request, number, marker, said[-1].text if said else "")

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
    parser = argparse.ArgumentParser(description="A strict fake model server: Anthropic Messages, OpenAI Responses, Chat Completions.")
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
