"""Thousands of requests generated from the schema of a running server: none may break it.

python benchmarks/generated_requests.py http://127.0.0.1:8017 [--requests 5000]
"""

import argparse
from collections import Counter
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings


def main(url: str, requests: int) -> Counter[tuple[str, int]]:
    """Send them, and count the answers by path and status."""
    schema: Any = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    varied = [operation for operation in operations if operation.method == "post"]
    statuses: Counter[tuple[str, int]] = Counter()
    for operation in operations:

        @settings(
            max_examples=-(-requests // len(varied)),  # one that takes no body is sent once
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def one(case: Any) -> None:
            response = case.call(timeout=120)
            statuses[case.operation.path, response.status_code] += 1
            assert response.status_code < 500 or response.status_code == 503, case.body

        one()
    return statuses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, default=5000)
    arguments = parser.parse_args()
    counted = main(arguments.url, arguments.requests)
    for (path, status), count in sorted(counted.items()):
        print(f"{path:24} {status} {count:6,}")
    print(f"{sum(counted.values()):,} requests")
