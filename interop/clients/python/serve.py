"""The request loop of the Python adapters; adapter/process.go describes the requests."""

import sys
import traceback


def serve(adapter):
    """Answers requests with the methods of adapter until the input ends."""
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        name, *fields = line.rstrip("\n").split("\t")
        try:
            method = getattr(adapter, name.replace("-", "_"), None)
            if method is None:
                print("unsupported", file=out, flush=True)
                continue
            answer = method(*fields) or []
            print("\t".join(["ok", *map(str, answer)]), file=out, flush=True)
        except Exception as e:
            traceback.print_exc()
            print("error\t" + " ".join(repr(e).split()), file=out, flush=True)
    adapter.close()


def parse_offsets(fields):
    return {int(p): int(o) for p, o in (f.split("=") for f in fields)}
