"""The controller runtime, after client-go and controller-runtime: controllers, work queues, informers, leader election
and event recording.
"""
