#!/usr/bin/env python3
"""FT: a fake tool server that counts what happened in its world and answers as badly as it is told to.

    with FakeTool() as ft:
        ft.on("/send", {"status": 503}, {"json": {"ok": True}})      one reply a call, the last repeats
        ... ft.url + "/send" ... ft.calls, ft.effects("/send"), ft.keys("/send") ...

A call is {"path", "key", "body", "arguments", "headers", "at"} and stands in `calls` once it was read whole; an effect is a
call that was carried out, counted per (path, key, arguments). A reply is, all optional:
    "status": 200   "headers": {...}   "json": VALUE, "body": BYTES, or "size": n bytes of filler
    "drop": "before" | "after"     the connection is reset before or after the effect, without an answer
    "cut": n        the head promises all, n bytes of the body come, then a reset
    "delay": s      before the answer, the effect done      "drip": s   between the body's bytes
    "hang": True    no answer until the client goes         "junk": BYTES   instead of an answer
    "echo": True    the request's head as the body          "act": f    called with the call after the effect, before the answer
"""
import json
import socket
import struct
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def do_POST(self):
        ft = self.server.ft
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = {"path": self.path, "key": self.headers.get("Idempotency-Key"), "body": body, "headers": dict(self.headers), "at": time.time()}
        try:
            call["arguments"] = json.loads(body)["arguments"]
        except (ValueError, KeyError, TypeError):
            call["arguments"] = None
        reply = ft.take(call)
        if reply.get("drop") == "before":
            return self.reset()
        ft.count(call)
        if "act" in reply:
            reply["act"](call)
        if reply.get("drop") == "after":
            return self.reset()
        try:
            self.answer(reply)
        except OSError:  # the client is gone
            self.close_connection = True

    def answer(self, reply):
        ft = self.server.ft
        if reply.get("hang"):
            self.connection.settimeout(0.05)
            while not ft.closing.is_set():
                try:
                    if self.connection.recv(1) == b"":
                        break
                except TimeoutError:
                    pass
            self.close_connection = True
            return
        ft.closing.wait(reply.get("delay", 0))
        if "junk" in reply:
            self.wfile.write(reply["junk"])
            self.close_connection = True
            return
        body = reply.get("body", b"")
        if "json" in reply:
            body = json.dumps(reply["json"]).encode()
        if reply.get("echo"):
            body = str(self.headers).encode()
        size = reply.get("size", len(body))
        self.send_response(reply.get("status", 200))
        for name, value in reply.get("headers", {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        if "size" in reply:
            block = b"x" * 65536
            for at in range(0, size, len(block)):
                self.wfile.write(block[:size - at])
            return
        for at in range(len(body)) if "drip" in reply else ():
            self.wfile.write(body[at:at + 1])
            if ft.closing.wait(reply["drip"]):
                break
        if "drip" not in reply:
            self.wfile.write(body[:reply.get("cut", size)])
        if "cut" in reply:
            self.reset()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        """A client that was killed: nothing to tell."""


class FakeTool:
    def __init__(self, host="127.0.0.1"):
        self.lock = threading.Condition()
        self.replies, self.given = {}, Counter()
        self.calls, self.done, self.closing = [], Counter(), threading.Event()
        self.server = Server((host, 0), Handler)
        self.server.ft = self
        self.port = self.server.server_address[1]
        self.url = f"http://{host}:{self.port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    def on(self, path, *replies):
        self.replies[path] = replies

    def take(self, call):
        with self.lock:
            self.calls.append(call)
            replies = self.replies.get(call["path"], ({"status": 404, "json": {"detail": "no such tool"}},))
            reply = replies[min(self.given[call["path"]], len(replies) - 1)]
            self.given[call["path"]] += 1
            self.lock.notify_all()
            return reply

    def count(self, call):
        with self.lock:
            self.done[(call["path"], call["key"], json.dumps(call["arguments"], sort_keys=True))] += 1
            self.lock.notify_all()

    def of(self, path):
        with self.lock:
            return [call for call in self.calls if call["path"] == path]

    def keys(self, path):
        return {call["key"] for call in self.of(path)}

    def effects(self, path):
        """How many times the tool was carried out."""
        with self.lock:
            return sum(n for (p, _, _), n in self.done.items() if p == path)

    def wait(self, condition, limit=20):
        with self.lock:
            if not self.lock.wait_for(lambda: condition(self), limit):
                raise AssertionError(f"waited {limit} s for the tool server; it got {[c['path'] for c in self.calls]}")
