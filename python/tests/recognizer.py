"""An external recognizer on the loopback, for tests: PocketSphinx behind the OpenAI protocol (`POST /v1/audio/transcriptions`). It prints
its port. Its Python is that of `.ci/aligner.sh`, and the decoder is made once."""

import io
import json
import re
import threading
import wave
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pocketsphinx import Decoder  # type: ignore[import-not-found]

LOCK = threading.Lock()
DECODER = Decoder(samprate=16000, loglevel="FATAL")


def recognize(samples: bytes) -> list[dict[str, Any]]:
    """Returns the words of 16-bit samples at 16 kHz with their times in seconds."""
    with LOCK:
        DECODER.start_utt()
        DECODER.process_raw(samples, full_utt=True)
        DECODER.end_utt()
        parts = list(DECODER.seg()) if DECODER.hyp() else []
    words = [part for part in parts if not part.word.startswith(("<", "[", "+"))]
    return [
        {"word": re.sub(r"\(\d+\)$", "", part.word), "start": part.start_frame / 100, "end": (part.end_frame + 1) / 100} for part in words
    ]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        head = b"content-type: " + self.headers["content-type"].encode() + b"\r\n\r\n"
        parts = message_from_bytes(head + body, policy=HTTP).iter_parts()
        form: dict[Any, Any] = {part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in parts}
        with wave.open(io.BytesIO(form["file"])) as sound:
            words = recognize(sound.readframes(sound.getnframes()))
        text = " ".join(word["word"] for word in words)
        content = json.dumps({"task": "transcribe", "language": "english", "text": text, "words": words}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
