#!/usr/bin/env python3
"""A model that answers slowly, to count what a turn in flight costs: every request gets its first text at once, and the rest
only when as many requests as the first argument says are open together. Prints `port N`; speaks just enough of Anthropic's stream."""
import asyncio
import json
import sys

WANTED = int(sys.argv[1])
open_now = 0
all_here = None


def event(name, data):
    return f"event: {name}\ndata: {json.dumps(dict(data, type=name))}\n\n".encode()


BEGIN = event("message_start", {"message": {"id": "m", "type": "message", "role": "assistant", "model": "slow", "content": [], "stop_reason": None,
                                            "usage": {"input_tokens": 10, "output_tokens": 1}}}) + \
    event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}) + \
    event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Wait… "}})
END = event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "done."}}) + \
    event("content_block_stop", {"index": 0}) + \
    event("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}) + event("message_stop", {})


async def serve(reader, writer):
    global open_now
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length:")), 0)
            await reader.readexactly(length)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + BEGIN)
            await writer.drain()
            open_now += 1
            if open_now >= WANTED:
                print("all here", flush=True)
                await asyncio.sleep(2)
                all_here.set()
            await all_here.wait()
            writer.write(END)
            await writer.drain()
            break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def main():
    global all_here
    all_here = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
