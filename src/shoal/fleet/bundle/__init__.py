"""The worker bundle: installs `shoal worker` in the clusters of Workers with infrastructure kind and keeps it up to
date.
"""
