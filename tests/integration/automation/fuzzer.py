"""What the fuzzer has to know before it can send every body: lines of JSON are described as text, and sent as such."""

import schemathesis

schemathesis.serializer.alias("application/x-ndjson", "text/plain")
