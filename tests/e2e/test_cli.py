#!/usr/bin/env python3
"""The program as a person or a script meets it: help, wrong use, what is printed where, exit codes, signals, terminals."""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
import unittest

from harness import BIN, World, events_of, folded, kill, wait_for

ANY = {"type": "object", "properties": {"id": {"type": "string"}}}
UUID7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def scripted(*rules):
    return {"provider": "scripted", "name": "script", "script": list(rules)}


def command(name, effects, *more, **extra):
    return {"name": name, "kind": "command", "effects": effects, "run": ["./effect", name, *more], "env": ["LEDGER"], "input": ANY, **extra}


def world_of(test, *rules, tools=(), **more):
    world = World()
    test.addCleanup(world.__exit__)
    world.agent("a", {"name": "a", "model": scripted(*rules), "tools": list(tools), **more})
    return world


SLOW = {"when": {"turn": "slow"}, "text": "word " * 400, "pace": "20ms"}
TWO_CALLS = {"when": {"turn": "act", "step": 1}, "text": "Let me see.", "calls": [{"name": "look", "arguments": {"id": "1"}}, {"name": "send", "arguments": {"id": "2"}}]}
HELLO = {"text": "Hello there."}
TOOLS = (command("look", "none"), command("send", "once"))
RUN = ("run", "-a", "a", "-s", "s", "--request-id", "r")


class Help(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.__exit__)

    def test_help_lists_every_command_and_each_has_its_own(self):
        _, out, err = self.world.run("help", check=0)
        self.assertEqual(err, "")
        names = re.findall(r"^  pawl ((?:agents |models )?[a-z]+)", out, re.M)
        self.assertEqual(names, ["run", "sessions", "show", "tail", "why", "cancel", "verify", "doctor", "agents check", "models", "models check", "replay", "completion", "bench", "help", "version"])
        for name in names:
            _, text, _ = self.world.run("help", *name.split(), check=0)
            _, flag, _ = self.world.run(*name.split(), "--help", check=0)
            self.assertEqual(text, flag, name)
            self.assertTrue(text.startswith(f"pawl {name}"), text)
        self.assertEqual(self.world.run("--help")[:2], (0, out))
        self.assertRegex(self.world.run("--version", check=0)[1], r"^pawl \d+\.\d+\.\d+\n$")
        self.assertIn("version", self.world.json("version"))

    def test_wrong_use_is_2_says_what_and_writes_nothing(self):
        for arguments, words in (((), "pawl run"), (("dance",), "dance"), (("run",), "PROMPT"), (("run", ""), "PROMPT"), (("run", "--dance", "x"), "--dance"), (("run", "-z", "x"), "-z"),
                                 (("run", "x", "--session"), "SESSION"), (("run", "--session=", "x"), "session"), (("run", "--json=yes", "x"), "json"), (("sessions", "more"), "more"),
                                 (("show",), "SESSION is missing"), (("agents", "check"), "DIR is missing"), (("show", "a", "b"), "b"), (("why", "s", "--after", "0"), "--after"), (("agents",), "agents check"), (("help", "dance"), "dance"),
                                 (("bench", "--sessions", "0"), "--sessions"), (("bench", "--iterations", "x"), "--iterations"), (("sessions", "--store", "disk:x"), "disk"),
                                 (("replay", "s"), "--dry-run"), (("completion", "tcsh"), "tcsh"),
                                 (("run", "--store", "disk:x", "hi"), "disk")):
            with self.subTest(arguments=arguments):
                status, out, err = self.world.run(*arguments)
                self.assertEqual((status, out), (2, ""), err)
                self.assertIn(words, err)
        self.assertFalse(os.path.exists(self.world.database))

    def test_no_agent_here_is_said_before_anything_is_written(self):
        self.world.environment.pop("PAWL_AGENTS")
        os.rmdir(self.world.agents)
        status, _, err = self.world.run("run", "hi", limit=10)
        self.assertEqual(status, 2)
        self.assertIn("--agents DIR", err)
        self.assertEqual(self.world.query("select count(*) from pawl_inbox")[0][0], 0)

    def test_a_store_that_is_not_there_or_not_one_is_6(self):
        for arguments in (("sessions",), ("show", "s"), ("why", "s"), ("tail", "s"), ("verify",), ("doctor",)):
            status, out, err = self.world.run(*arguments)
            self.assertEqual((status, out), (6, ""), arguments)
            self.assertIn("--store", err)
        with open(self.world.database, "w", encoding="utf-8") as file:
            file.write("This is no database, but long enough to be looked at." * 100)
        self.assertEqual(self.world.run("sessions")[0], 6)
        self.world.agent("a", {"name": "a", "model": scripted(HELLO)})
        self.assertEqual(self.world.run("run", "-a", "a", "hi")[0], 6)

    def test_the_default_store_is_in_the_state_folder_for_the_user_alone(self):
        self.world.environment.pop("PAWL_STORE")
        self.world.agent("a", {"name": "a", "model": scripted(HELLO)})
        self.world.run("run", "-a", "a", "hi", check=0)
        folder = os.path.join(self.world.folder, "state", "pawl")
        self.assertTrue(os.path.exists(os.path.join(folder, "pawl.db")))
        self.assertEqual(self.world.json("sessions")["items"][0]["agent"], "a")
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)


    def test_a_refused_message_names_no_session_and_a_long_prompt_the_limit(self):
        self.world.agent("a", {"name": "a", "model": scripted(HELLO)})
        status, _, err = self.world.run("run", "-a", "a", "--request-id", "schedule:x", "hi")
        self.assertEqual(status, 2)
        self.assertNotIn("session ", err)
        self.assertRegex(self.world.run("run", "-a", "a", "hi", check=0)[2], rf"(?m)^session {UUID7}$")
        with open(os.path.join(self.world.folder, "long"), "wb") as file:
            file.write(b"x" * (5 << 20))
        with open(file.name, "rb") as file:
            long = subprocess.run([BIN, "run", "-a", "a", "-"], stdin=file, env=self.world.environment, cwd=self.world.folder, capture_output=True, timeout=30)
        self.assertEqual(long.returncode, 2)
        self.assertIn(b"4 MiB", long.stderr)


class Pages(unittest.TestCase):
    """What is made from the table of commands holds all of it."""

    @classmethod
    def setUpClass(cls):
        cls.world = World()
        cls.pages = {kind: cls.world.run("completion", kind, check=0)[1] for kind in ("bash", "zsh", "fish", "man")}
        _, out, _ = cls.world.run("help", check=0)
        cls.names = re.findall(r"^  pawl ((?:agents |models )?[a-z]+)", out, re.M)
        cls.options = {name: re.findall(r"^  (?:-. *, )?  ?(?: *)--([a-z-]+)", re.sub(r"(?m)^  (-.), ", r"      ", cls.world.run("help", *name.split(), check=0)[1]), re.M) for name in cls.names}

    @classmethod
    def tearDownClass(cls):
        cls.world.__exit__()

    def test_the_manual_names_the_variables_that_are_read(self):
        for variable in ("PAWL_STORE", "PAWL_AGENTS", "PAWL_AGENT", "PAWL_PRICES", "PAWL_OUTBOUND_ALLOW", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "NO_COLOR"):
            self.assertIn(f"\n.B {variable}\n", self.pages["man"])

    def test_every_command_and_option_is_in_every_page(self):
        self.assertGreater(len(self.names), 14)
        for name in self.names:
            self.assertIn("help", self.options[name])
            for kind, page in self.pages.items():
                self.assertIn(f"pawl {name} " if kind == "man" else name.split()[-1], page + " " if kind != "man" else page.replace("\n", " "), (kind, name))
            for option in self.options[name]:
                self.assertIn("\\-\\-" + option.replace("-", "\\-"), self.pages["man"])
                self.assertIn(f"--{option}", self.pages["bash"])
                self.assertIn(f"--{option}", self.pages["zsh"])
                self.assertIn(f"-l {option}", self.pages["fish"])

    def complete(self, *words):
        script = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pawl; printf "%s\\n" "${COMPREPLY[@]}"'
        out = subprocess.run(["bash", "-c", script, self.page_file, "pawl", *words], capture_output=True, text=True, check=True)
        self.assertEqual(out.stderr, "")
        return out.stdout.split()

    def test_bash_completes(self):
        self.page_file = os.path.join(self.world.folder, "pawl.bash")
        with open(self.page_file, "w", encoding="utf-8") as file:
            file.write(self.pages["bash"])
        self.assertEqual(set(self.complete("")), {name.split()[0] for name in self.names})
        self.assertEqual(self.complete("mod"), ["models"])
        self.assertIn("check", self.complete("models", ""))
        self.assertEqual(self.complete("agents", "ch"), ["check"])
        self.assertEqual(self.complete("models", "check", "--wi"), ["--within"])
        self.assertEqual(self.complete("sessions", "--status", "ru"), ["running"])
        self.assertEqual(self.complete("completion", "z"), ["zsh"])
        self.assertEqual(self.complete("help", "doc"), ["doctor"])
        os.makedirs(os.path.join(self.world.folder, "somewhere"), exist_ok=True)
        self.assertEqual(self.complete("agents", "check", os.path.join(self.world.folder, "somewh")), [os.path.join(self.world.folder, "somewhere")])
        for name in self.names:
            found = self.complete(*name.split(), "--")
            self.assertEqual(sorted(o for o in found if o.startswith("--")), sorted(f"--{o}" for o in self.options[name]), name)

    def test_the_manual_page_is_sound_roff(self):
        checkers = [["mandoc", "-Tlint", "-W", "warning"], ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]]
        checker = next((c for c in checkers if shutil.which(c[0])), None)
        if not checker:
            self.skipTest("neither mandoc nor man is here")
        path = os.path.join(self.world.folder, "pawl.1")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.pages["man"])
        checked = subprocess.run([*checker, path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=dict(os.environ, LC_ALL="C.UTF-8"))
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))


class Agents(unittest.TestCase):
    def test_problems_are_lines_with_file_and_line_and_2(self):
        world = world_of(self, HELLO)
        self.assertEqual(world.json("agents", "check", world.agents)["problems"], [])
        _, out, _ = world.run("agents", "check", world.agents, check=0)
        self.assertRegex(out, r"^a +[0-9a-f]{12} +0 tools")
        with open(os.path.join(world.agents, "a", "agent.yaml"), "w", encoding="utf-8") as file:
            file.write("name: a\nmodel: { provider: scripted, name: x, script: [] }\nnonsense: 1\n")
        for arguments in (("agents", "check", world.agents), ("run", "-a", "a", "hi")):
            status, out, err = world.run(*arguments)
            self.assertEqual((status, out), (2, ""), arguments)
            self.assertRegex(err, r"(?m)^\S*agent\.yaml:\d+: .*nonsense")
        self.assertEqual(len(world.json("agents", "check", world.agents, check=2)["problems"]), 1)
        self.assertEqual(world.run("agents", "check", os.path.join(world.folder, "nowhere"))[0], 2)

    def test_doctor_looks_at_the_rest_when_agents_are_wrong(self):
        world = world_of(self, HELLO)
        world.run("run", "-a", "a", "hi", check=0)
        with open(os.path.join(world.agents, "a", "agent.yaml"), "a", encoding="utf-8") as file:
            file.write("\nnonsense: 1\n")
        status, out, err = world.run("doctor")
        self.assertEqual(status, 1)
        self.assertRegex(err, r"agent\.yaml:\d+: ")
        self.assertRegex(out, r"(?m)^ok +store ")

    def test_a_folder_as_agent_and_the_default_one(self):
        world = world_of(self, HELLO)
        elsewhere = World()
        self.addCleanup(elsewhere.__exit__)
        folder = elsewhere.agent("other", {"name": "other", "model": scripted({"text": "From elsewhere."})})
        self.assertEqual(world.json("run", "-a", folder, "hi")["agent"], "other")
        self.assertEqual(world.json("run", "--agents", elsewhere.agents, "hi")["agent"], "other")
        self.assertEqual(world.json("run", "hi", env={"PAWL_AGENT": "a"})["agent"], "a")
        status, _, err = world.run("run", "-a", "nobody", "hi")
        self.assertEqual(status, 2)
        self.assertIn("agent", err)

    def test_a_session_whose_agent_is_not_here_is_said(self):
        world = world_of(self, HELLO)
        world.run("run", "-a", "a", "-s", "s", "hi", check=0)
        os.rename(os.path.join(world.agents, "a"), os.path.join(world.folder, "moved"))
        world.agent("b", {"name": "b", "model": scripted(HELLO)})
        status, _, err = world.run("run", "-s", "s", "hi", limit=10)
        self.assertEqual(status, 2)
        self.assertIn("--agents DIR", err)


class Run(unittest.TestCase):
    def test_the_reply_is_on_standard_output_and_the_rest_beside_it(self):
        world = world_of(self, TWO_CALLS, {"when": {"turn": "act"}, "text": "It is done."}, tools=TOOLS)
        status, out, err = world.run(*RUN, "act")
        self.assertEqual((status, out), (0, "Let me see.\nIt is done.\n"))
        self.assertRegex(err, r"(?m)^→ look \(none\) \d+ ms ✓$")
        self.assertRegex(err, r"(?m)^→ send \(once\) \d+ ms ✓$")
        self.assertRegex(err, r"(?m)^completed, 2 iterations, 2 tool calls, .*\d s$")
        self.assertNotIn("\033", out + err)
        status, out, err = world.run(*RUN, "act")
        self.assertEqual((status, out), (0, "It is done.\n"), "the recorded result")
        self.assertNotIn("→", err)
        self.assertEqual(len(world.ledger()), 2)

    def test_json_is_a_line_for_each_event_and_the_turn_last(self):
        world = world_of(self, TWO_CALLS, {"when": {"turn": "act"}, "text": "It is done."}, tools=TOOLS)
        _, out, err = world.run(*RUN, "act", "--json", check=0)
        self.assertEqual(err, "")
        events, turn = events_of(out)
        names = [name for _, name, _ in events if name not in ("message.delta", "message.queued")]
        self.assertEqual(names, ["snapshot", "turn.started", "message.completed", "action.requested", "action.requested", "action.completed", "action.completed",
                                 "message.completed", "turn.completed"])
        self.assertEqual(folded(events), "It is done.")
        self.assertEqual([data["effects"] for _, name, data in events if name == "action.requested"], ["none", "once"])
        ids = [i for i, name, _ in events if name not in ("message.delta", "message.queued", "snapshot")]
        self.assertEqual(ids, ["1", "2-1", "2-2", "2", "3", "5", "6", "7"], "4 is the intent of the `once` call, which tells nothing")
        self.assertEqual((turn["state"], turn["text"], turn["requests"]), ("completed", "It is done.", ["r"]))
        again = world.json(*RUN, "act")
        self.assertEqual(again, turn)

    def test_a_new_session_is_a_uuid7_that_is_printed(self):
        world = world_of(self, HELLO)
        _, _, err = world.run("run", "-a", "a", "hi", check=0)
        session = re.search(rf"^session ({UUID7})$", err, re.M).group(1)
        self.assertEqual(world.json("sessions")["items"][0]["id"], session)

    def test_the_prompt_from_words_from_standard_input_and_after_dashes(self):
        world = world_of(self, {"text": "You said: {{last}}"})
        self.assertEqual(world.run("run", "-a", "a", "several", "words")[1], "You said: several words\n")
        self.assertEqual(world.run("run", "-a", "a", "--", "--not-an-option")[1], "You said: --not-an-option\n")
        out = subprocess.run([BIN, "run", "-a", "a", "-"], input=b"from a pipe", stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=world.environment, cwd=world.folder, check=True).stdout
        self.assertEqual(out.decode(), "You said: from a pipe\n")
        empty = subprocess.run([BIN, "run", "-a", "a", "-"], input=b"", stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=world.environment, cwd=world.folder, check=False)
        self.assertEqual(empty.returncode, 2)

    def test_exit_codes_say_how_the_turn_ended(self):
        world = world_of(self, {"when": {"turn": "fail"}, "error": {"class": "fail", "code": "invalid_request_error", "message": "not like this"}},
                         {"when": {"turn": "act"}, "calls": [{"name": "look", "arguments": {"id": "{{step}}"}}]}, HELLO, tools=TOOLS, budget={"max_iterations": 1})
        status, out, err = world.run("run", "-a", "a", "fail")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("failed (model): not like this", err)
        status, out, err = world.run("run", "-a", "a", "-s", "s", "--request-id", "r", "act")
        self.assertEqual(status, 3)
        self.assertIn("exhausted (max_iterations)", err)
        self.assertRegex(out, r"^Stopped: .*send a message to continue\.\n$")
        self.assertEqual(world.run("run", "-a", "a", "-s", "s", "--request-id", "r", "act")[1], out)
        self.assertEqual(world.run("run", "-a", "a", "hi")[0], 0)

    def test_C3_killed_and_run_again_goes_on_and_says_so(self):
        world = world_of(self, TWO_CALLS, {"when": {"turn": "act"}, "text": "It is done.", "delay": "3s"}, tools=TOOLS)
        process = world.start(*RUN, "act")
        wait_for(lambda: len(world.records("tool.completed")) == 2, what="both receipts")
        kill(process)
        status, out, err = world.run(*RUN, "act")
        self.assertEqual((status, out), (0, "It is done.\n"))
        self.assertIn("resumed: attempt 2 (recovery)", err)
        self.assertEqual(len(world.ledger()), 2)

    def test_without_a_prompt_what_is_open_is_resumed(self):
        world = world_of(self, TWO_CALLS, {"when": {"turn": "act"}, "text": "It is done.", "delay": "3s"}, tools=TOOLS)
        process = world.start(*RUN, "act")
        wait_for(lambda: len(world.records("tool.completed")) == 2, what="both receipts")
        kill(process)
        self.assertEqual(world.run("run", "-s", "s", check=0)[1], "It is done.\n")
        status, _, err = world.run("run", "-s", "s")
        self.assertEqual(status, 2)
        self.assertIn("nothing is open", err)
        self.assertEqual(world.run("run", "-s", "nobody")[0], 2)

    def test_J2_a_second_command_follows_the_live_owner(self):
        world = world_of(self, {"when": {"turn": "slow"}, "text": "word " * 60, "pace": "20ms"})
        first = world.start(*RUN, "slow", "--json")
        for line in first.stdout:
            if b"message.delta" in line:
                break
        _, out, err = world.run(*RUN, "slow", "--json", check=0)
        events, turn = events_of(out)
        self.assertEqual([name for _, name, _ in events if name == "message.delta"], [], "deltas are with the owner")
        self.assertIn("turn.completed", [name for _, name, _ in events])
        self.assertEqual(turn["attempts"], 1)
        first.communicate(timeout=30)
        self.assertEqual(first.returncode, 0)

    def test_J2_take_over_takes_it_from_a_live_owner(self):
        world = world_of(self, {"when": {"turn": "slow", "try": 1}, "text": "word " * 200, "pace": "20ms"})
        first = world.start(*RUN, "slow", "--json")
        for line in first.stdout:
            if b"message.delta" in line:
                break
        second = world.start(*RUN, "slow", "--json", "--take-over")
        wait_for(lambda: world.records("attempt.started"), what="the second attempt")
        self.assertEqual(world.records("attempt.started")[0][4]["cause"], "taken")
        world.run("cancel", "s", check=0)
        for process in (first, second):
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, 5)

    def test_messages_behind_a_running_turn_wait_their_turn_and_say_so(self):
        world = world_of(self, {"when": {"turn": "slow"}, "text": "word " * 60, "pace": "20ms"}, HELLO)
        first = world.start(*RUN, "slow", "--json")
        for line in first.stdout:
            if b"message.delta" in line:
                break
        status, out, err = world.run("run", "-s", "s", "hi")
        self.assertEqual((status, out), (0, "Hello there.\n"), err)
        first.communicate(timeout=30)
        self.assertEqual(first.returncode, 0)

    def test_standard_output_that_is_closed_does_not_take_the_turn_with_it(self):
        world = world_of(self, {"when": {"turn": "slow"}, "text": "word " * 40, "pace": "10ms"})
        process = world.start(*RUN, "slow", "--json")
        process.stdout.close()
        process.wait(30)
        process.stderr.close()
        self.assertEqual(world.records("turn.ended")[0][4]["state"], "completed")


class Signals(unittest.TestCase):
    def started(self, *more, **options):
        world = world_of(self, SLOW, HELLO)
        process = world.start(*RUN, "slow", "--json", *more, **options)
        for line in process.stdout:
            if b"message.delta" in line:
                break
        return world, process

    def test_I1_ctrl_c_cancels_durably_and_keeps_the_text(self):
        world, process = self.started()
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
        self.assertLess(time.monotonic() - began, 3)
        self.assertEqual(process.returncode, 5)
        turn = json.loads(out.decode().strip().splitlines()[-1])
        self.assertEqual((turn["state"], turn["reason"]), ("cancelled", "user"))
        self.assertIn("word", turn["text"])
        self.assertEqual(world.run(*RUN, "slow")[0], 5, "its recorded end")
        partial = [m for m in world.json("show", "s")["messages"] if m.get("partial")]
        self.assertEqual(len(partial), 1)

    def test_a_second_ctrl_c_leaves_at_once(self):
        hanger = "#!/bin/sh\ntrap '' TERM\nsleep 600\n"
        world = World()
        self.addCleanup(world.__exit__)
        world.agent("a", {"name": "a", "model": scripted(SLOW)}, files={"hanger": hanger})
        process = world.start(*RUN, "slow", "--json")
        for line in process.stdout:
            if b"message.delta" in line:
                break
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        self.assertEqual(process.returncode, 5)
        self.assertEqual(world.json(*RUN, "slow", check=5)["state"], "cancelled", "the cancel was durable")

    def test_I6_sigterm_leaves_the_turn_open_and_says_how_to_go_on(self):
        world, process = self.started()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=15)
        self.assertEqual(process.returncode, 143)
        self.assertEqual(world.json("why", "s")["reason"], "draining")
        self.assertEqual(len(world.records("turn.ended")), 0)

    def test_I6_sigterm_says_it_in_words(self):
        world = world_of(self, SLOW)
        process = world.start(*RUN, "slow")
        wait_for(lambda: os.path.exists(world.database) and world.records("turn.opened"), what="the turn")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=15)
        self.assertIn("pawl run -s s", err.decode())

    def test_I7_cancel_ends_a_running_turn_and_twice_is_harmless(self):
        world, process = self.started()
        status, _, err = world.run("cancel", "s")
        self.assertEqual(status, 0, err)
        process.communicate(timeout=10)
        self.assertEqual(process.returncode, 5)
        status, _, err = world.run("cancel", "s")
        self.assertEqual(status, 0)
        self.assertIn("no turn", err)
        turn = world.json("show", "s")["turns"][0]["id"]
        self.assertEqual(world.json("cancel", "s", turn)["state"], "cancelled")
        world.run("run", "-a", "a", "-s", "s", "hi", check=0)
        other = world.json("show", "s")["turns"][1]["id"]
        status, _, err = world.run("cancel", "s", other)
        self.assertEqual(status, 1)
        self.assertIn("ended already: completed", err)
        self.assertEqual(world.run("cancel", "s", "nosuchturn")[0], 2)
        self.assertEqual(world.run("cancel", "nobody")[0], 2)


class Looking(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World()
        cls.world.agent("a", {"name": "a", "model": scripted(TWO_CALLS, {"when": {"turn": "act"}, "text": "It is done."}, HELLO), "tools": list(TOOLS)})
        cls.world.run(*RUN, "act", check=0)
        cls.world.run("run", "-a", "a", "-s", "other", "hi", check=0)

    @classmethod
    def tearDownClass(cls):
        cls.world.__exit__()

    def test_sessions(self):
        _, out, _ = self.world.run("sessions", check=0)
        self.assertEqual([line.split()[0] for line in out.splitlines()], ["SESSION", "other", "s"])
        items = self.world.json("sessions")["items"]
        self.assertEqual([(s["id"], s["status"], s["agent"], s["usage"]["turns"]) for s in items], [("other", "idle", "a", 1), ("s", "idle", "a", 1)])
        self.assertEqual(len(self.world.json("sessions", "--status", "running")["items"]), 0)
        self.assertEqual(len(self.world.json("sessions", "--status", "idle", "-a", "a")["items"]), 2)
        self.assertEqual(self.world.run("sessions", "--status", "merry")[0], 2)

    def test_show(self):
        _, out, _ = self.world.run("show", "s", check=0)
        for words in ("1 user", "act", "→ look {\"id\":\"1\"}", "← {\"ok\":true,\"id\":\"1\"}", "It is done.", "turn ", "completed"):
            self.assertIn(words, out)
        shown = self.world.json("show", "s")
        self.assertEqual(shown["session"]["id"], "s")
        self.assertEqual([m["role"] for m in shown["messages"]], ["user", "assistant", "tool", "tool", "assistant"])
        self.assertEqual([m["n"] for m in shown["messages"]], [1, 2, 3, 4, 5])
        self.assertEqual(shown["turns"][0]["state"], "completed")
        self.assertEqual(self.world.run("show", "nobody")[0], 2)

    def test_M1_tail_from_any_event_is_the_rest(self):
        _, out, _ = self.world.run("tail", "s", "--no-follow", "--json", check=0)
        events, _ = events_of(out)
        self.assertEqual(events[0][1], "snapshot")
        for i, (cursor, _, _) in enumerate(events[1:], 1):
            _, rest, _ = self.world.run("tail", "s", "--no-follow", "--json", "--after", cursor, check=0)
            self.assertEqual(events_of(rest)[0][1:], events[i + 1:])
        self.assertEqual(self.world.run("tail", "s", "--no-follow", "--after", "nonsense")[0], 2)
        status, out, err = self.world.run("tail", "nobody", "--no-follow")
        self.assertEqual((status, out), (2, ""))
        self.assertIn('"nobody"', err)
        _, out, err = self.world.run("tail", "s", "--no-follow", check=0)
        self.assertIn("It is done.", out)
        self.assertIn("→ look (none)", err)

    def test_tail_follows_other_processes_and_ends_with_ctrl_c(self):
        tail = self.world.start("tail", "third", "--json")
        self.assertIn(b"snapshot", tail.stdout.readline())
        self.world.run("run", "-a", "a", "-s", "third", "hi", check=0)
        seen = []
        while "turn.completed" not in seen:
            seen.append(json.loads(tail.stdout.readline())["event"])
        self.assertEqual([name for name in seen if "message.queued" != name], ["turn.started", "message.completed", "turn.completed"])
        tail.send_signal(signal.SIGINT)
        tail.communicate(timeout=10)
        self.assertEqual(tail.returncode, 0)

    def test_why(self):
        self.assertRegex(self.world.run("why", "s", check=0)[1], r"^Idle: nothing waits\. Its last turn, [0-9a-f]{12}, completed at \S+Z\.\n$")
        why = self.world.json("why", "s")
        self.assertEqual(list(why), ["session", "state", "reason", "actor", "since", "words"])

    def test_verify_and_doctor(self):
        self.assertTrue(self.world.json("verify")["ok"])
        self.assertIn("ok", self.world.run("verify", check=0)[1])
        self.assertTrue(self.world.json("verify", "--rebuild")["ok"])
        doctor = self.world.json("doctor")
        self.assertIn("; schema 1;", next(c["detail"] for c in doctor["checks"] if c["name"] == "store"))
        self.assertLessEqual({"store", "sqlite", "libuv", "libcurl", "owners", "sessions", "quarantined", "due", "wal", "disk", "agents"}, {c["name"] for c in doctor["checks"]})

    def test_J3_looking_writes_nothing(self):
        before = os.stat(self.world.database)
        for arguments in (("sessions",), ("show", "s"), ("tail", "s", "--no-follow"), ("why", "s"), ("verify",), ("doctor",)):
            self.world.run(*arguments, check=0)
        after = os.stat(self.world.database)
        self.assertEqual((before.st_mtime_ns, before.st_size), (after.st_mtime_ns, after.st_size))

    def test_bench_prints_one_object(self):
        result = self.world.json("bench", "--sessions", "2", "--iterations", "10", "--baseline", limit=120, env={"TMPDIR": self.world.folder})
        self.assertLessEqual({"sessions", "iterations", "steps", "seconds", "steps_per_s", "step_p50_ms", "step_p99_ms", "bytes_per_step", "commits", "peak_rss_kb",
                              "baseline_steps_per_s", "ratio"}, set(result))
        self.assertEqual([name for name in os.listdir(self.world.folder) if name.startswith("pawl-bench")], [])


class Terminal(unittest.TestCase):
    def shown(self, world, *arguments, env=None, until=None, limit=30):
        """What a terminal gets, and the exit status."""
        parent, child = pty.openpty()
        process = subprocess.Popen([BIN, *arguments], stdin=child, stdout=child, stderr=child, env=dict(world.environment, **(env or {})), cwd=world.folder)
        os.close(child)
        out, end = b"", time.monotonic() + limit
        while time.monotonic() < end:
            if not select.select([parent], [], [], 0.1)[0]:
                if process.poll() is not None:
                    break
                continue
            try:
                piece = os.read(parent, 65536)
            except OSError:
                break
            if not piece:
                break
            out += piece
            if until and until in out:
                process.kill()
        process.wait()
        os.close(parent)
        return process.returncode, out.decode("utf-8", "replace").replace("\r\n", "\n")

    def test_text_streams_and_marks_are_coloured(self):
        world = world_of(self, TWO_CALLS, {"when": {"turn": "act"}, "text": "It is done, word by word.", "chunk": 3, "pace": "5ms"}, tools=TOOLS)
        status, out = self.shown(world, *RUN, "act")
        self.assertEqual(status, 0)
        self.assertIn("It is done, word by word.\n", out)
        self.assertRegex(out, "→ look \033\\[2m\\(none\\)\033\\[0m \\d+ ms \033\\[32m✓\033\\[0m")
        for env, more in (({"NO_COLOR": "1"}, ()), ({}, ("--no-color",))):
            self.assertNotIn("\033[3", self.shown(world, *RUN, "act", *more, env=env)[1])

    def test_a_stream_shows_before_its_end(self):
        world = world_of(self, {"text": "first " + "word " * 200, "chunk": 6, "pace": "50ms"})
        _, out = self.shown(world, *RUN, "go", until=b"first ")
        self.assertIn("first ", out)

    def test_C5_text_taken_back_is_marked(self):
        world = world_of(self, {"when": {"try": 1}, "text": "Half an answ", "cut": True}, {"text": "The whole answer."})
        status, out = self.shown(world, *RUN, "go")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"(?s)Half an answ\n.*taken back.*The whole answer\.")

    def test_a_long_wait_has_a_progress_line(self):
        world = world_of(self, {"when": {"step": 1}, "calls": [{"name": "look", "arguments": {"id": "1"}}]}, HELLO, tools=(command("look", "none", "4"),))
        _, out = self.shown(world, *RUN, "go")
        self.assertIn("… running look, 2 s", out)

    def test_N3_no_control_character_reaches_a_terminal(self):
        world = world_of(self, {"text": "clean\u001b]0;title\u0007 and \u009b31m more"})
        _, out = self.shown(world, *RUN, "go", env={"NO_COLOR": "1"})
        self.assertIn("clean?]0;title? and ?31m more", out)
        self.assertNotRegex(out, "[\u0007\u009b]|\u001b\\]")


if __name__ == "__main__":
    unittest.main()
