package transcript

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kafka messages as text: JSON, in which byte fields are strings (\x escapes
// where they are not UTF-8), topic ids are base64url as Kafka prints them, and
// unknown tags do not show.

// fill sets the fields that text names in a message that holds its defaults.
func fill(message any, text string) error {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return err
	}
	return set(reflect.ValueOf(message).Elem(), v, "")
}

func set(dst reflect.Value, v any, path string) error {
	if v == nil {
		switch dst.Kind() {
		case reflect.Pointer, reflect.Slice:
			dst.SetZero()
			return nil
		}
		return fmt.Errorf("%s cannot be null", path)
	}
	switch dst.Kind() {
	case reflect.Pointer:
		p := reflect.New(dst.Type().Elem())
		if err := set(p.Elem(), v, path); err != nil {
			return err
		}
		dst.Set(p)
		return nil
	case reflect.Struct:
		return setStruct(dst, v, path)
	case reflect.Slice, reflect.Array:
		return setList(dst, v, path)
	case reflect.String:
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("%s: a string expected", path)
		}
		dst.SetString(s)
		return nil
	case reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			return fmt.Errorf("%s: true or false expected", path)
		}
		dst.SetBool(b)
		return nil
	}
	return setNumber(dst, v, path)
}

func setNumber(dst reflect.Value, v any, path string) error {
	s := fmt.Sprint(v)
	switch {
	case dst.CanInt():
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || dst.OverflowInt(n) {
			return fmt.Errorf("%s: %s is no number of its type", path, s)
		}
		dst.SetInt(n)
	case dst.CanFloat():
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return fmt.Errorf("%s: %s is no number", path, s)
		}
		dst.SetFloat(n)
	default:
		return fmt.Errorf("%s: a %s cannot be written", path, dst.Kind())
	}
	return nil
}

func setStruct(dst reflect.Value, v any, path string) error {
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: an object expected", path)
	}
	if d, ok := dst.Addr().Interface().(interface{ Default() }); ok && path != "" {
		d.Default()
	}
	for name, fv := range m {
		f := dst.FieldByName(name)
		if !f.IsValid() {
			return fmt.Errorf("%s has no field %s", dst.Type(), name)
		}
		if err := set(f, fv, path+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func setList(dst reflect.Value, v any, path string) error {
	if s, ok := v.(string); ok {
		if dst.Kind() == reflect.Array { // a topic id
			b, err := base64.RawURLEncoding.DecodeString(s)
			if err != nil || len(b) != dst.Len() {
				return fmt.Errorf("%s: %q is no id", path, s)
			}
			reflect.Copy(dst, reflect.ValueOf(b))
			return nil
		}
		dst.SetBytes([]byte(s))
		return nil
	}
	l, ok := v.([]any)
	if !ok || dst.Kind() == reflect.Array {
		return fmt.Errorf("%s: a list expected", path)
	}
	dst.Set(reflect.MakeSlice(dst.Type(), len(l), len(l)))
	for i, e := range l {
		if err := set(dst.Index(i), e, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// lineWidth is how long an object may be to stand on one line.
const lineWidth = 110

// format writes a message. Fields that its version does not carry hold their
// defaults after decoding and are left out with all other defaults, except
// error codes.
//
// Lists of members and of all groups are sorted by what hide makes of them: their
// order follows Kafka's hash maps and so the random part of member ids. With
// sorted, every list is.
func format(message any, hide func(string) string, sorted bool) string {
	p := printer{hide, sorted}
	v := reflect.ValueOf(message).Elem()
	return p.render(v, defaults(v.Type()), "")
}

type printer struct {
	hide   func(string) string
	sorted bool
}

func (p printer) render(v, def reflect.Value, indent string) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "null"
		}
		return p.render(v.Elem(), reflect.Value{}, indent)
	case reflect.Struct:
		return p.renderStruct(v, def, indent)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if v.IsNil() {
				return "null"
			}
			return strconv.Quote(string(v.Bytes()))
		}
		return p.renderSlice(v, indent)
	case reflect.Array:
		b := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(b), v)
		return strconv.Quote(base64.RawURLEncoding.EncodeToString(b))
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Float64:
		if f := v.Float(); f == math.Trunc(f) {
			return strconv.FormatFloat(f, 'f', -1, 64)
		}
	}
	return fmt.Sprint(v.Interface())
}

func (p printer) renderSlice(v reflect.Value, indent string) string {
	if v.IsNil() {
		return "null"
	}
	parts := make([]string, v.Len())
	for i := range parts {
		e := v.Index(i)
		def := reflect.Value{}
		if e.Kind() == reflect.Struct {
			def = defaults(e.Type())
		}
		parts[i] = p.render(e, def, indent+"  ")
	}
	if e := v.Type().Elem(); e.Kind() == reflect.Struct {
		_, member := e.FieldByName("MemberID")
		_, listed := e.FieldByName("GroupState")
		if p.sorted || member || listed {
			slices.SortStableFunc(parts, func(a, b string) int { return strings.Compare(p.hide(a), p.hide(b)) })
		}
	}
	return join("[", parts, "]", indent)
}

func (p printer) renderStruct(v, def reflect.Value, indent string) string {
	var parts []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Name == "Version" || f.Name == "UnknownTags" {
			continue
		}
		if f.Name != "ErrorCode" && def.IsValid() && reflect.DeepEqual(v.Field(i).Interface(), def.Field(i).Interface()) {
			continue
		}
		parts = append(parts, f.Name+": "+p.render(v.Field(i), fieldDefault(def, i), indent+"  "))
	}
	return join("{", parts, "}", indent)
}

func fieldDefault(def reflect.Value, i int) reflect.Value {
	if def.IsValid() && def.Field(i).Kind() == reflect.Struct {
		return def.Field(i)
	}
	return reflect.Value{}
}

func join(open string, parts []string, end, indent string) string {
	one := open + strings.Join(parts, ", ") + end
	if len(one)+len(indent) <= lineWidth && !strings.Contains(one, "\n") {
		return one
	}
	inner := indent + "  "
	return open + "\n" + inner + strings.Join(parts, ",\n"+inner) + "\n" + indent + end
}

// pick writes the values at some paths of a message, one a line.
func pick(message any, paths []string, hide func(string) string) (string, error) {
	var b strings.Builder
	for _, path := range paths {
		v, def, err := find(message, path)
		text := "(none)"
		if err == nil {
			text = printer{hide: hide}.render(v, def, "")
		} else if !errors.Is(err, errNoElement) {
			return "", err
		}
		b.WriteString(path + ": " + text + "\n")
	}
	return b.String(), nil
}

// lookup finds the value at a path such as Topics[0].TopicID, as text.
func lookup(message any, path string) (string, error) {
	v, _, err := find(message, path)
	if err != nil {
		return "", err
	}
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		return v.String(), nil
	}
	s := printer{}.render(v, reflect.Value{}, "")
	if u, err := strconv.Unquote(s); err == nil {
		return u, nil
	}
	return s, nil
}

// find follows a path: names of fields, each with the index of an element
// (Topics[0]) or with a field that tells which one (ApiKeys[ApiKey=11]). Of a
// struct it returns the defaults, too.
func find(message any, path string) (v, def reflect.Value, err error) {
	v = reflect.ValueOf(message).Elem()
	for _, m := range pathParts.FindAllStringSubmatch(path, -1) {
		name, index, indexed := m[1], m[3], m[2] != ""
		for v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
		}
		v = v.FieldByName(name)
		if !v.IsValid() {
			return v, def, fmt.Errorf("no field %s in the answer", name)
		}
		if indexed {
			if v, err = element(v, index); err != nil {
				return v, def, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if v.Kind() == reflect.Struct {
		def = defaults(v.Type())
	}
	return v, def, nil
}

var errNoElement = errors.New("no element")

// pathParts finds the names of a path, each with what stands in brackets behind it.
var pathParts = regexp.MustCompile(`(\w+)(\[([^\]]*)\])?`)

func element(list reflect.Value, index string) (reflect.Value, error) {
	field, want, keyed := strings.Cut(index, "=")
	n, err := strconv.Atoi(index)
	for i := range list.Len() {
		e := list.Index(i)
		if (keyed && fmt.Sprint(e.FieldByName(field)) == want) || (!keyed && err == nil && i == n) {
			return e, nil
		}
	}
	return list, fmt.Errorf("%w %s", errNoElement, index)
}

// defaults makes a struct of a type that holds its defaults.
func defaults(t reflect.Type) reflect.Value {
	fresh := reflect.New(t)
	if d, ok := fresh.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	return fresh.Elem()
}
