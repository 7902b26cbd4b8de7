# %% [markdown]
# # Have recordings transcribed
#
# Prices a `transcription` job on private recordings, and runs it on public ones. External recognizers hear pieces of the recordings, among
# dummies that hide the counts of words. They hear clear speech. The `config.toml` of the site names the recognizer `one`, and its
# `policy.toml` allows the kind.

# %%
import undertone

client = undertone.connect()
ids = {dataset.name: str(dataset.id) for dataset in client.datasets()}


def describe(dataset: str, epsilon: float, distance: int) -> dict:
    """Returns the document of a job."""
    participant = {"dataset": ids[dataset], "epsilon": epsilon, "delta": 0.001, "distance": distance}
    spec = {
        "participant": participant,
        "providers": [{"name": "one", "protocol": "openai"}],
        "vocabulary": {"from": "public", "words": ["garden"]},
        "recognizer": "pocketsphinx",
    }
    return {"title": f"What was said: {dataset}", "kind": "transcription", "spec": spec}


# %% [markdown]
# ## The price for private recordings
#
# A distance of 10 hides one spoken word from a reader of counts. A smaller epsilon hides more, and takes more dummies (`shift` for each
# word of the vocabulary and each recognizer), which cost money and time.

# %%
for epsilon in (1.0, 4.0, 19.0):
    priced = client.plan(describe("north-recordings", epsilon, 10))
    event = priced.parties[0].charge.to_dict()["event"]
    print(f"epsilon {epsilon}: {'admitted' if priced.admitted else 'refused'}, shift {event['shift']}")

# %% [markdown]
# ## A trial on public recordings
#
# Public recordings may have a smaller distance, and so few dummies. Their report has the outcome. The outcome and the transcripts of
# private recordings stay at the site.

# %%
job = client.wait(client.propose(describe("public-recordings", 19.0, 1)), progress=undertone.print_progress)

# %%
report = client.report(job).outcome.to_dict()["report"]
outcome = report["outcome"]
print(
    f"{outcome['recordings']} recording of {outcome['seconds']:.0f} s in {outcome['pieces']} pieces, about {report['dummies']:.0f} dummies"
)
print(outcome.get("errors"))

# %%
client.close()
RESULT = report["providers"] == ["one"] and outcome["recordings"] == 1
