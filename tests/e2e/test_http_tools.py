#!/usr/bin/env python3
"""Tools over HTTP through the program: what a server sees, what a crash or a break at the worst moment does (A2, D4), where the engine will not go,
and that no secret stays behind (N3). The moment of a crash is exact: the tool server kills the engine after its effect and before its answer.
"""
import base64
import hashlib
import hmac
import json
import os
import signal
import socket
import time
import unittest

from fake_tool import FakeTool
from harness import World, kill

ANY = {"type": "object"}
RUN = ("run", "-a", "a", "-s", "s", "--request-id", "r", "go")
SECRET = "whsec_" + base64.b64encode(b"canary-signing-secret-of-32-byte").decode()
TOKEN = "canary-token-5e1f0c9b"


def scripted(*rules):
    return {"provider": "scripted", "name": "script", "script": list(rules)}


def calls(*names):
    """Asks for these calls, then ends."""
    return scripted({"when": {"step": 1}, "calls": [{"name": name, "arguments": {"id": "1"}} for name in names]}, {"text": "Done."})


class HttpTools(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.__exit__)
        self.world.environment.update(PAWL_OUTBOUND_ALLOW="127.0.0.1", http_proxy="http://127.0.0.1:1", ALL_PROXY="http://127.0.0.1:1")
        self.ft = FakeTool().__enter__()
        self.addCleanup(self.ft.__exit__)

    def tool(self, name, effects="none", url=None, **more):
        return {"name": name, "kind": "http", "effects": effects, "url": url or f"{self.ft.url}/{name}", "input": ANY, **more}

    def agent(self, *tools):
        self.world.agent("a", {"name": "a", "model": calls(*[tool["name"] for tool in tools]), "tools": list(tools)})

    def ask(self, *tools, check=0, env=None):
        """One turn that calls each of these tools once: what the model read of each, by name."""
        self.agent(*tools)
        turn = self.world.json(*RUN, check=check, env=env or {})
        by_step = {step: body for _, _, _, step, body in self.world.records("tool.completed")}
        read = {}
        for message in self.world.json("show", "s")["messages"]:
            for part in message["content"]:
                if part["type"] == "tool_call":
                    read[part["call"]] = part["name"]
        found = {}
        for message in self.world.json("show", "s")["messages"]:
            for part in message["content"]:
                if part["type"] == "tool_result":
                    found[read[part["call"]]] = (by_step[message["step"]]["outcome"], part["is_error"], part["result"])
        return turn, found

    def failed(self, found, name, *says):
        outcome, is_error, result = found[name]
        self.assertTrue(is_error, found[name])
        for word in says:
            self.assertIn(word, json.dumps(result), name)
        return outcome

    # --- What a server sees ---

    def test_D1_a_call_carries_its_key_its_signature_and_what_the_agent_lists(self):
        self.ft.on("/act", {"body": b'{"n": 1.0, "big": 123456789012345678901234567890}'})
        _, found = self.ask(self.tool("act", "once", headers={"Authorization": {"env": "ACT_TOKEN"}}, signing_secret_env="ACT_SECRET"),
                            env={"ACT_TOKEN": "Bearer " + TOKEN, "ACT_SECRET": SECRET})
        self.assertEqual(found["act"][:2], ("done", False))
        self.assertIn('123456789012345678901234567890', "".join(body for body, in self.world.query("select body from pawl_journal")))
        call, = self.ft.calls
        sent = json.loads(call["body"])
        self.assertEqual({k: v for k, v in sent.items() if k not in ("turn", "step")}, {"tool": "act", "arguments": {"id": "1"}, "session": "s", "answers": {}})
        self.assertEqual(sent["turn"], self.world.records("turn.opened")[0][2])
        self.assertRegex(sent["step"], r"^tool:\d+:")
        headers = {name.lower(): value for name, value in call["headers"].items()}
        self.assertEqual(headers["content-type"], "application/json")
        self.assertEqual(headers["authorization"], "Bearer " + TOKEN)
        self.assertRegex(call["key"], "^[0-9a-f]{64}$")
        self.assertEqual(headers["webhook-id"], call["key"])
        self.assertLess(abs(int(headers["webhook-timestamp"]) - time.time()), 60)
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + call["body"]
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        self.assertEqual(headers["webhook-signature"], "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode())

    def test_answers_are_results_as_they_are(self):
        self.ft.on("/json", {"body": b' {"a": [1.50]}\n'})
        self.ft.on("/text", {"body": "grüße\n".encode()})
        self.ft.on("/bytes", {"body": b"\xff\x00ok"})
        self.ft.on("/empty", {"status": 204})
        self.ft.on("/accepted", {"status": 202, "json": "later"})
        _, found = self.ask(*[self.tool(name) for name in ("json", "text", "bytes", "empty", "accepted")])
        self.assertEqual({name: value for name, (_, _, value) in found.items()},
                         {"json": {"a": [1.5]}, "text": "grüße", "bytes": "\ufffd\ufffdok", "empty": None, "accepted": "later"})

    def test_F1_a_refusal_is_an_error_in_the_servers_words(self):
        self.ft.on("/detail", {"status": 422, "json": {"title": "No", "detail": "no such order"}})
        self.ft.on("/error", {"status": 400, "json": {"error": {"message": "bad item"}}})
        self.ft.on("/message", {"status": 404, "json": {"message": "not here"}})
        self.ft.on("/text", {"status": 403, "body": "é".encode() * 5000})
        self.ft.on("/empty", {"status": 401})
        _, found = self.ask(*[self.tool(name, "once") for name in ("detail", "error", "message", "text", "empty")])
        for name, words in {"detail": "HTTP 422: no such order", "error": "HTTP 400: bad item", "message": "HTTP 404: not here", "empty": "HTTP 401: the server said no more"}.items():
            self.assertEqual(found[name], ("error", True, {"error": words}))
        self.assertLessEqual(len(found["text"][2]["error"]), 2000)
        self.assertEqual(len(self.ft.calls), 5, "a refusal is not tried again")

    def test_a_request_to_park_is_fatal_for_now_F2(self):
        self.ft.on("/act", {"status": 202, "headers": {"Pawl-Park": "input"}, "json": {"id": "q"}})
        turn, _ = self.ask(self.tool("act", "once"), check=1)
        self.assertEqual((turn["state"], turn["reason"]), ("failed", "tool_fatal"))
        self.assertIn("park", turn["detail"])

    # --- Crashes and breaks ---

    def killed(self, effects, kills, then="once"):
        """The server kills the engine after its effect, so many times; the turn then goes on under the declaration `then`."""
        process = []
        self.ft.on("/act", *[{"act": lambda _: process[0].send_signal(signal.SIGKILL), "hang": True}] * kills, {"json": {"ok": True}})
        self.agent(self.tool("act", effects))
        for _ in range(kills):
            process[:] = [self.world.start(*RUN)]
            self.assertEqual(process[0].wait(30), -signal.SIGKILL)
            kill(process[0])
        if then != effects:
            self.agent(self.tool("act", then))
        turn = self.world.json(*RUN)
        self.assertEqual((turn["state"], turn["attempts"]), ("completed", kills + 1))
        self.assertEqual(len(self.ft.keys("/act")), 1, "one idempotency key")
        return self.world.records("tool.completed")[0][4]

    def test_case_A2_over_http_once_is_unknown_and_not_repeated(self):
        receipt = self.killed("once", 1)
        self.assertEqual((receipt["outcome"], receipt["is_error"], self.ft.effects("/act")), ("unknown", True, 1))

    def test_case_A2_over_http_a_weaker_declaration_is_not_believed(self):
        receipt = self.killed("once", 1, then="none")
        self.assertEqual((receipt["outcome"], self.ft.effects("/act")), ("unknown", 1))

    def test_case_A2_over_http_idempotent_runs_again_with_the_same_key_D1(self):
        receipt = self.killed("idempotent", 2, then="idempotent")
        self.assertEqual((receipt["outcome"], self.ft.effects("/act")), ("done", 3))

    def test_case_A2_over_http_a_read_runs_again(self):
        receipt = self.killed("none", 1, then="none")
        self.assertEqual((receipt["outcome"], self.ft.effects("/act")), ("done", 2))

    def test_what_may_pass_is_tried_again_with_the_same_key_D1(self):
        self.ft.on("/flaky", {"status": 503}, {"drop": "after"}, {"status": 429, "headers": {"Retry-After": "0"}}, {"json": "at last"})
        self.ft.on("/broken", {"status": 500, "json": {"error": "I am ill"}})
        self.ft.on("/wait", {"status": 429, "headers": {"Retry-After": "3600"}, "body": b"not now"})
        _, found = self.ask(self.tool("flaky", "idempotent"), self.tool("broken", "none"), self.tool("wait", "none", limit="20s"))
        self.assertEqual(found["flaky"], ("done", False, "at last"))
        self.assertEqual((len(self.ft.of("/flaky")), len(self.ft.keys("/flaky")), self.ft.effects("/flaky")), (4, 1, 4))
        self.assertEqual((found["broken"][2], len(self.ft.of("/broken")), len(self.ft.keys("/broken"))), ({"error": "HTTP 500: I am ill"}, 4, 1))
        self.assertEqual((found["wait"][2], len(self.ft.of("/wait"))), ({"error": "HTTP 429: not now"}, 1), "its time does not fit into the limit")

    def test_D4_once_is_tried_once_and_a_break_after_sending_is_unknown(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            self.ft.on("/after", {"drop": "after"})
            self.ft.on("/before", {"drop": "before"})
            self.ft.on("/cut", {"json": "a longer answer", "cut": 3})
            self.ft.on("/junk", {"junk": b"\0\1\2 junk\r\n\r\n"})
            self.ft.on("/ill", {"status": 503, "body": b"try later"})
            self.ft.on("/proxy", {"status": 502, "body": b"bad gateway"})
            turn, found = self.ask(*[self.tool(name, "once") for name in ("after", "before", "cut", "junk", "proxy", "ill")],
                                   self.tool("nobody", "once", url=f"http://127.0.0.1:{nobody.getsockname()[1]}/"))
        self.assertEqual(turn["state"], "completed")
        for name in ("after", "before", "cut", "junk", "proxy"):
            self.assertEqual(self.failed(found, name, "unknown"), "unknown", name)
            self.assertEqual(len(self.ft.of("/" + name)), 1)
        self.assertEqual((self.ft.effects("/after"), self.ft.effects("/before")), (1, 0))
        self.assertEqual(found["ill"], ("error", True, {"error": "HTTP 503: try later"}))
        self.assertEqual(len(self.ft.of("/ill")), 1)
        self.assertEqual(self.failed(found, "nobody", "Connection: "), "error", "nothing was sent: that is known")

    def test_D6_a_hung_server_is_a_timeout_and_a_late_answer_changes_nothing(self):
        self.ft.on("/hang", {"hang": True})
        self.ft.on("/drip", {"body": b"x" * 1000, "drip": 0.05})
        self.ft.on("/late", {"delay": 1.2, "json": "late"})
        began = time.monotonic()
        turn, found = self.ask(self.tool("hang", "none", limit="400ms"), self.tool("drip", "idempotent", limit="400ms"), self.tool("late", "once", limit="400ms"))
        self.assertEqual(turn["state"], "completed")
        self.assertEqual(self.failed(found, "hang", "Timeout"), "error")
        self.assertEqual(self.failed(found, "drip", "Timeout"), "error")
        self.assertEqual(self.failed(found, "late", "unknown"), "unknown")
        time.sleep(max(0, 1.3 - (time.monotonic() - began)))  # its answer goes out now, to nobody
        self.assertEqual((self.ft.effects("/late"), len(self.world.records("tool.completed"))), (1, 3))

    def test_a_huge_answer_is_an_error(self):
        self.ft.on("/huge", {"size": 50_000_000})
        self.ft.on("/ill", {"size": 9_000_000, "status": 400})
        _, found = self.ask(self.tool("huge"), self.tool("ill", "once"))
        self.assertEqual(self.failed(found, "huge", "TooLarge: ", "8388608 bytes"), "error")
        self.assertEqual(self.failed(found, "ill", "TooLarge: ", "400"), "error")
        self.assertEqual(len(self.ft.of("/huge")), 1)

    # --- Where the engine does not go ---

    def test_private_addresses_are_refused_however_they_are_spelled(self):
        port = self.ft.port
        hosts = {"literal": "127.0.0.1", "decimal": "2130706433", "hex": "0x7f000001", "octal": "0177.0.0.1", "short": "127.1", "mapped": "[::ffff:127.0.0.1]",
                 "six": "[::1]", "name": "localhost", "zero": "0.0.0.0", "metadata": "169.254.169.254", "compatible": "[::7f00:1]"}
        turn, found = self.ask(*[self.tool(name, "idempotent", url=f"http://{host}:{port}/act", limit="20s") for name, host in hosts.items()],
                               env={"PAWL_OUTBOUND_ALLOW": ""})
        self.assertEqual(turn["state"], "completed")
        for name in hosts:
            self.assertEqual(self.failed(found, name, "Forbidden: ", "outbound_allow"), "error", name)
        self.assertEqual(self.ft.calls, [], "nobody was called")

    def test_the_allow_list_lets_its_addresses_pass_however_they_are_named(self):
        for name in ("literal", "decimal", "name"):
            self.ft.on("/" + name, {"json": name})
        port = self.ft.port
        _, found = self.ask(self.tool("literal", url=f"http://127.0.0.1:{port}/literal"), self.tool("decimal", url=f"http://2130706433:{port}/decimal"),
                            self.tool("name", url=f"http://localhost:{port}/name"), self.tool("other", url=f"http://127.0.0.2:{port}/other"),
                            env={"PAWL_OUTBOUND_ALLOW": "10.0.0.0/8, 127.0.0.1, ::1"})
        self.assertEqual([found[name][2] for name in ("literal", "decimal", "name")], ["literal", "decimal", "name"])
        self.failed(found, "other", "Forbidden")
        self.assertEqual(self.ft.of("/name")[0]["headers"]["Host"], f"localhost:{port}")

    def test_a_wrong_allow_list_is_an_error_at_the_start(self):
        self.agent(self.tool("act"))
        for value, says in (("10.0.0.1/8", "beyond its length"), ("localhost", "is not an address"), ("::/129", "0 to 128")):
            _, _, err = self.world.run(*RUN, check=2, env={"PAWL_OUTBOUND_ALLOW": value})
            self.assertIn("PAWL_OUTBOUND_ALLOW: ", err)
            self.assertIn(says, err)

    def test_redirects_are_errors_and_not_followed(self):
        self.ft.on("/act", {"status": 302, "headers": {"Location": self.ft.url + "/other"}})
        self.ft.on("/same", {"status": 307, "headers": {"Location": "/other"}})
        self.ft.on("/other", {"json": "reached"})
        _, found = self.ask(self.tool("act"), self.tool("same", "once"))
        self.failed(found, "act", "Redirect: ", "302", "not followed")
        self.failed(found, "same", "Redirect: ", "307")
        self.assertEqual(self.ft.of("/other"), [])

    # --- Secrets ---

    def test_N3_no_secret_stays_anywhere_even_when_the_server_says_it_back(self):
        self.ft.on("/echo", {"echo": True})
        self.ft.on("/refuse", {"echo": True, "status": 400})
        self.ft.on("/detail", {"status": 401, "json": {"detail": f"{TOKEN} is not the token"}})
        more = {"headers": {"Authorization": {"env": "ACT_TOKEN"}}, "signing_secret_file": "secret"}
        with open(os.path.join(self.world.folder, "secret"), "w", encoding="utf-8") as out:
            out.write(SECRET + "\n")
        self.agent(*[self.tool(name, **more) for name in ("echo", "refuse", "detail")])
        env = {"ACT_TOKEN": "Bearer " + TOKEN}
        said = "".join(self.world.run(*RUN, "--json", check=0, env=env)[1:])
        said += "".join(self.world.run("show", "s", "--json", check=0)[1:]) + "".join(self.world.run("tail", "s", "--no-follow", "--json", check=0)[1:])
        self.assertIn("Bearer " + TOKEN, self.ft.of("/echo")[0]["headers"]["Authorization"])
        self.assertIn("**** is not the token", said)
        os.remove(os.path.join(self.world.folder, "secret"))
        for folder, _, files in os.walk(self.world.folder):
            for file in files:
                with open(os.path.join(folder, file), "rb") as there:
                    said += there.read().decode("latin-1")
        for canary in (TOKEN, SECRET, SECRET.removeprefix("whsec_"), "canary-signing-secret"):
            self.assertNotIn(canary, said)

    def test_F2_a_secret_that_is_not_there_fails_the_turn_and_is_named(self):
        self.ft.on("/act", {"json": 1})
        turn, _ = self.ask(self.tool("act", "once", headers={"X-Key": {"env": "NOT_SET_ANYWHERE"}}), check=1)
        self.assertEqual((turn["state"], turn["reason"]), ("failed", "tool_fatal"))
        self.assertIn("headers.X-Key: NOT_SET_ANYWHERE is not set", turn["detail"])
        self.assertEqual(self.ft.calls, [])

    # --- What an agent may say ---

    def test_declarations_are_checked_with_file_line_and_key(self):
        good = {"kind": "http", "url": "https://a.example/x"}
        wrong = {
            "no_url": ({"kind": "http"}, "url"),
            "ftp": ({**good, "url": "ftp://a.example/"}, ".url: expected http:// or https://"),
            "user": ({**good, "url": "https://me:canary@a.example/"}, ".url: credentials do not belong into a URL"),
            "space": ({**good, "url": "https://a.example/a b"}, ".url: byte 20"),
            "method": ({**good, "method": "GET"}, ".method"),
            "transactional": ({**good, "effects": "transactional"}, ".effects: expected none, idempotent or once"),
            "literal": ({**good, "headers": {"X-Key": "canary"}}, ".headers"),
            "reserved": ({**good, "headers": {"Host": {"env": "X"}}}, "Host: is set by the engine"),
            "newline": ({**good, "headers": {"X-A\r\nB": {"env": "X"}}}, "headers"),
            "variable": ({**good, "headers": {"X-A": {"env": "9"}}}, "headers"),
            "two": ({**good, "signing_secret_env": "A", "signing_secret_file": "b"}, "signing_secret"),
            "unknown": ({**good, "run": ["x"]}, "run: not a key of a tool of kind http"),
        }
        for name, (tool, _) in wrong.items():
            self.world.agent(name, {"model": scripted({"text": "hi"}), "tools": [{"name": "t", **tool}]})
        _, out, err = self.world.run("agents", "check", self.world.agents, check=2)
        for name, (_, says) in wrong.items():
            lines = [line for line in (out + err).split("\n") if f"{name}/agent.yaml:" in line]
            self.assertTrue(lines and says in lines[0], f"{name}: {says}\n{lines or out + err}")
            self.assertRegex(lines[0], r"agent\.yaml:\d+: tools\[0\]")
        self.assertNotIn("me:canary", out + err)


if __name__ == "__main__":
    unittest.main()
