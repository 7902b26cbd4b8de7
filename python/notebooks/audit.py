# %% [markdown]
# # Audit the certificate of a job
#
# Verifies the price of a finished job on this machine. The server's key comes from a worker's `config.toml` (`server_key`) and is in
# `UNDERTONE_SERVER_KEY`; `UNDERTONE_SERVER_PROGRAM` is the path of an `undertone-server`, which computes each figure again.

# %%
import json
import os

import undertone

client = undertone.connect()
finished = [job for job in client.jobs() if job.state == "finished" and job.kind == "dp_sgd"]
job = finished[0]
path = client.certificate(job).save("certificate.json")

# %% [markdown]
# From here on no network is needed.

# %%
certificate = undertone.Certificate.load(path)
print(certificate)
print(certificate.costs())

# %% [markdown]
# ## What this package checks
#
# Signatures, the manifest, the receipts of the sites and their chains, the number of releases, and the place of each charge in the server's
# log. It computes no epsilon, and says so.

# %%
server_key = os.environ["UNDERTONE_SERVER_KEY"]
site_keys = [party["site_key"] for party in certificate.content["parties"]]  # better: from the sites themselves
verdict = certificate.verify(server_key=server_key, site_keys=site_keys)
print(verdict)
assert verdict.holds
assert "epsilon" in verdict.unchecked

# %% [markdown]
# ## The figures
#
# The program computes them again from the manifest and the receipts.

# %%
full = certificate.verify(server_key=server_key, site_keys=site_keys, program=os.environ["UNDERTONE_SERVER_PROGRAM"])
print(full)
assert full.holds
assert set(full.unchecked) <= {"model"}

# %% [markdown]
# ## A forgery is found
#
# Withhold the last receipt, as if one release less had been made.

# %%
forged = json.loads(path.read_text(encoding="utf-8"))
forged["evidence"]["receipts"].pop()
found = undertone.Certificate(forged).verify(server_key=server_key)
print(found)

# %%
client.close()
RESULT = set(found.failed) >= {"chain", "counts"}
