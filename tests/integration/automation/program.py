"""What somebody writes who has the generated client, an API key, and no other knowledge of the server."""

import json
import os
import uuid

from undertone_client import AuthenticatedClient
from undertone_client.api.consortia import list_consortium_organizations
from undertone_client.api.jobs import get_job, list_jobs, plan_job, propose_job
from undertone_client.models import NewJobDpSgd, NewPlanDpSgd, Problem

client = AuthenticatedClient(base_url=os.environ["UNDERTONE"] + "/api/v1", token=os.environ["KEY"])
consortium = uuid.UUID(os.environ["CONSORTIUM"])
new = NewJobDpSgd.from_dict(json.loads(os.environ["JOB"]))

organizations = list_consortium_organizations.sync(consortium, client=client)
plan = plan_job.sync(client=client, body=NewPlanDpSgd.from_dict({"consortium": str(consortium), **new.to_dict()}))
key = str(uuid.uuid4())
job = propose_job.sync(consortium, client=client, body=new, idempotency_key=key)
again = propose_job.sync(consortium, client=client, body=new, idempotency_key=key)
read = get_job.sync(job.id, client=client)
listed = list_jobs.sync(consortium, client=client, limit=10)
new.title = ""
refused = propose_job.sync(consortium, client=client, body=new)

assert isinstance(refused, Problem), refused
print(
    json.dumps(
        {
            "organizations": [one.name for one in organizations.items],
            "admitted": plan.admitted,
            "job": str(read.id),
            "state": str(read.state),
            "title": read.title,
            "once": again.id == job.id and [one.id for one in listed.items] == [job.id],
            "refused": str(refused.code),
        }
    )
)
