# %% [markdown]
# # Evaluate a model on private data
#
# Proposes an `evaluation` job: each site releases one noisy histogram of the scores of a model on its own data. The `policy.toml` of each
# site must name the kind (`kinds`). The model lies in `models/` of the lead's site: this notebook copies it there, into the folder in
# `UNDERTONE_LEAD_SITE`. On another machine, the operator of the site does.

# %%
import os
import pathlib

import undertone

client = undertone.connect()
finished = [job for job in client.jobs() if job.state == "finished" and job.kind == "dp_sgd"]
models = pathlib.Path(os.environ["UNDERTONE_LEAD_SITE"], "models")
models.mkdir(exist_ok=True)
client.download(finished[0], "model.safetensors", models)
digest = next(file.digest for file in client.files(finished[0]) if file.name == "model.safetensors")

# %% [markdown]
# The noise is relative to the greatest contribution of a unit: `noise_multiplier` alone decides the price.

# %%
ids = {dataset.name: str(dataset.id) for dataset in client.datasets()}
evaluation = {
    "title": "How good is the model?",
    "kind": "evaluation",
    "spec": {
        "unit": "record",
        "model": digest,
        "participants": [{"dataset": ids["public-speech"]}, {"dataset": ids["north-speech"]}],
        "classes": [0, 1],
        "noise_multiplier": 2.0,
        "accuracy": True,
        "deadline_seconds": 600,
    },
}
for noise_multiplier in (1.0, 2.0, 4.0):
    priced = client.plan({**evaluation, "spec": {**evaluation["spec"], "noise_multiplier": noise_multiplier}})
    print(noise_multiplier, priced.admitted, [party.epsilon for party in priced.parties])

# %%
job = client.wait(client.propose(evaluation), progress=undertone.print_progress)

# %% [markdown]
# An estimate has an interval, in which the noise is counted. With few units the interval is wide, or a class has no metrics.

# %%
report = client.report(job).outcome.to_dict()["report"]
print("accuracy", report.get("accuracy"))
for result in report["classes"]:
    print("class", result["class"], result.get("metrics") or result.get("problem"))
print(client.certificate(job).costs())

# %%
client.close()
RESULT = report["model"] == digest and report["sites"] == 1
