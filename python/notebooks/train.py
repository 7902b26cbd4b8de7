# %% [markdown]
# # Train a model on private speech
#
# Plans, proposes and follows a `dp_sgd` job, and takes the model away. `UNDERTONE_URL` and `UNDERTONE_KEY` name the server and an API key
# with the scopes `read`, `jobs` and `models`. The datasets have the names of `make demo`.

# %%
import undertone

client = undertone.connect()
client.budgets()

# %% [markdown]
# The first participant leads, and its data are public. The other releases an update with noise in each round. The job is small, so that it
# ends in seconds; a useful model takes more rounds and more hidden units.

# %%
ids = {dataset.name: str(dataset.id) for dataset in client.datasets()}
job_document = {
    "title": "A model from a notebook",
    "kind": "dp_sgd",
    "spec": {
        "unit": "record",
        "model": {"hidden": 16},
        "participants": [
            {"dataset": ids["public-speech"], "sampling_rate": 0.1},
            {"dataset": ids["north-speech"], "sampling_rate": 0.25, "noise": {"noise_multiplier": 2.0, "clip": 1.0}},
        ],
        "tests": [{"name": "common", "dataset": ids["common-test"]}],
        "warm_start": {"epochs": 2, "batch": 8, "learning_rate": 0.002, "seed": 7},
        "private": {
            "rounds": 3,
            "optimizer": "adam",
            "learning_rate": 0.001,
            "evaluate_every": 1,
            "deadline_seconds": 600,
            "quorum": 2,
        },
    },
}

# %% [markdown]
# A plan is the price of the job for each party, and the decision of each budget. It proposes nothing and costs nothing.

# %%
plan = client.plan(job_document)
for party in plan.parties:
    print(f"{party.dataset_name}: epsilon {party.epsilon:.3g} at delta {party.delta:.0e}")
assert plan.admitted, plan.violations or plan.refusals

# %% [markdown]
# The owners of the data approve or refuse the proposal. `wait` prints what the job waits for.

# %%
job = client.propose(job_document)
job = client.wait(job, progress=undertone.print_progress)

# %%
measurements = client.measurements(job)
print(measurements)
measurements.to_pandas().pivot(index="round", columns=["series", "test"], values="accuracy")

# %% [markdown]
# The download is compared with the SHA-256 that the server announced, and the certificate names the same.

# %%
model = client.download(job, "model.safetensors")
verdict = client.certificate(job).verify(model=model)
print(verdict)

# %%
client.close()
RESULT = verdict.holds and model.is_file()
