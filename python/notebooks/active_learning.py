# %% [markdown]
# # Ask people about frequent queries
#
# Proposes an `active_learning` job on private query logs, answers its questions, and reads the accuracy of the classifier. The API key in
# `UNDERTONE_KEY` needs the scopes `read`, `jobs` and `questions`, and its owner is an annotator or a researcher of the consortium.

# %%
import time

import undertone

client = undertone.connect()
ids = {dataset.name: str(dataset.id) for dataset in client.datasets()}
labels = [
    "appointment",
    "call_staff",
    "complaint",
    "directions",
    "discharge",
    "equipment",
    "meal",
    "medication",
    "payment",
    "results",
    "smalltalk",
    "visitors",
]

# %% [markdown]
# A query leaves the private log if at least `threshold` of the sampled rows have it. The public log is labelled, and trains the first
# classifier.

# %%
job = client.propose(
    {
        "title": "What people ask",
        "kind": "active_learning",
        "spec": {
            "unit": "record",
            "participants": [
                {"dataset": ids["public-queries"]},
                {
                    "dataset": ids["north-queries"],
                    "gate": {"sampling_rate": 0.25, "threshold": 20, "epsilon": 1.0, "shown": "set"},
                },
            ],
            "labels": [{"name": name} for name in labels],
            "guidelines": "What does the person want?",
            "tests": [{"name": "held out", "dataset": ids["public-queries"]}],
            "golden": 24,
            "rounds": 2,
            "batch": 4,
            "classifier": {"buckets": 2048, "embedding": 16, "hidden": 16, "passes": 5, "epochs": 30, "batch": 8, "learning_rate": 0.02},
            "deadline_seconds": 3600,
            "seed": 7,
        },
    }
)

# %% [markdown]
# The most uncertain questions come first. Type one of the labels as it is written above; an empty answer leaves a question to others.

# %%
answered = 0
while client.job(job).state not in ("finished", "failed", "cancelled", "refused"):
    for question in client.questions(job).questions:
        label = input(f"{question.text} ")
        client.answer(question, label or None)
        answered += 1
    time.sleep(0.2)
job = client.wait(job)
print(f"{answered} questions answered")

# %%
report = client.report(job).outcome.to_dict()["report"]
rows = [(point["round"], point["labelled"], point["tests"][0]["accuracy"]) for point in report["learning"]]
print(undertone.Table(["round", "labelled", "accuracy"], rows))
print(client.certificate(job).costs())

# %%
client.close()
RESULT = answered == 8
