"""A recognizer on this machine behind the protocol of a cloud: PocketSphinx, as an HTTP server on loopback.

Started with one argument, a JSON object: {"sentences": [...] or null}. Without sentences it has the package's own dictionary and
language model. With public sentences it is adapted to them: its dictionary has their words, and its language model their
frequencies. It prints its port, one line, and answers `POST /v1/listen` with a WAV file as the body, as Deepgram does.
"""

import collections
import http.server
import json
import math
import os
import re
import sys
import tempfile
import threading

from pocketsphinx import Decoder, get_model_path

HEADER = 44
VARIANT = re.compile(r"\(\d+\)$")


def adapt(sentences, folder):
    """Writes a dictionary and unigrams of the sentences; returns both paths."""
    counts = collections.Counter(word for sentence in sentences for word in sentence.lower().split())
    dictionary = os.path.join(folder, "words.dict")
    with open(get_model_path("en-us/cmudict-en-us.dict")) as source, open(dictionary, "w") as target:
        for line in source:
            if VARIANT.sub("", line.split(" ", 1)[0]) in counts:
                target.write(line)
    counts["</s>"] = len(sentences)
    total = sum(counts.values())
    model = os.path.join(folder, "words.arpa")
    with open(model, "w") as target:
        target.write("\\data\\\nngram 1=%d\n\n\\1-grams:\n-99 <s> 0\n" % (len(counts) + 1))
        for word, count in sorted(counts.items()):
            target.write("%.4f %s 0\n" % (math.log10(count / total), word))
        target.write("\n\\end\\\n")
    return dictionary, model


def load(options):
    model = get_model_path("en-us/en-us")
    if options["sentences"]:
        with tempfile.TemporaryDirectory() as folder:
            dictionary, language = adapt(options["sentences"], folder)
            return Decoder(hmm=model, dict=dictionary, lm=language, samprate=16000, loglevel="FATAL")
    # Narrow beams: the whole dictionary takes no longer than the adapted one.
    return Decoder(hmm=model, samprate=16000, loglevel="FATAL", beam=1e-30, wbeam=1e-20, pbeam=1e-30, maxhmmpf=2000, ds=2)


def hear(decoder, samples):
    rate = decoder.config["frate"]
    decoder.start_utt()
    decoder.process_raw(samples, full_utt=True)
    decoder.end_utt()
    if decoder.hyp() is None:
        return []
    spoken = [part for part in decoder.seg() if not part.word.startswith(("<", "[", "+"))]
    return [
        {
            "word": VARIANT.sub("", part.word),
            "start": part.start_frame / rate,
            "end": (part.end_frame + 1) / rate,
            "confidence": min(1.0, max(0.0, part.prob)),
        }
        for part in spoken
    ]


class Listener(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    decoder = None
    lock = threading.Lock()

    def do_POST(self):
        sound = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.startswith("/v1/listen"):
            self.send_error(404)
            return
        with self.lock:
            words = hear(self.decoder, sound[HEADER:])
        text = " ".join(word["word"] for word in words)
        alternative = {"transcript": text, "confidence": 0.9, "words": words}
        body = json.dumps({"metadata": {}, "results": {"channels": [{"alternatives": [alternative]}]}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """No request is logged."""


def main():
    Listener.decoder = load(json.loads(sys.argv[1]))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


main()
