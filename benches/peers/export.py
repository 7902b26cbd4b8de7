"""Compares the scores of an exported ONNX graph in onnxruntime with those that the worker computed.

    undertone-worker export model.safetensors --output model.onnx --examples examples.safetensors
    pip install onnx onnxruntime safetensors numpy
    python benches/peers/export.py model.onnx examples.safetensors

Prints the greatest difference of the logits and of the probabilities, and the share of frames with the same first
class. Fails above 1e-3 in a logit, relative to the largest logit (at least 1), or below 99.9 % of equal first classes.
"""

import argparse

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file


def softmax(logits):
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph")
    parser.add_argument("examples")
    paths = parser.parse_args()
    onnx.checker.check_model(onnx.load(paths.graph), full_check=True)
    session = onnxruntime.InferenceSession(paths.graph, providers=["CPUExecutionProvider"])
    tensors = load_file(paths.examples)
    worst, worst_probability, scale, same, frames = 0.0, 0.0, 1.0, 0, 0
    for name in sorted(tensors):
        if not name.startswith("features."):
            continue
        expected = tensors[name.replace("features", "logits")]
        # Twice, as a batch: the recordings of a batch must not influence each other.
        batch = np.stack([tensors[name], tensors[name][::-1]])
        (scores,) = session.run(["logits"], {"features": batch})
        difference = np.abs(scores[0] - expected)
        worst = max(worst, float(difference.max()))
        worst_probability = max(worst_probability, float(np.abs(softmax(scores[0]) - softmax(expected)).max()))
        scale = max(scale, float(np.abs(expected).max()))
        same += int((scores[0].argmax(-1) == expected.argmax(-1)).sum())
        frames += len(expected)
        print(f"{name}: {len(expected)} frames, greatest difference of a logit {difference.max():.3g}")
    print(f"greatest difference: logit {worst:.3g} (largest logit {scale:.3g}), probability {worst_probability:.3g}")
    print(f"same first class: {same} of {frames} frames")
    if frames == 0 or worst > 1e-3 * scale or same < 0.999 * frames:
        raise SystemExit("the graph does not give the scores of the worker")


if __name__ == "__main__":
    main()
