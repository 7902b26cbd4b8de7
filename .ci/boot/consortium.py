"""A consortium of one organization with one site, founded in a booted system as the README says it: by the link in the
server's log, by REST, and by the worker's command line under its own user.
"""

import json
import re

from system import Refused, within

HTTP = "http://127.0.0.1:8420"
FOLDER = "/var/lib/undertone-worker"
PASSWORD = "correct horse battery"
EMAIL = "operator@example.org"
DATASET = "dictation"
# A steward has them on a machine of their own; here all is one.
STEWARD_KEY = f"{FOLDER}/steward.key"
REVIEW = f"{FOLDER}/review.json"
CLOUD_PORT = 8500
# What is said in the recording.
SAID = ["the fever is gone since this morning", "there is music in the garden", "the water of the river is cold"]
# Words of it that nothing else here says, and that are part of no other word.
WORDS = ["morning", "music", "garden"]

CONFIGURATION = f"""
[transcription.recognizer]
kind = "pocketsphinx"
command = "/usr/bin/python3"

[transcription.speech]
kind = "espeak"
voice = "en-us"

[[transcription.providers]]
name = "cloud"
protocol = "deepgram"
url = "http://127.0.0.1:{CLOUD_PORT}"
key_file = "cloud.key"
concurrency = 1
requests_per_minute = 60000
"""


class Site:
    def __init__(self, system):
        self.system = system
        self.access = None
        self.secrets = [PASSWORD, EMAIL]

    def rest(self, method, path, body=None):
        """What the server answers; anything but success is an exception."""
        arguments = ["curl", "--silent", "--show-error", "--request", method, "--write-out", "\n%{http_code}"]
        if self.access:
            arguments += ["--header", f"Authorization: Bearer {self.access}"]
        if body is not None:
            arguments += ["--header", "Content-Type: application/json", "--data-binary", "@-"]
        text = self.system.run(*arguments, HTTP + path, input=json.dumps(body) if body is not None else None)
        answer, _, status = text.rpartition("\n")
        if not status.startswith("2"):
            raise Refused(f"{method} {path}: {status} {answer[:500]}")
        return json.loads(answer) if answer.strip() else None

    def health(self, which):
        return self.system.run(
            "curl",
            "--silent",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
            f"{HTTP}/health/{which}",
            check=False,
        )

    def as_user(self, *arguments, **options):
        """As somebody does it who may become the worker's user."""
        return self.system.run("sudo", "-u", "undertone-worker", *arguments, **options)

    def worker(self, *arguments, **options):
        return self.as_user("undertone-worker", "--site", FOLDER, *arguments, **options)

    def sign_in(self):
        self.access = None
        self.access = self.rest("POST", "/api/v1/session", {"email": EMAIL, "password": PASSWORD})["access_token"]
        self.secrets.append(self.access)

    def found(self):
        """The first operator founds a consortium with an organization, and makes a token for its worker."""
        # The journal names the file that holds the link.
        path = re.findall(r"\S+/operator-link", "\n".join(self.system.messages("undertone-server")))[-1]
        links = re.findall(r"/accept/(\w+)", self.system.run("sudo", "cat", path))
        self.rest(
            "POST",
            f"/api/v1/invitations/{links[-1]}/accept",
            {"name": "Operator", "email": EMAIL, "password": PASSWORD},
        )
        self.sign_in()
        self.consortium = self.rest("POST", "/api/v1/consortia", {"name": "Trial", "organization_name": "North"})["id"]
        organization = self.rest("GET", f"/api/v1/consortia/{self.consortium}/organizations")["items"][0]["id"]
        self.organization = organization
        token = self.rest("POST", f"/api/v1/organizations/{organization}/workers", {"name": "north"})["token"]
        self.secrets.append(token)
        return token

    def online(self):
        """Whether the server hears of the worker."""
        items = self.rest("GET", f"/api/v1/consortia/{self.consortium}/organizations")["items"]
        return any(worker["online"] for worker in items[0]["workers"])

    def pin(self):
        """The steward's key file, pinned at the site before its dataset is registered."""
        made = self.as_user("undertone-worker", "steward-key", "make", STEWARD_KEY)
        line, fingerprint = re.search(r"uak1\.\S+", made).group(), made.split()[-1]
        self.worker("approval-keys", "add", line, "--fingerprint", fingerprint, "--label", "the steward")

    def approve(self, job, dataset):
        """The steward signs what the server shows, and gives the signature to the job."""
        path = f"/api/v1/jobs/{job}/datasets/{dataset}"
        review = json.dumps(self.rest("GET", f"{path}/review"))
        self.as_user("sh", "-c", f"cat > {REVIEW}", input=review)
        signed = self.as_user("undertone-worker", "steward-key", "sign", "--key", STEWARD_KEY, REVIEW)
        self.rest("POST", f"{path}/approve", {"signature": json.loads(signed.strip().splitlines()[-1])})

    def prepare(self):
        """A recording that is spoken by a machine, the recognizers, and a policy that lets a job hear it."""
        self.pin()
        folder = "/var/lib/undertone-worker/incoming"
        self.as_user("mkdir", folder)
        self.as_user("espeak-ng", "-v", "en-us", "-s", "130", "-w", f"{folder}/letter.wav", ". ".join(SAID))
        self.as_user("sh", "-c", f"cat > {folder}/letter.txt", input=" ".join(SAID))
        self.worker("data", "add-recordings", "--input", folder, "--name", DATASET)
        self.as_user("sh", "-c", f"umask 077; echo loopback-key > {FOLDER}/cloud.key")
        self.secrets += ["loopback-key", *SAID, *WORDS]
        self.as_user("sh", "-c", f"cat >> {FOLDER}/config.toml", input=CONFIGURATION)
        changes = {
            'kinds = ["dp_sgd"]': 'kinds = ["transcription"]',
            "most_epsilon_per_job = 4.0": "most_epsilon_per_job = 12.0",
            "[budget.record]": "[budget.words]\nepsilon = 16.0\ndelta = 1e-2\n\n[budget.record]",
        }
        policy = self.as_user("cat", f"{FOLDER}/policy.toml")
        for before, after in changes.items():
            if before not in policy:
                raise Refused(f"policy.toml does not say {before}")
            policy = policy.replace(before, after)
        self.as_user("sh", "-c", f"cat > {FOLDER}/policy.toml", input=policy + "\n")

    def transcribe(self, seconds):
        """A whole job, from its proposal to its report; the state that it ends in, with the reason."""
        dataset = within(60, "the dataset", self.dataset)
        self.rest("PUT", f"/api/v1/datasets/{dataset}/budgets", {"unit": "words", "epsilon": 16.0, "delta": 1e-2})
        spec = {
            "participant": {"dataset": dataset, "epsilon": 10.0, "delta": 1e-3, "distance": 2},
            "providers": [{"name": "cloud", "protocol": "deepgram"}],
            "vocabulary": {"from": "public", "words": ["fever"]},
            "recognizer": "pocketsphinx",
        }
        job = {"title": "What the letter says", "kind": "transcription", "spec": spec}
        job = self.rest("POST", f"/api/v1/consortia/{self.consortium}/jobs", job)["id"]
        self.approve(job, dataset)

        def over():
            shown = self.rest("GET", f"/api/v1/jobs/{job}")
            ended = shown["state"] in ("finished", "failed", "cancelled", "refused")
            return ended and (shown["state"], shown.get("reason"))

        return job, within(seconds, "the end of the job", over)

    def dataset(self):
        items = self.rest("GET", f"/api/v1/consortia/{self.consortium}/datasets?limit=200")["items"]
        return next((dataset["id"] for dataset in items if dataset["name"] == DATASET), None)

    def spent(self):
        """The site's own ledger, as its command tells it: what was spent, and whether it holds."""
        return self.worker("ledger", "show"), self.worker("ledger", "verify")
