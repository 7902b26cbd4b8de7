"""The peer of `make bench NAME=tabular`: data of scikit-learn, and training by Opacus on the inputs of the product's own measurement.

Answers each line of the standard input, a JSON object with one key, with a JSON object: `versions`, `data` (the name of a data set),
`load` (inputs and labels to train on and to measure on) and `train` (one run on the loaded data). A row is a unit. Both ways to clip are
Opacus' own: `hooks` keeps the gradient of each row, `ghost` computes their norms first and clips in a second backward pass. The time is that
of sampling and steps alone."""

import importlib.metadata
import json
import platform
import sys
import time
import warnings

# Opacus warns that its generator of noise is not for production.
warnings.filterwarnings("ignore")

import sklearn.datasets
import torch
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn


class RowModel(nn.Module):
    """The model of rows of the product: the mean vector of each text beside the numbers, dense layers with tanh, a linear layer."""

    def __init__(self, inputs, classes, hidden, text):
        super().__init__()
        self.text = text
        width = inputs
        if text:
            self.plain = inputs - text["grams"]
            self.embedding = nn.Embedding(text["buckets"], text["width"])
            nn.init.uniform_(self.embedding.weight, -1.0, 1.0)
            width = self.plain + text["width"]
        layers = []
        if hidden:
            layers = [nn.Linear(width, hidden), nn.Tanh()]
            width = hidden
        self.layers = nn.Sequential(*layers, nn.Linear(width, classes))

    def forward(self, rows):
        if self.text:
            symbols = rows[:, self.plain :].long()
            present = (symbols >= 0).unsqueeze(2)
            vectors = self.embedding(symbols.clamp(min=0)) * present
            mean = vectors.sum(1) / present.sum(1).clamp(min=1)
            rows = torch.cat([rows[:, : self.plain], mean], 1)
        return self.layers(rows)


def read_data(name):
    data = {"breast_cancer": sklearn.datasets.load_breast_cancer, "digits": sklearn.datasets.load_digits}[name]()
    return {"inputs": data.data.tolist(), "labels": data.target.tolist()}


def read_versions():
    names = ("torch", "opacus", "scikit-learn")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}}


def train(data, run):
    """Returns the accuracy of a run on the rows that were not trained on, and the seconds of its steps."""
    torch.manual_seed(run["seed"])
    inputs, labels = data["inputs"], data["labels"]
    classes = data["classes"]
    model = RowModel(inputs.shape[1], classes, run["hidden"], run["text"])
    plain = torch.optim.Adam(model.parameters(), lr=run["learning_rate"])
    private = {
        "noise_multiplier": run["noise_multiplier"],
        "max_grad_norm": run["clip"],
        "expected_batch_size": run["sampling_rate"] * len(inputs),
    }
    criterion = nn.CrossEntropyLoss()
    if run["mode"] == "hooks":
        trained = GradSampleModule(model)
        optimizer = DPOptimizer(plain, **private)
    else:
        trained = GradSampleModuleFastGradientClipping(model, max_grad_norm=run["clip"])
        optimizer = DPOptimizerFastGradientClipping(plain, **private)
        criterion = DPLossFastGradientClipping(trained, optimizer, criterion)
    begun = time.perf_counter()
    for _ in range(run["steps"]):
        members = torch.rand(len(inputs)) < run["sampling_rate"]
        optimizer.zero_grad()
        criterion(trained(inputs[members]), labels[members]).backward()
        optimizer.step()
    seconds = time.perf_counter() - begun
    with torch.no_grad():
        guesses = model(data["test_inputs"]).argmax(1)
    return {"accuracy": (guesses == data["test_labels"]).double().mean().item(), "seconds": seconds}


def load(request):
    data = {name: torch.tensor(request[name], dtype=torch.float32) for name in ("inputs", "test_inputs")}
    data |= {name: torch.tensor(request[name]) for name in ("labels", "test_labels")}
    return data | {"classes": request["classes"]}


def main():
    data = None
    for line in sys.stdin:
        request = json.loads(line)
        if "versions" in request:
            torch.set_num_threads(request["versions"])
            answer = read_versions()
        elif "data" in request:
            answer = read_data(request["data"])
        elif "load" in request:
            data = load(request["load"])
            answer = {}
        else:
            answer = train(data, request["train"])
        print(json.dumps(answer), flush=True)


main()
