#!/usr/bin/env python3
"""Several processes on one session, through the program and a strict fake provider: who runs, who follows, who takes over, and what a reader sees."""
import json
import os
import threading
import unittest

from harness import Asking, call, command, events_of, folded, kill, wait_for

SLOW = {"text": "A slow answer that takes its time. ", "chunk": 5, "pace": 0.02, "stall": {"after": 6, "for": 120, "ping": 0.2}}


def end_of(process, limit=60):
    """(exit status, events, turn, standard error) of a process that was started with --json."""
    out, err = process.communicate(timeout=limit)
    return process.returncode, *events_of(out.decode()), err.decode()


def until(process, word):
    """Reads the output up to the line that holds the word; returns what was read."""
    read = ""
    for line in process.stdout:
        read += line.decode()
        if word.encode() in line:
            return read
    raise AssertionError(f"{word} never came: {read[-2000:]} {process.stderr.read().decode()[-2000:]}")


class Owners(unittest.TestCase):
    def world(self, *arguments, **more):
        world = Asking(*arguments, **more)
        self.addCleanup(world.__exit__)
        return world

    def contiguous(self, world):
        for session, in world.query("select id from pawl_sessions"):
            rows = world.query("select seq, epoch from pawl_journal where session = ? order by seq", session)
            self.assertEqual([seq for seq, _ in rows], list(range(1, len(rows) + 1)))
            epochs = [epoch for _, epoch in rows]
            self.assertEqual(epochs, sorted(epochs), "an older epoch never writes after a newer one")

    def test_A3_B1_B5_J2_a_second_process_admits_behind_the_first_and_both_are_answered_in_order(self):
        world = self.world([{"when": {"turn": "first"}, "reply": {"text": "One. " * 20, "chunk": 5, "pace": 0.05}}, {"when": {"turn": "second"}, "reply": {"text": "Two."}}])
        first = world.start(*world.command("marker:s first", "s", "r1"), "--json")
        until(first, '"message.delta"')
        second = world.start(*world.command("marker:s second", "s", "r2"), "--json")
        wait_for(lambda: len(world.query("select 1 from pawl_inbox")) == 2, what="the second message")
        self.assertEqual(len(world.records("turn.opened")), 1, "admitted while the first runs")
        status, events, turn, _ = end_of(first)
        self.assertEqual((status, turn["text"]), (0, "One. " * 20))
        status, events, turn, _ = end_of(second)
        self.assertEqual((status, turn["text"]), (0, "Two."))
        self.assertEqual((turn["attempts"], turn["usage"]["lost_calls"]), (1, 0), "the first let go at its own turn's end")
        self.assertEqual(len(world.fm.requests), 2)
        self.assertEqual(world.fm.max_concurrent["s"], 1)
        self.contiguous(world)

    def test_case_A1_F2_J2_a_follower_takes_over_when_the_owner_is_killed_and_ends_the_same_turn(self):
        world = self.world([{"replies": [SLOW, {"text": "Taken over."}]}])
        first = world.start(*world.command("marker:s go", "s", "r"), "--json")
        shown = until(first, '"message.delta"')
        turn_id = next(d["turn"] for _, n, d in events_of(shown)[0] if n == "turn.started")
        second = world.start(*world.command("marker:s go", "s", "r"), "--json")
        third = world.start(*world.command("marker:s go", "s", "r"), "--json")
        until(second, '"snapshot"')
        until(third, '"snapshot"')
        self.assertEqual(len(world.fm.requests), 1, "followers ask nothing")
        kill(first)
        for follower in (second, third):
            status, events, turn, err = end_of(follower)
            self.assertEqual((status, turn["state"], turn["text"], turn["id"]), (0, "completed", "Taken over.", turn_id), err)
            self.assertEqual((turn["attempts"], turn["usage"]["lost_calls"]), (2, 1))
            self.assertEqual([d["attempt"] for _, n, d in events if n == "attempt.started"], [2])
            self.assertEqual(len([1 for _, n, _ in events if n.startswith("turn.completed")]), 1)
        self.assertEqual(len(world.fm.requests), 2)
        self.assertEqual(len(world.records("turn.ended")), 1)
        self.contiguous(world)

    def test_case_A1_three_owners_killed_in_a_row_and_the_last_ends_it(self):
        world = self.world([{"when": {"session_call": n}, "reply": SLOW} for n in (1, 2, 3)] + [{"reply": {"text": "At last."}}])
        processes = [world.start(*world.command("marker:s go", "s", "r"), "--json")]
        until(processes[0], '"message.delta"')
        for n in (1, 2, 3):
            processes.append(world.start(*world.command("marker:s go", "s", "r"), "--json"))
            until(processes[-1], '"snapshot"')
            kill(processes[-2])
            world.fm.wait(lambda fm: len(fm.requests) == n + 1, 60)
            if n < 3:
                until(processes[-1], '"message.delta"')
        status, _, turn, err = end_of(processes[-1])
        self.assertEqual((status, turn["state"], turn["text"], turn["attempts"], turn["usage"]["lost_calls"]), (0, "completed", "At last.", 4, 3), err)
        self.contiguous(world)

    def test_J1_J2_take_over_from_a_live_owner_leaves_it_nothing_to_change(self):
        world = self.world([{"when": {"session_call": 1}, "reply": SLOW}, {"when": {"role": "user"}, "reply": {"calls": [call("send")]}}, {"reply": {"text": "The new one's answer."}}],
                           [command("send", "once", "./effect", "1")])
        first = world.start(*world.command("marker:s go", "s", "r"), "--json")
        until(first, '"message.delta"')
        epoch = world.query("select epoch from pawl_sessions")[0][0]
        second = world.start(*world.command("marker:s go", "s", "r", "--take-over"), "--json")
        status, _, turn, err = end_of(second)
        self.assertEqual((status, turn["state"], turn["text"]), (0, "completed", "The new one's answer."), err)
        ended, events, told, err = end_of(first)
        self.assertIn(ended, (0, 6))
        self.assertRegex(err.lower() + json.dumps([n for _, n, _ in events]), "fenced|taken over|took|attempt.started", "the old one says what became of it")
        if told:
            self.assertEqual(told["text"], "The new one's answer.")
        self.assertEqual([i for _, i, _ in world.ledger()], ["1"])
        self.assertEqual(len(world.fm.requests), 3)
        self.assertLessEqual(world.fm.max_concurrent["s"], 2)
        self.assertEqual(world.fm.open["s"], 0, "no request stays open")
        after = world.query("select count(*) from pawl_journal where epoch <= ? and seq > (select min(seq) from pawl_journal where epoch > ?)", epoch, epoch)
        self.assertEqual(after, [(0,)])
        self.assertEqual([r[4]["attempt"] for r in world.records("attempt.started")], [2])
        self.contiguous(world)

    def test_case_J2_eight_processes_on_one_session_never_ask_at_the_same_time(self):
        world = self.world([{"when": {"role": "user"}, "reply": {"calls": [call("send", "{{last}}")], "delay": 0.05}}, {"reply": {"text": "Done {{n}}.", "delay": 0.05}}], [command("send", "once")])
        processes = [world.start(*world.command(f"marker:s message {i}", "s", f"r{i}"), "--json") for i in range(8)]
        for process in processes:
            status, _, turn, err = end_of(process, 100)
            self.assertEqual((status, turn["state"]), (0, "completed"), err)
        self.assertEqual(world.fm.max_concurrent["s"], 1)
        self.assertEqual(len(world.ledger()), len(world.records("turn.opened")), "one effect a turn: messages that waited together are one (B8)")
        self.assertEqual(world.refusals(), [])
        order = [request for request, in world.query("select request_id from pawl_inbox order by n")]
        opened = [r["id"] for record in world.records("turn.opened") for r in record[4]["requests"]]
        self.assertEqual(opened, order, "in admission order")
        self.assertEqual(world.query("select count(*) from pawl_inbox where disposition = 0")[0][0], 0)
        self.contiguous(world)
        self.assertEqual(world.run("verify")[0], 0)

    def test_A1_the_recorded_result_is_told_again_without_a_request(self):
        world = self.world([{"reply": {"text": "Once."}}])
        turns = [world.ask("go", "s", "r") for _ in range(3)]
        self.assertEqual([t["text"] for t in turns], ["Once."] * 3)
        self.assertEqual(len({t["id"] for t in turns}), 1)
        self.assertEqual(len(world.fm.requests), 1)

    def test_M1_M6_H3_tail_from_each_stored_cursor_is_exactly_what_follows(self):
        cut = {"text": "to be taken back " * 10, "chunk": 5, "pace": 0.01, "cut": {"after": 1500, "how": "rst"}}
        world = self.world([{"when": {"turn": "tools", "tool_results": 0}, "replies": [cut, {"text": "I look.", "calls": [call("look"), call("send"), call("nothing")]}]}, {"reply": {"text": "Fine."}}],
                           [command("look", "none"), command("send", "once")])
        live = world.watch("tools", "s", "r1")[1] + world.watch("plain", "s", "r2")[1]
        world.fm.set_script([{"reply": {"status": 403, "error": {"type": "permission_error", "message": "no"}}}])
        live += world.watch("fails", "s", "r3", check=1)[1]
        tail = lambda *more: events_of(world.run("tail", "s", "--no-follow", "--json", *more, check=0)[1])[0]
        stored = lambda events: [e for e in events if e[0] and "." not in e[0] and e[1] not in ("snapshot", "message.delta")]
        whole = stored(tail())
        names = [name for _, name, _ in whole]
        self.assertEqual(names, ["turn.started", "message.restarted", "model.retrying", "message.completed", "action.requested", "action.requested", "action.requested", "action.completed", "action.completed",
                                 "action.completed", "message.completed", "turn.completed", "turn.started", "message.completed", "turn.completed", "turn.started", "turn.failed"])
        self.assertEqual(len({i for i, _, _ in whole}), len(whole), "ids are unique")
        self.assertEqual([e for e in stored(live)], whole, "live and replayed events are the same")
        for at, (cursor, name, _) in enumerate(whole):
            self.assertEqual(stored(tail("--after", cursor)), whole[at + 1:], f"after {cursor} ({name})")
        self.assertEqual(stored(tail("--after", "0")), whole)
        self.assertNotEqual(world.run("tail", "s", "--no-follow", "--after", "garbage")[0], 0)

    def test_M1_J3_a_tail_that_runs_beside_a_turn_and_its_takeover_sees_each_stored_event_once(self):
        world = self.world([{"when": {"role": "user"}, "reply": {"calls": [call("look")]}}, {"when": {"session_call": 2}, "reply": SLOW}, {"reply": {"text": "Taken over."}}], [command("look", "none")])
        first = world.start(*world.command("marker:s go", "s", "r"), "--json")
        until(first, '"message.delta"')
        tails = [world.start("tail", "s", "--json") for _ in range(3)]
        for tail in tails:
            until(tail, '"action.completed"')
        kill(first)
        self.assertEqual(world.ask("marker:s go", "s", "r")["text"], "Taken over.")
        stored = events_of(world.run("tail", "s", "--no-follow", "--json")[1])[0]
        expected = [(i, n) for i, n, _ in stored if n not in ("snapshot",)]
        for tail in tails:
            got = events_of(until(tail, '"turn.completed"'))[0]
            kill(tail)
            self.assertEqual([(i, n) for i, n, _ in got if n in ("attempt.started", "message.completed", "turn.completed")],
                             [(i, n) for i, n in expected if n in ("attempt.started", "message.completed", "turn.completed")])
        self.assertEqual(world.records("attempt.started")[0][4]["attempt"], 2)
        self.contiguous(world)

    def test_I7_cancel_from_another_process_stops_the_stream_at_once_and_never_hits_the_next_turn(self):
        world = self.world([{"when": {"turn": "slow"}, "reply": SLOW}, {"reply": {"text": "Next.", "delay": 0.3}}])
        first = world.start(*world.command("slow", "s", "r1"), "--json")
        until(first, '"message.delta"')
        world.run("cancel", "s", check=0)
        world.fm.wait(lambda fm: any(e["how"] == "client_closed" for e in fm.ended), 10)
        status, _, turn, _ = end_of(first)
        self.assertEqual((status, turn["state"], turn["reason"]), (5, "cancelled", "user"))
        second = world.start(*world.command("next", "s", "r2"), "--json")
        world.fm.wait(lambda fm: len(fm.requests) == 2, 30)
        world.run("cancel", "s", turn["id"])
        status, _, turn, err = end_of(second)
        self.assertEqual((status, turn["state"], turn["text"]), (0, "completed", "Next."), err)

    def test_I1_a_cancel_taken_by_a_dead_owners_session_ends_the_turn_without_a_request(self):
        world = self.world([{"reply": SLOW}])
        first = world.start(*world.command("marker:s slow", "s", "r1"), "--json")
        until(first, '"message.delta"')
        kill(first)
        world.run("cancel", "s", check=0)
        self.assertEqual(len(world.fm.requests), 1)
        self.assertEqual(len(world.records("turn.ended")), 1)
        world.fm.set_script([{"reply": {"text": "Next."}}])
        self.assertEqual(world.ask("next", "s", "r2")["text"], "Next.")


if __name__ == "__main__":
    unittest.main()
