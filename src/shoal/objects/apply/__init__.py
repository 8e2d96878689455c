"""Server-side apply and managedFields: which manager owns which field, and the result of an apply.

Pure: objects, a compiled schema and the time go in; managedFields or a merged object come out. Storing, defaulting and
validation are done by the API server.
"""

from shoal.objects.apply.compare import Object
from shoal.objects.apply.fieldset import FieldSet
from shoal.objects.apply.managed import fields_v1, managed_fields_on_update
from shoal.objects.apply.serverside import apply
from shoal.objects.apply.typed import TypeSchema

__all__ = ["FieldSet", "Object", "TypeSchema", "apply", "fields_v1", "managed_fields_on_update"]
