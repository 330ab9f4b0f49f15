package policy

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A reviewed group of built-in functions is allowed or refused for the same reason.
type reviewed struct {
	allowed bool
	reason  string
	names   []string
}

// reviewedBuiltins are all built-in functions of the OPA that is compiled in. Policies may
// call those that are listed as allowed; one that an update of OPA adds is refused, and a
// test fails, until a maintainer has reviewed it: does the result depend on the arguments
// alone, and are time and memory bounded by the size of the arguments (not by their value)?
func reviewedBuiltins() []reviewed { return append(allowedBuiltins(), refusedBuiltins()...) }

func allowedBuiltins() []reviewed {
	return []reviewed{
		{true, "operators and comparisons", []string{"and", "assign", "div", "eq", "equal", "gt", "gte", "internal.member_2", "internal.member_3", "lt", "lte", "minus", "mul", "neq", "or", "plus", "rem"}},
		{true, "arithmetic with a fixed precision; OPA refuses numbers with huge exponents when it reads them", []string{"abs", "bits.and", "bits.negate", "bits.or", "bits.rsh", "bits.xor", "ceil", "floor", "format_int", "product", "round", "sum", "to_number"}},
		{true, "linear in the arguments", []string{
			"array.concat", "array.flatten", "array.reverse", "array.slice", "count", "intersection", "max", "min", "sort", "union",
			"json.filter", "json.patch", "json.remove", "object.filter", "object.get", "object.keys", "object.remove", "object.subset", "object.union", "object.union_n",
		}},
		{true, "types", []string{"is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set", "is_string", "type_name"}},
		{true, "text, linear in the arguments", []string{
			"concat", "contains", "endswith", "indexof", "indexof_n", "internal.template_string", "lower", "replace", "split", "startswith",
			"strings.any_prefix_match", "strings.any_suffix_match", "strings.count", "strings.replace_n", "strings.reverse", "strings.split_n", "substring",
			"trim", "trim_left", "trim_prefix", "trim_right", "trim_space", "trim_suffix", "upper",
		}},
		{true, "text; the format must be a constant and its widths are bounded (checkFormats)", []string{"sprintf"}},
		{true, "regular expressions and globs run in linear time (RE2)", []string{"glob.match", "glob.quote_meta", "regex.find_all_string_submatch_n", "regex.find_n", "regex.is_valid", "regex.match", "regex.replace", "regex.split"}},
		{true, "encodings, linear in the text", []string{
			"base64.decode", "base64.encode", "base64.is_valid", "base64url.decode", "base64url.encode", "base64url.encode_no_pad", "hex.decode", "hex.encode",
			"json.is_valid", "json.marshal", "json.marshal_with_options", "json.unmarshal", "uri.is_valid", "uri.parse",
			"urlquery.decode", "urlquery.decode_object", "urlquery.encode", "urlquery.encode_object", "uuid.parse",
		}},
		{true, "quantities and versions; units.parse bounds exponents", []string{"semver.compare", "semver.is_valid", "units.parse", "units.parse_bytes"}},
		{true, "addresses, without a look-up", []string{"net.cidr_contains", "net.cidr_contains_matches", "net.cidr_intersects", "net.cidr_is_valid", "net.cidr_merge"}},
		{true, "times that the policy has from its input", []string{"time.add_date", "time.clock", "time.date", "time.diff", "time.format", "time.parse_duration_ns", "time.parse_ns", "time.parse_rfc3339_ns", "time.weekday"}},
		{true, "hashes, linear in the text", []string{"crypto.md5", "crypto.sha1", "crypto.sha256"}},
		{true, "visits the parts of a value; ends with the context", []string{"walk"}},
		{true, "what the compiler knows about the rule", []string{"rego.metadata.chain", "rego.metadata.rule"}},
		{true, "marks the cases of a test", []string{"internal.test_case"}},
	}
}

func refusedBuiltins() []reviewed {
	return []reviewed{
		{false, "allocates by the value of a number", []string{"bits.lsh", "numbers.range", "numbers.range_step"}},
		{false, "allocates by the length of a prefix", []string{"net.cidr_expand"}},
		{false, "formats with widths that come from the template", []string{"strings.render_template"}},
		{false, "the number of paths grows exponentially; no evaluation ends inside", []string{"graph.reachable", "graph.reachable_paths"}},
		{false, "the intersection of globs grows exponentially", []string{"regex.globs_match"}},
		{false, "builds a pattern from its arguments", []string{"regex.template_match"}},
		{false, "a parser that policies about devices do not need", []string{
			"graphql.is_valid", "graphql.parse", "graphql.parse_and_verify", "graphql.parse_query", "graphql.parse_schema", "graphql.schema_is_valid",
			"rego.parse_module", "yaml.is_valid", "yaml.marshal", "yaml.unmarshal",
		}},
		{false, "compiles a schema that can refer to others", []string{"json.match_schema", "json.verify_schema"}},
		{false, "reaches the network", []string{"http.send", "net.lookup_ip_addr"}},
		{false, "differs from call to call, so a decision could not be kept", []string{"opa.runtime", "rand.intn", "time.now_ns", "uuid.rfc4122"}},
		{false, "keys and certificates have no place in a policy, and their costs differ", []string{
			"crypto.hmac.equal", "crypto.hmac.md5", "crypto.hmac.sha1", "crypto.hmac.sha256", "crypto.hmac.sha512", "crypto.parse_private_keys",
			"crypto.x509.parse_and_verify_certificates", "crypto.x509.parse_and_verify_certificates_with_options", "crypto.x509.parse_certificate_request",
			"crypto.x509.parse_certificates", "crypto.x509.parse_keypair", "crypto.x509.parse_rsa_private_key",
			"io.jwt.decode", "io.jwt.decode_verify", "io.jwt.encode_sign", "io.jwt.encode_sign_raw", "io.jwt.verify_eddsa",
			"io.jwt.verify_es256", "io.jwt.verify_es384", "io.jwt.verify_es512", "io.jwt.verify_hs256", "io.jwt.verify_hs384", "io.jwt.verify_hs512",
			"io.jwt.verify_ps256", "io.jwt.verify_ps384", "io.jwt.verify_ps512", "io.jwt.verify_rs256", "io.jwt.verify_rs384", "io.jwt.verify_rs512",
			"providers.aws.sign_req",
		}},
		{false, "writes to the log or the trace", []string{"internal.print", "print", "trace"}},
		{false, "deprecated by OPA", []string{"all", "any", "cast_array", "cast_boolean", "cast_null", "cast_object", "cast_set", "cast_string", "net.cidr_overlap", "re_match", "set_diff"}},
	}
}

// capabilities are the built-in functions that policies may call. The result of a policy
// depends on its input alone, so its decisions can be kept.
func capabilities() *ast.Capabilities {
	allowed := map[string]bool{}
	for _, group := range reviewedBuiltins() {
		for _, name := range group.names {
			allowed[name] = group.allowed
		}
	}
	c := ast.CapabilitiesForThisVersion()
	c.Builtins = slices.DeleteFunc(c.Builtins, func(b *ast.Builtin) bool { return !allowed[b.Name] })
	c.AllowNet = []string{}
	return c
}

// maxFormatWidth is the largest width and precision in a format.
const maxFormatWidth = 99

var (
	errFormatConstant = errors.New("the format of sprintf must be a constant text")
	errFormatWidth    = errors.New("a width or precision in the format of sprintf is at most 99, and not *")
	errFormatValue    = errors.New("sprintf can only be called: it is not a value")
)

// checkFormats refuses calls of sprintf that can allocate by a number.
func checkFormats(modules map[string]*ast.Module) error {
	f := formats{}
	for _, module := range modules {
		f.walk(module)
	}
	return errors.Join(f.errs...)
}

type formats struct{ errs []error }

func (f *formats) walk(node any) {
	ast.NewGenericVisitor(func(node any) bool {
		switch node := node.(type) {
		case *ast.Expr:
			if terms, is := node.Terms.([]*ast.Term); is && len(terms) > 0 && isSprintf(terms[0]) {
				f.call(terms, node.Loc())
				f.walkAll(terms[1:])
				for _, with := range node.With {
					f.walk(with)
				}
				return true
			}
		case *ast.Term:
			if call, is := node.Value.(ast.Call); is && isSprintf(call[0]) {
				f.call(call, node.Loc())
				f.walkAll(call[1:])
				return true
			}
			if isSprintf(node) {
				f.errs = append(f.errs, at(node.Loc(), "%w", errFormatValue))
			}
		}
		return false
	}).Walk(node)
}

func (f *formats) walkAll(terms []*ast.Term) {
	for _, term := range terms {
		f.walk(term)
	}
}

// isSprintf reports whether a term names the function.
func isSprintf(t *ast.Term) bool {
	switch value := t.Value.(type) {
	case ast.Var:
		return value == "sprintf"
	case ast.Ref:
		return len(value) == 1 && value[0].Value.Compare(ast.Var("sprintf")) == 0
	}
	return false
}

func (f *formats) call(terms []*ast.Term, place *ast.Location) {
	if len(terms) < 2 {
		return // the compiler reports the number of arguments
	}
	format, constant := terms[1].Value.(ast.String)
	switch {
	case !constant:
		f.errs = append(f.errs, at(place, "%w", errFormatConstant))
	case !boundedWidths(string(format)):
		f.errs = append(f.errs, at(place, "%w", errFormatWidth))
	}
}

// boundedWidths reports whether all numbers in the verbs of a format are small.
func boundedWidths(format string) bool {
	for {
		_, verb, found := strings.Cut(format, "%")
		if !found {
			return true
		}
		end := strings.IndexFunc(verb, func(r rune) bool { return r == '%' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' })
		if end < 0 {
			end = len(verb)
		}
		for _, number := range strings.FieldsFunc(verb[:end], func(r rune) bool { return r < '0' || r > '9' }) {
			if n, err := strconv.Atoi(number); err != nil || n > maxFormatWidth {
				return false
			}
		}
		if strings.ContainsRune(verb[:end], '*') {
			return false
		}
		format = verb[min(end+1, len(verb)):]
	}
}
