"""Server-side apply and managedFields: who owns which field of an object, and what an apply makes of it.

Pure: objects, a compiled schema and the time come in; managedFields or a merged object come out.
Storing, defaulting and validating are the API server's.
"""

from shoal.objects.apply.compare import Object
from shoal.objects.apply.fieldset import Fields
from shoal.objects.apply.managed import fields_v1, on_update
from shoal.objects.apply.serverside import apply
from shoal.objects.apply.typed import TypeSchema

__all__ = ["Fields", "Object", "TypeSchema", "apply", "fields_v1", "on_update"]
