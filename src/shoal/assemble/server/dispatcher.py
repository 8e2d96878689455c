"""Puts the dispatcher of API Priority and Fairness in front of a handler chain, with its metrics."""

from __future__ import annotations

from shoal.apiserver.chain import HandlerChain
from shoal.apiserver.finishers import error_response
from shoal.apiserver.flowcontrol.dispatcher import DispatcherConfig, RequestDispatcher
from shoal.apiserver.flowcontrol.seats import SeatAllocator
from shoal.apiserver.metrics.requests import APIServerMetrics
from shoal.apiserver.server import RequestContext, ServerComponents


def make_dispatcher(
    app: HandlerChain, core: ServerComponents, metrics: APIServerMetrics, settings: DispatcherConfig
) -> RequestDispatcher[RequestContext]:
    """The dispatcher in front of the handler chain, for requests from the socket; controllers of this process bypass
    it.
    """
    seats = SeatAllocator(settings.total_seats, core.flow_schemas.levels)
    dispatcher = RequestDispatcher(app.handle, app.classify, error_response, seats, settings)
    core.slices.on_slice = dispatcher.charge_read
    flowcontrol = "apiserver_flowcontrol"
    long_reads = "shoal_long_reads", "Number of reads that are answered in slices."
    metrics.gauge(*long_reads, lambda: core.slices.running_count, 'state="running"')
    metrics.gauge(*long_reads, lambda: core.slices.waiting_count, 'state="waiting"')
    metrics.gauge(
        f"{flowcontrol}_current_inqueue_requests", "Number of queued requests.", lambda: dispatcher.queue_length
    )
    metrics.gauge(
        f"{flowcontrol}_current_executing_requests",
        "Number of executing mutating requests of clients.",
        lambda: seats.in_use,
    )
    metrics.counter(
        f"{flowcontrol}_rejected_requests_total",
        "Number of requests rejected with 429.",
        lambda: dispatcher.rejected_total,
    )
    metrics.counter(
        f"{flowcontrol}_dispatched_requests_total",
        "Number of requests dispatched from the queue.",
        lambda: dispatcher.dispatched_total,
    )
    metrics.add_renderer(seats.render_metrics)
    return dispatcher
