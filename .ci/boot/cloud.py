"""A recognizer in the cloud, on loopback: HTTP, the protocol `deepgram`, and PocketSphinx to hear with. Needs no key.

python3 cloud.py PORT
"""

import http.server
import io
import json
import sys
import wave

import pocketsphinx


def heard(file):
    """Words with beginning and end, seconds."""
    with wave.open(io.BytesIO(file)) as sound:
        rate, samples = sound.getframerate(), sound.readframes(sound.getnframes())
    decoder = pocketsphinx.Decoder(samprate=rate)
    decoder.start_utt()
    decoder.process_raw(samples, full_utt=True)
    decoder.end_utt()
    for segment in decoder.seg() or []:
        if segment.word[0] not in "<[+":
            yield segment.word.split("(")[0], segment.start_frame / 100, (segment.end_frame + 1) / 100


class Cloud(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        sound = self.rfile.read(int(self.headers["content-length"]))
        words = [{"word": word, "start": start, "end": end, "confidence": 0.9} for word, start, end in heard(sound)]
        text = " ".join(word["word"] for word in words)
        channel = {"alternatives": [{"transcript": text, "confidence": 0.9, "words": words}]}
        answer = json.dumps({"metadata": {"channels": 1}, "results": {"channels": [channel]}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        print("heard a sound", flush=True)


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Cloud).serve_forever()
