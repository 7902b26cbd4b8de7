"""A recognizer's server for tests, with PocketSphinx behind it: on the loopback alone, at a free port, whose number it
prints. It speaks the OpenAI protocol (POST /v1/audio/transcriptions) and that of whisper.cpp (POST /inference)."""

import io
import json
import re
import wave
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pocketsphinx import Decoder


def hear(samples):
    # A decoder of its own for each request: none depends on another.
    decoder = Decoder(samprate=16000, loglevel="FATAL")
    decoder.start_utt()
    decoder.process_raw(samples, full_utt=True)
    decoder.end_utt()
    parts = [part for part in decoder.seg()] if decoder.hyp() else []
    words = [part for part in parts if not part.word.startswith(("<", "[", "+"))]
    return [
        (re.sub(r"\(\d+\)$", "", part.word), part.start_frame / 100, (part.end_frame + 1) / 100, part.prob)
        for part in words
    ]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        head = b"content-type: " + self.headers["content-type"].encode() + b"\r\n\r\n"
        parts = message_from_bytes(head + body, policy=HTTP).iter_parts()
        form = {part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in parts}
        if form.get("response_format") != b"verbose_json":
            return self.answer(422, {"error": "response_format"})
        with wave.open(io.BytesIO(form["file"])) as sound:
            if (sound.getnchannels(), sound.getsampwidth(), sound.getframerate()) != (1, 2, 16000):
                return self.answer(422, {"error": "file"})
            samples = sound.readframes(sound.getnframes())
        words = hear(samples)
        text = " ".join(word for word, *_ in words)
        if self.path == "/v1/audio/transcriptions" and form.get("timestamp_granularities[]") == b"word":
            timed = [{"word": word, "start": start, "end": end} for word, start, end, _ in words]
            return self.answer(200, {"task": "transcribe", "text": text, "words": timed})
        if self.path == "/inference":
            timed = [{"word": " " + word, "start": start, "end": end, "probability": sure} for word, start, end, sure in words]
            segment = {"id": 0, "text": " " + text, "start": words[0][1], "end": words[-1][2], "words": timed}
            return self.answer(200, {"task": "transcribe", "text": " " + text, "segments": [segment]})
        return self.answer(404, {"error": "path"})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
