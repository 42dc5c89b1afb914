#!/usr/bin/env python3
"""What calls cost: lists of prices, bounds in money that hold for real models, and models that nobody has priced."""
import json
import os
import unittest

from harness import Asking

ANY = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
SEND = {"name": "send", "kind": "command", "effects": "once", "run": ["./effect", "send"], "env": ["LEDGER"], "input": ANY}


def price(**more):
    return {"provider": "anthropic", "models": ["claude-test-*"], "input": 10, "output": 50, **more}


def listed(*prices):
    return {"date": "2026-11-30", "prices": list(prices)}


class Prices(unittest.TestCase):
    def world(self, script, prices=None, **more):
        world = Asking(script, [SEND], **more)
        self.addCleanup(world.__exit__)
        if prices is not None:
            self.file(world, prices)
        return world

    @staticmethod
    def file(world, prices):
        path = os.path.join(world.folder, "prices.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(prices if isinstance(prices, str) else json.dumps(prices))
        world.environment["PAWL_PRICES"] = path
        return path

    def test_case_L1_G1_a_cap_in_money_stops_after_the_call_that_goes_over_it(self):
        # 20,000 in at 10 and 2,000 out at 50 a million: 0.30 a call
        script = [{"reply": {"calls": [{"name": "send", "input": {"id": f"c{n}"}}], "usage": {"input_tokens": 20000, "output_tokens": 2000}}, "when": {"call": n}} for n in range(1, 8)]
        world = self.world(script, listed(price()), budget={"max_cost_usd": 1.00})
        turn = world.ask("go", "s", "r", check=3)
        self.assertEqual((turn["state"], turn["reason"]), ("paused", "max_cost_usd"))
        self.assertEqual(turn["usage"]["cost_usd"], "1.2")
        self.assertEqual(turn["usage"]["unpriced_calls"], 0)
        self.assertEqual(len(world.fm.requests), 4)
        self.assertEqual([i for _, i, _ in world.ledger()], ["c1", "c2", "c3"], "no tool after the call that went over")
        self.assertEqual(world.ask("go", "s", "r", check=3)["id"], turn["id"], "and again: recorded, nothing asked")
        self.assertEqual(len(world.fm.requests), 4)

    def test_G1_a_model_that_has_no_price_is_counted_and_the_other_bounds_hold(self):
        script = [{"reply": {"calls": [{"name": "send", "input": {"id": f"c{n}"}}], "usage": {"input_tokens": 20000, "output_tokens": 2000}}, "when": {"call": n}} for n in range(1, 8)]
        world = self.world(script, budget={"max_cost_usd": 0.01, "max_tokens": 50000})
        turn = world.ask("go", check=3)
        self.assertEqual((turn["state"], turn["reason"]), ("paused", "max_tokens"))
        self.assertEqual((turn["usage"]["unpriced_calls"], turn["usage"]["cost_usd"]), (3, None))

    def test_G1_cache_writes_of_an_hour_searches_and_terms_are_priced_or_unknown(self):
        usage = {"input_tokens": 1000, "output_tokens": 100, "cache_read_input_tokens": 10000, "cache_creation_input_tokens": 3000,
                 "cache_creation": {"ephemeral_5m_input_tokens": 2000, "ephemeral_1h_input_tokens": 1000}, "server_tool_use": {"web_search_requests": 2}, "service_tier": "standard"}
        script = [{"when": {"turn": "fast"}, "reply": {"text": "Hi.", "usage": {**usage, "speed": "fast"}}}, {"reply": {"text": "Hi.", "usage": usage}}]
        world = self.world(script, listed(price(web_search=0.01)))
        cost = (1000 * 10 + 100 * 50 + 10000 * 1 + 2000 * 12.5 + 1000 * 20) / 1e6 + 0.02
        self.assertAlmostEqual(float(world.ask("hi")["usage"]["cost_usd"]), cost, places=9)
        turn = world.ask("fast")
        self.assertEqual((turn["usage"]["cost_usd"], turn["usage"]["unpriced_calls"]), (None, 1))
        stored = [body["usage"] for _, _, _, _, body in world.records("model.completed")]
        self.assertEqual(set(stored[0]), {"in_uncached", "in_cache_read", "in_cache_write", "out", "cost_micros"}, "no more is journalled")

    def test_G6_a_stream_that_broke_is_priced_as_far_as_it_came(self):
        script = [{"when": {"call": 1}, "reply": {"text": "Half of " * 50, "usage": {"input_tokens": 100000, "output_tokens": 9}, "cut": {"after": 900, "how": "fin"}}},
                  {"reply": {"text": "Whole.", "usage": {"input_tokens": 100000, "output_tokens": 0}}}]
        world = self.world(script, listed(price()))
        turn = world.ask("hi")
        self.assertEqual((turn["text"], turn["usage"]["retries"], turn["usage"]["unpriced_calls"]), ("Whole.", 1, 0))
        self.assertEqual(turn["usage"]["cost_usd"], "2.00005")

    def test_the_model_that_answered_is_priced_before_the_one_that_was_asked(self):
        script = [{"when": {"turn": "other"}, "reply": {"text": "Hi.", "model": "claude-sonnet-4-5-20250929", "usage": {"input_tokens": 1000000, "output_tokens": 0}}},
                  {"reply": {"text": "Hi.", "model": "nobody-knows", "usage": {"input_tokens": 1000000, "output_tokens": 0}}}]
        world = self.world(script, listed(price()))
        self.assertEqual(world.ask("other")["usage"]["cost_usd"], "3")
        self.assertEqual(world.ask("hi")["usage"]["cost_usd"], "10")

    def test_a_list_that_is_wrong_names_file_and_member(self):
        world = self.world([{"reply": {"text": "Hi."}}])
        for prices, says in ((listed(price(outputt=1)), "outputt"), (listed(price(input="1")), "/prices/0/input"), (listed(price(input=-1)), "/prices/0/input"), ("{", "byte"), ({"prices": []}, "date")):
            path = self.file(world, prices)
            status, out, err = world.run(*world.command("hi"))
            self.assertEqual((status, out), (2, ""), err)
            self.assertIn(path, err)
            self.assertIn(says, err)
        world.environment["PAWL_PRICES"] = "/nowhere/prices.json"
        status, _, err = world.run(*world.command("hi"))
        self.assertEqual(status, 2, err)
        self.assertIn("there is no such file", err)
        self.assertEqual(world.fm.requests, [])


if __name__ == "__main__":
    unittest.main()
