"""Telling the service how much each vnode has to do, so that plans by load can level it."""

import numpy as np
import numpy.typing as npt

from dispatcher.subscription import Subscription
from meta.mapping.errors import Malformed


def report_loads(subscription: Subscription, loads: npt.ArrayLike, observed_for_ms: int) -> None:
    """What this process counted of each vnode (bytes or rows) in the last `observed_for_ms`; once a minute will do.

    The service smooths it and adds up all reporters. A subscription that reports no more counts no more after ten
    minutes. Raises `Malformed` for what are no loads, `ServiceRefused` (`bad-loads`: the vnode count has changed
    meanwhile) or `ServiceUnreachable`; a report that is lost does no harm.
    """
    counts = np.asarray(loads, np.float64)
    if counts.ndim != 1 or not (np.isfinite(counts) & (counts >= 0)).all():
        raise Malformed("loads are one finite number from 0 for each vnode; leave the observation out")
    subscription.service.report_loads(subscription.id, counts.tolist(), observed_for_ms)
