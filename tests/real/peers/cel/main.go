// Reads questions, one JSON object a line: a schema with rules at its root and an object, or two. Answers each with
// what compiling the rules says and estimates, and with the errors and the cost of checking the object.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
)

type question struct {
	Schema apiextensionsv1.JSONSchemaProps `json:"schema"`
	Obj    json.RawMessage                 `json:"obj"`
	Old    json.RawMessage                 `json:"old"`
	Root   bool                            `json:"root"`
}

type rule struct {
	Error string `json:"error,omitempty"`
	Cost  uint64 `json:"cost"`
}

type answer struct {
	Failed string   `json:"failed,omitempty"`
	Rules  []rule   `json:"rules"`
	Errors []string `json:"errors"`
	Cost   int64    `json:"cost"`
}

func value(text json.RawMessage) (found interface{}, err error) {
	if len(text) > 0 {
		err = utiljson.Unmarshal(text, &found)
	}
	return
}

func answered(line []byte) (found answer, err error) {
	asked := question{}
	if err = json.Unmarshal(line, &asked); err != nil {
		return
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err = apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&asked.Schema, internal, nil); err != nil {
		return
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		return
	}
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	declared := model.SchemaDeclType(structural, asked.Root)
	compiled, err := cel.Compile(structural, declared, celconfig.PerCallLimit, env, cel.NewExpressionsEnvLoader())
	if err != nil {
		return
	}
	for _, one := range compiled {
		told := rule{Cost: one.MaxCost}
		if one.Error != nil {
			told.Error = one.Error.Detail
		}
		found.Rules = append(found.Rules, told)
	}
	obj, err := value(asked.Obj)
	if err != nil || obj == nil {
		return
	}
	old, err := value(asked.Old)
	if err != nil {
		return
	}
	var options []cel.Option
	if old != nil {
		correlated := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: structural})
		options = append(options, cel.WithRatcheting(correlated))
	}
	budget := int64(celconfig.RuntimeCELCostBudget)
	validator := cel.NewValidator(structural, asked.Root, celconfig.PerCallLimit)
	errs, left := validator.Validate(context.Background(), nil, structural, obj, old, budget, options...)
	found.Cost = budget - left
	for _, one := range errs {
		found.Errors = append(found.Errors, one.Error())
	}
	return
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		found, err := answered(lines.Bytes())
		if err != nil {
			found.Failed = err.Error()
		}
		text, err := json.Marshal(found)
		if err != nil {
			text = []byte(fmt.Sprintf(`{"failed":%q}`, err.Error()))
		}
		out.Write(append(text, '\n'))
	}
}
