#!/usr/bin/env python3
"""A model whose every answer is the same stream of about N bytes of text, in the protocol asked for by path. Prints `port P`."""
import asyncio
import json
import sys

WORDS = "The quick brown fox jumps over the lazy dog, and says “why not?” "
TEXT = [(WORDS * 2)[i * 20 % len(WORDS):][:20] for i in range(int(sys.argv[1]) // 20)]


def event(name, data):
    return f"event: {name}\ndata: {json.dumps(dict(data, type=name), ensure_ascii=False)}\n\n".encode()


def messages():
    yield event("message_start", {"message": {"id": "m", "type": "message", "role": "assistant", "model": "long", "content": [], "stop_reason": None,
                                              "usage": {"input_tokens": 10, "output_tokens": 1}}})
    yield event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
    for piece in TEXT:
        yield event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": piece}})
    yield event("content_block_stop", {"index": 0})
    yield event("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 50000}})
    yield event("message_stop", {})


def responses():
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    whole = dict(item, status="completed", content=[{"type": "output_text", "text": "".join(TEXT), "annotations": []}])
    done = {"id": "resp_1", "object": "response", "model": "long", "status": "completed", "output": [whole],
            "usage": {"input_tokens": 10, "output_tokens": 50000, "total_tokens": 50010}}
    yield event("response.created", {"sequence_number": 0, "response": dict(done, status="in_progress", output=[], usage=None)})
    yield event("response.output_item.added", {"sequence_number": 1, "output_index": 0, "item": item})
    yield event("response.content_part.added", {"sequence_number": 2, "output_index": 0, "content_index": 0, "item_id": "msg_1",
                                                "part": {"type": "output_text", "text": "", "annotations": []}})
    for n, piece in enumerate(TEXT):
        yield event("response.output_text.delta", {"sequence_number": 3 + n, "output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": piece})
    yield event("response.output_item.done", {"sequence_number": 4 + len(TEXT), "output_index": 0, "item": whole})
    yield event("response.completed", {"sequence_number": 5 + len(TEXT), "response": done})


def chat():
    def chunk(delta, finish=None):
        return b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "model": "long", "choices": [
            {"index": 0, "delta": delta, "finish_reason": finish}]}, ensure_ascii=False).encode() + b"\n\n"
    yield chunk({"role": "assistant", "content": ""})
    for piece in TEXT:
        yield chunk({"content": piece})
    yield chunk({}, "stop")
    yield b'data: {"id":"c","object":"chat.completion.chunk","model":"long","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":50000}}\n\n'
    yield b"data: [DONE]\n\n"


BODIES = {b"/messages": b"".join(messages()), b"/responses": b"".join(responses()), b"/completions": b"".join(chat())}


async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
            await reader.readexactly(length)
            body = next(body for end, body in BODIES.items() if head.split(b" ")[1].endswith(end))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=64)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
