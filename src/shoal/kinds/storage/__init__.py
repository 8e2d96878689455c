"""storage.k8s.io/v1: StorageClass, VolumeAttributesClass, VolumeAttachment, CSIDriver, CSINode and
CSIStorageCapacity.
"""
