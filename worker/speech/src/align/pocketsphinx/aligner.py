"""Forced alignment with PocketSphinx for a program that speaks to it over its standard input and output.

Started with one argument, a JSON object: {"model": folder or null, "dictionary": file or null}. It says one line,
{"ready": {"program", "identity", "classes"}} or {"refused": why}; then it answers requests until its input ends. A request
is a line {"text", "bytes", "seconds"} and so many bytes of 16-bit samples, mono, 16 kHz, little-endian. An answer is one
line: {"runs": [[senone, frames], ...]}, {"unknown": [word, ...]} or {"failed": why}.

A decoder carries state from one utterance to the next (which Gaussians were best in the last frame, estimates of noise),
so that the labels of a recording would depend on whose was aligned before it. So none aligns twice: each request is
answered by a fork of the decoder as it was loaded. A crash or an endless search ends the fork and nothing else.
"""

import hashlib
import json
import os
import signal
import struct
import sys


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


def senones(model):
    """How many tied states the model definition declares, in its text or its binary form."""
    with open(os.path.join(model, "mdef"), "rb") as handle:
        content = handle.read()
    if content[:4] in (b"BMDF", b"FDMB"):
        order = "<" if content[:4] == b"BMDF" else ">"
        (_, skipped) = struct.unpack_from(order + "2i", content, 4)
        return struct.unpack_from(order + "5i", content, 12 + skipped)[4]
    for line in content.decode("utf-8", "replace").splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[1] == "n_tied_state":
            return int(fields[0])
    raise ValueError("its mdef declares no tied states")


def spelling(decoder, word):
    """The word as the dictionary writes it, or None."""
    for written in (word, word.lower(), word.upper()):
        if decoder.lookup_word(written) is not None:
            return written
    return None


def align(decoder, words, samples):
    decoder.set_align_text(" ".join(words))
    decoder.start_utt()
    decoder.process_raw(samples, full_utt=True)
    decoder.end_utt()
    if decoder.hyp() is None:
        return {"failed": "no alignment found: the transcript may be of another recording"}
    # Words are known; once more for the states in them.
    decoder.set_alignment()
    decoder.start_utt()
    decoder.process_raw(samples, full_utt=True)
    decoder.end_utt()
    runs, at = [], 0
    for word in decoder.get_alignment():
        for phone in word:
            for state in phone:
                if state.start != at:
                    return {"failed": "the alignment has a gap at frame %d" % at}
                runs.append([int(state.name), state.duration])
                at += state.duration
    if not runs:
        return {"failed": "no alignment found: the alignment has no state"}
    return {"runs": runs}


def answer(decoder, request, samples):
    written = [(word, spelling(decoder, word)) for word in request["text"].split()]
    unknown = sorted({word for word, known in written if known is None})
    if unknown:
        return {"unknown": unknown}
    if not written:
        return {"failed": "the transcript is empty"}
    return align(decoder, [known for _, known in written], samples)


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
                said = answer(decoder, request, samples)
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
            return {"failed": "not aligned within %g s" % request["seconds"]}
        return {"failed": "the aligner crashed (signal %d)" % number}
    try:
        return json.loads(said)
    except ValueError:
        return {"failed": "the aligner ended without an answer"}


def load(options):
    try:
        from importlib.metadata import version

        from pocketsphinx import Decoder, get_model_path
    except ImportError as error:
        raise ValueError("this Python has no package pocketsphinx (%s)" % error) from error
    model = options["model"] or get_model_path("en-us/en-us")
    dictionary = options["dictionary"] or get_model_path("en-us/cmudict-en-us.dict")
    for what, path in (("model", model), ("dictionary", dictionary)):
        if not os.path.exists(path):
            raise ValueError("there is no %s %s" % (what, path))
    try:
        # Without a search for the best path afterwards, which finds none for every seventh short utterance.
        decoder = Decoder(hmm=model, dict=dictionary, lm=None, samprate=16000, bestpath=False, loglevel="FATAL")
    except RuntimeError as error:
        raise ValueError("PocketSphinx cannot use model %s with dictionary %s" % (model, dictionary)) from error
    program = "pocketsphinx %s" % version("pocketsphinx")
    identity = hashlib.sha256((program + digest(model) + digest(dictionary)).encode()).hexdigest()
    return decoder, {"program": program, "identity": identity, "classes": senones(model)}


def main():
    # An interrupt at the terminal is the business of the program that reads the answers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        decoder, ready = load(json.loads(sys.argv[1]))
    except (ValueError, OSError, struct.error) as error:
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
