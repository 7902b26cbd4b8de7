"""Recognition with PocketSphinx for a program that speaks to it over its standard input and output.

Started with one argument, a JSON object: {"model": folder or null, "dictionary": file or null, "language_model": file or
null}. It says one line, {"ready": {"program", "identity"}} or {"refused": why}; then it answers requests until its input
ends. A request is a line {"bytes", "seconds"} and so many bytes of 16-bit samples, mono, 16 kHz, little-endian. An answer is
one line: {"words": [[word, start, end, confidence], ...]} with times in seconds, or {"failed": why}.

A decoder carries state from one utterance to the next, so that what is heard would depend on what was heard before it. So
none hears twice: each request is answered by a fork of the decoder as it was loaded. A crash or an endless search ends the
fork and nothing else.
"""

import hashlib
import json
import os
import re
import signal
import sys

VARIANT = re.compile(r"\(\d+\)$")


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def digest(path):
    """SHA-256 of a file, or of all files of a folder with their names."""
    hasher = hashlib.sha256()
    names = sorted(os.listdir(path)) if os.path.isdir(path) else [None]
    for name in names:
        file = path if name is None else os.path.join(path, name)
        if os.path.isfile(file):
            with open(file, "rb") as handle:
                content = hashlib.sha256(handle.read()).digest()
            hasher.update(json.dumps(name).encode() + content)
    return hasher.hexdigest()


def spoken(word):
    """The word without the number of its pronunciation; None for silence, noise and sentence marks."""
    if word.startswith(("<", "[", "+")):
        return None
    return VARIANT.sub("", word)


def hear(decoder, samples):
    rate = decoder.config["frate"]
    decoder.start_utt()
    decoder.process_raw(samples, full_utt=True)
    decoder.end_utt()
    if decoder.hyp() is None:
        return {"words": []}
    words = [(spoken(part.word), part.start_frame, part.end_frame, part.prob) for part in decoder.seg()]
    return {
        "words": [
            [word, start / rate, (end + 1) / rate, min(1.0, max(0.0, sure))] for word, start, end, sure in words if word
        ]
    }


def forked(decoder, request, samples):
    """The answer of a fork, or how it ended without one."""
    sys.stdout.flush()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            # Ends the fork by itself wherever it is, also when nobody waits for it any more.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, request["seconds"])
            try:
                said = hear(decoder, samples)
            except Exception as error:
                said = {"failed": "%s: %s" % (type(error).__name__, error)}
            with os.fdopen(writer, "wb") as out:
                out.write(json.dumps(said).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        said = source.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGALRM:
            return {"failed": "not heard within %g s" % request["seconds"]}
        return {"failed": "it crashed (signal %d)" % number}
    try:
        return json.loads(said)
    except ValueError:
        return {"failed": "it ended without an answer"}


def load(options):
    try:
        from importlib.metadata import version

        from pocketsphinx import Decoder, get_model_path
    except ImportError as error:
        raise ValueError("this Python has no package pocketsphinx (%s)" % error) from error
    model = options["model"] or get_model_path("en-us/en-us")
    dictionary = options["dictionary"] or get_model_path("en-us/cmudict-en-us.dict")
    language = options["language_model"] or get_model_path("en-us/en-us.lm.bin")
    for what, path in (("model", model), ("dictionary", dictionary), ("language model", language)):
        if not os.path.exists(path):
            raise ValueError("there is no %s %s" % (what, path))
    try:
        decoder = Decoder(hmm=model, dict=dictionary, lm=language, samprate=16000, loglevel="FATAL")
    except RuntimeError as error:
        raise ValueError("PocketSphinx cannot use model %s with dictionary %s and language model %s"
                         % (model, dictionary, language)) from error
    program = "pocketsphinx %s" % version("pocketsphinx")
    parts = program + digest(model) + digest(dictionary) + digest(language)
    return decoder, {"program": program, "identity": hashlib.sha256(parts.encode()).hexdigest()}


def main():
    # An interrupt at the terminal is the business of the program that reads the answers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        decoder, ready = load(json.loads(sys.argv[1]))
    except (ValueError, OSError) as error:
        say({"refused": str(error)})
        return
    say({"ready": ready})
    source = sys.stdin.buffer
    for line in iter(source.readline, b""):
        request = json.loads(line)
        samples = source.read(request["bytes"])
        if len(samples) < request["bytes"]:
            return
        say(forked(decoder, request, samples))


main()
