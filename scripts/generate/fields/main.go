// Prints the protobuf field tables of every kind in the upstream API packages, as JSON.
//
// The .proto files do not say what JSON inlines, omits or writes in a form of its own; the Go struct tags do.
// A type this program does not understand ends it with a message, so that no table is silently wrong.
package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// minor is the Kubernetes release whose deprecations are told: v1.<minor>.
const minor = 36

// special types have a JSON form of their own; the reader of the table knows them by these names.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                  "time",
	reflect.TypeFor[metav1.MicroTime]():                             "microtime",
	reflect.TypeFor[metav1.FieldsV1]():                              "json",
	reflect.TypeFor[resource.Quantity]():                            "quantity",
	reflect.TypeFor[intstr.IntOrString]():                           "intorstring",
	reflect.TypeFor[runtime.RawExtension]():                         "json",
	reflect.TypeFor[apiextensionsv1.JSON]():                         "json",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "schemaorbool",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "schemaorarray",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "schemaorstrings",
}

type (
	jsonMarshaler  interface{ MarshalJSON() ([]byte, error) }
	protoMarshaler interface{ Marshal() ([]byte, error) }
)

// table maps a type to its fields: [number, JSON name ("" when inlined), shape, type, keep].
// Shapes: "" value, "*" pointer, "[]" list, "{}" map with string keys.
// keep is 1 when JSON shows the zero value and 0 when it leaves it out.
type table map[string][][5]any

func main() {
	for _, add := range []func(*runtime.Scheme) error{
		apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, apidiscoveryv2.AddToScheme, metav1.AddMetaToScheme,
	} {
		if err := add(scheme.Scheme); err != nil {
			fail("%v", err)
		}
	}
	types, kinds, warnings, zeros := table{}, map[string]string{}, map[string]string{}, map[string]zero{}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		object := reflect.New(typ).Interface().(runtime.Object)
		if _, capable := object.(protoMarshaler); gvk.Version == runtime.APIVersionInternal || !capable {
			continue
		}
		object.GetObjectKind().SetGroupVersionKind(gvk)
		name := gvk.GroupVersion().String() + "/" + gvk.Kind
		kinds[name] = types.add(typ)
		zeros[name] = zeroOf(object)
		if deprecation.IsDeprecated(object, 1, minor) {
			warnings[name] = deprecation.WarningMessage(object)
		}
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]any{"kinds": kinds, "types": types, "warnings": warnings, "zeros": zeros}); err != nil {
		fail("%v", err)
	}
}

// zero is an object with nothing set, in both encodings: what the tests of the table's "keep" compare with.
type zero struct {
	Protobuf string          `json:"protobuf"`
	JSON     json.RawMessage `json:"json"`
}

func zeroOf(object runtime.Object) zero {
	var encoded bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &encoded); err != nil {
		fail("%T: %v", object, err)
	}
	text, err := json.Marshal(object)
	if err != nil {
		fail("%T: %v", object, err)
	}
	return zero{hex.EncodeToString(encoded.Bytes()), text}
}

func (t table) add(typ reflect.Type) string {
	name := nameOf(typ)
	if _, found := t[name]; found {
		return name
	}
	if reflect.PointerTo(typ).Implements(reflect.TypeFor[jsonMarshaler]()) {
		fail("%s has a JSON form this program does not know", typ)
	}
	t[name] = [][5]any{}
	fields := [][5]any{}
	for field := range typ.Fields() {
		if entry := t.field(typ, field); entry != nil {
			fields = append(fields, *entry)
		}
	}
	t[name] = fields
	return name
}

func (t table) field(owner reflect.Type, field reflect.StructField) *[5]any {
	proto, found := field.Tag.Lookup("protobuf")
	if !found || proto == "-" {
		return nil
	}
	number, err := strconv.Atoi(strings.Split(proto, ",")[1])
	if err != nil {
		fail("%s.%s: protobuf tag %q", owner, field.Name, proto)
	}
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "-" {
		return nil
	}
	if name == "" && !field.Anonymous && !strings.Contains(options, "inline") {
		name = field.Name
	}
	shape, typ := shapeOf(field.Type)
	return &[5]any{number, name, shape, t.typeOf(typ), keep(options, shape, typ)}
}

func keep(options, shape string, typ reflect.Type) int {
	if strings.Contains(options, "omitzero") {
		if typ != reflect.TypeFor[metav1.Time]() {
			fail("%s: omitzero is only known for times", typ)
		}
		return 0
	}
	// omitempty never applies to a struct that is a value.
	if !strings.Contains(options, "omitempty") || (shape == "" && typ.Kind() == reflect.Struct) {
		return 1
	}
	return 0
}

func shapeOf(typ reflect.Type) (string, reflect.Type) {
	switch {
	case isStrings(typ), isBytes(typ):
		return "", typ
	case typ.Kind() == reflect.Pointer:
		return "*", typ.Elem()
	case typ.Kind() == reflect.Slice:
		return "[]", pointed(typ.Elem())
	case typ.Kind() == reflect.Map:
		if typ.Key().Kind() != reflect.String {
			fail("%s: a map whose keys are no strings", typ)
		}
		return "{}", pointed(typ.Elem())
	}
	return "", typ
}

func (t table) typeOf(typ reflect.Type) string {
	if name, found := special[typ]; found {
		if strings.HasPrefix(name, "schema") {
			t.add(reflect.TypeFor[apiextensionsv1.JSONSchemaProps]())
		}
		return name
	}
	switch {
	case isStrings(typ):
		return "strings"
	case isBytes(typ):
		return "bytes"
	case typ.Kind() == reflect.Struct:
		return t.add(typ)
	}
	switch typ.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64, reflect.Int:
		return "int"
	case reflect.Float64:
		return "double"
	}
	fail("%s: no protobuf form known", typ)
	return ""
}

// isStrings tells the named string lists (Verbs, ExtraValue) that are a message of their own.
func isStrings(typ reflect.Type) bool {
	return typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.String &&
		reflect.PointerTo(typ).Implements(reflect.TypeFor[protoMarshaler]())
}

func isBytes(typ reflect.Type) bool {
	return typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Uint8
}

func pointed(typ reflect.Type) reflect.Type {
	if typ.Kind() == reflect.Pointer {
		return typ.Elem()
	}
	return typ
}

var packages = map[string]string{}

// nameOf gives `core/v1.Pod` for k8s.io/api/core/v1.Pod: the last two elements of the path and the name.
func nameOf(typ reflect.Type) string {
	path := strings.Split(typ.PkgPath(), "/")
	short := strings.Join(path[len(path)-2:], "/")
	if known, found := packages[short]; found && known != typ.PkgPath() {
		fail("%s and %s would have the same name", known, typ.PkgPath())
	}
	packages[short] = typ.PkgPath()
	return short + "." + typ.Name()
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "fields: "+format+"\n", args...)
	os.Exit(1)
}
