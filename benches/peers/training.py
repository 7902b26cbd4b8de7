"""Steps of the acoustic model in PyTorch, and DP-SGD steps of it in Opacus, on the CPU: a JSON object of figures.

    training.py versions
    training.py MODE UTTERANCES FRAMES INPUTS HIDDEN CLASSES STEPS THREADS

MODE is `plain`, a step without protection; `hooks`, where Opacus holds the gradient of each utterance in memory; or `ghost`, where it
computes their norms first and clips in a second backward pass. The unit is an utterance, and its loss the mean over its frames. Data,
clip and noise are those of the product's own measurement: random numbers, 1 and 1. The first step is left out: it initializes."""

import importlib.metadata
import json
import platform
import resource
import statistics
import sys
import time
import warnings

# Opacus warns that its generator of noise is not for production.
warnings.filterwarnings("ignore")

import torch
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.layers import DPLSTM
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn

CLIP, NOISE = 1.0, 1.0


class AcousticModel(nn.Module):
    """A recurrent layer, and a classifier of each frame."""

    def __init__(self, recurrent, inputs, hidden, classes):
        super().__init__()
        self.recurrent = recurrent(inputs, hidden, batch_first=True)
        self.classifier = nn.Linear(hidden, classes)

    def forward(self, features):
        activations, _ = self.recurrent(features)
        return self.classifier(activations)


def new_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)


def make_step(mode, utterances, inputs, hidden, classes):
    """Returns a function that trains on a batch: features [utterances, frames, inputs], labels [utterances, frames]."""
    model = AcousticModel(nn.LSTM if mode == "plain" else DPLSTM, inputs, hidden, classes)
    criterion = nn.CrossEntropyLoss()
    private = {"noise_multiplier": NOISE, "max_grad_norm": CLIP, "expected_batch_size": utterances}
    if mode == "plain":
        optimizer = new_optimizer(model)
    elif mode == "hooks":
        model = GradSampleModule(model)
        optimizer = DPOptimizer(new_optimizer(model), **private)
    elif mode == "ghost":
        model = GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP)
        optimizer = DPOptimizerFastGradientClipping(new_optimizer(model), **private)
        criterion = DPLossFastGradientClipping(model, optimizer, criterion)
    else:
        raise SystemExit(f"modes are plain, hooks and ghost, not {mode}")
    # Opacus learns from it which frames are of one utterance.
    by_utterance = mode == "ghost"

    def step(features, labels):
        optimizer.zero_grad()
        logits = model(features)
        arguments = {"shape": logits.shape} if by_utterance else {}
        criterion(logits.flatten(0, 1), labels.flatten(), **arguments).backward()
        optimizer.step()

    return step


def measure(mode, utterances, frames, inputs, hidden, classes, steps, threads):
    torch.manual_seed(1)
    torch.set_num_threads(threads)
    step = make_step(mode, utterances, inputs, hidden, classes)
    seconds = []
    for _ in range(steps + 1):
        features = torch.rand(utterances, frames, inputs) - 0.5
        labels = torch.randint(classes, (utterances, frames))
        begun = time.perf_counter()
        step(features, labels)
        seconds.append(time.perf_counter() - begun)
    median = statistics.median(seconds[1:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": median, "frames_per_second": utterances * frames / median, "peak_mebibytes": peak}


mode, *rest = sys.argv[1:]
if mode == "versions":
    names = ("torch", "opacus")
    print(json.dumps({"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}}))
else:
    print(json.dumps(measure(mode, *map(int, rest))))
