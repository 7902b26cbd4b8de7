"""Flower's rounds of FedAvg on loopback, server and clients in processes of their own: a JSON object of figures.

By `flwr.server.start_server` and `flwr.client.start_client`: each client has one stream to the server that stays open, and hears
of its work at once. Flower prefers its SuperLink today, whose nodes ask for work every three seconds: this is its quicker way. What a
client computes is nothing: it gives the vector that it made before the first round."""

import importlib.metadata
import json
import logging
import os
import platform
import subprocess
import sys
import time

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import numpy
from flwr.client import NumPyClient, start_client
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerConfig, start_server
from flwr.server.strategy import FedAvg

logging.getLogger("flwr").setLevel(logging.ERROR)
# How long a client looks for its server, the server waits for its clients and for a round's vectors, and a client may take to end, in
# seconds.
PATIENCE = 120


def noise(numbers):
    return numpy.random.default_rng(7).normal(0.0, 0.01, numbers).astype(numpy.float32)


class Client(NumPyClient):
    def __init__(self, numbers):
        self.vector = noise(numbers)

    def fit(self, parameters, config):
        begun = time.perf_counter()
        vector = self.vector
        return [vector], 1, {"seconds": time.perf_counter() - begun}


class Timed(FedAvg):
    """FedAvg that notes when each round begins and when its mean is there."""

    def __init__(self, clients, numbers):
        super().__init__(
            fraction_fit=1.0,
            fraction_evaluate=0.0,
            min_fit_clients=clients,
            min_available_clients=clients,
            min_evaluate_clients=0,
            initial_parameters=ndarrays_to_parameters([numpy.zeros(numbers, numpy.float32)]),
        )
        self.clients, self.sent, self.rounds = clients, noise(numbers), []

    def configure_fit(self, server_round, parameters, client_manager):
        if not client_manager.wait_for(self.clients, PATIENCE):
            raise RuntimeError(f"not all of {self.clients} clients came")
        self.begun = time.perf_counter()
        return super().configure_fit(server_round, parameters, client_manager)

    def aggregate_fit(self, server_round, results, failures):
        mean, metrics = super().aggregate_fit(server_round, results, failures)
        seconds = time.perf_counter() - self.begun
        if failures or len(results) != self.clients:
            raise RuntimeError(f"{len(results)} of {self.clients} clients answered: {failures}")
        (vector,) = parameters_to_ndarrays(mean)
        if vector.shape != self.sent.shape or not numpy.allclose(vector, self.sent, atol=1e-5):
            raise RuntimeError("the mean is not that of what was sent")
        computing = max(answer.metrics["seconds"] for _, answer in results)
        self.rounds.append({"seconds": seconds, "computing": computing})
        return mean, metrics


def end(children):
    for child in children:
        try:
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()


def serve(port, clients, numbers, rounds):
    address = f"127.0.0.1:{port}"
    command = [sys.executable, __file__, "client", address, str(numbers)]
    children = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(clients)]
    strategy = Timed(clients, numbers)
    try:
        start_server(server_address=address, config=ServerConfig(num_rounds=rounds, round_timeout=PATIENCE), strategy=strategy)
    except BaseException:
        for child in children:
            child.kill()
        raise
    finally:
        end(children)
    return {"rounds": strategy.rounds}


mode, *rest = sys.argv[1:]
if mode == "versions":
    names = ("flwr", "grpcio", "numpy")
    print(json.dumps({"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}}))
elif mode == "client":
    address, numbers = rest[0], int(rest[1])
    start_client(server_address=address, client=Client(numbers).to_client(), insecure=True, max_wait_time=PATIENCE)
else:
    print(json.dumps(serve(*map(int, rest))))
