"""A dispatcher's report of loads arrives at the service."""

from typing import Any

import httpx
import numpy as np
import pytest

from dispatcher.errors import ServiceRefused
from dispatcher.loads import report_loads
from dispatcher.subscription import Subscription
from meta.mapping.errors import Malformed


def test_loads_are_reported_under_the_subscriptions_id(fragment: Any) -> None:
    with Subscription(fragment.service_url, fragment.name, name="job", role="reader") as subscription:
        report_loads(subscription, np.arange(16), 2_000)
        url = f"{fragment.service_url}/v1/fragments/{fragment.name}/loads"
        found = httpx.get(url, trust_env=False).raise_for_status().json()
        assert [reporter["id"] for reporter in found["reporters"]] == [subscription.id]
        assert found["loads"] == [[vnode, vnode, vnode / 2] for vnode in range(16)]
        with pytest.raises(ServiceRefused) as refusal:
            report_loads(subscription, [1.0] * 32, 1_000)
        assert refusal.value.problem == "bad-loads"
        for wrong in ([-1.0] * 16, [float("nan")] * 16, [[1.0] * 16]):
            with pytest.raises(Malformed):
                report_loads(subscription, wrong, 1_000)


def test_a_subscription_follows_the_vnode_count(fragment: Any) -> None:
    with Subscription(fragment.service_url, fragment.name, name="job") as subscription:
        with subscription.pin() as before:
            assert before.vnode_count == 16
        http = httpx.Client(base_url=fragment.service_url, trust_env=False)
        with http:
            plan = http.post(f"/v1/fragments/{fragment.name}/plans", json={"vnode_count": 64}).json()
            http.post("/v1/rescales", json={"token": plan["token"]}).raise_for_status()
        subscription.wait_for(before.version + 1, 10_000)
        with subscription.pin() as after:
            assert after.mapping == before.mapping.multiplied(4)
