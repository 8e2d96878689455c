"""Pod and PodTemplate of core/v1: PodSpec validation, updates, subresources, eviction, resource totals and the printed
summary.
"""
