package selector

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// A work tells how much work a call does with its arguments. What is beyond left it may
// leave out.
type work func(c *call, args []ref.Val, left int) int

// workOf returns the work of a function.
func workOf(function string) work {
	switch {
	case slices.Contains(constant, function):
		return func(*call, []ref.Val, int) int { return 0 }
	case special[function] != nil:
		return special[function]
	case slices.Contains(linear, function):
		return sum
	}
	return product // a function of a newer Kubernetes
}

// constant are the functions that do the same work whatever their arguments are.
var constant = []string{
	"!_", "-_", "_%_", "_*_", "_-_", "_/_", "_?_:_", "_[_]", "_[?_]", "_?._", "_&&_", "_||_", "@not_strictly_false", "__not_strictly_false__",
	"allowed", "asApproximateFloat", "asInteger", "check", "dyn", "error", "errored", "family", "first", "format.byte", "format.date", "format.datetime",
	"format.dns1035Label", "format.dns1035LabelPrefix", "format.dns1123Label", "format.dns1123LabelPrefix", "format.dns1123Subdomain",
	"format.dns1123SubdomainPrefix", "format.labelValue", "format.qualifiedName", "format.uri", "format.uuid", "getEscapedPath", "getHost", "getHostname",
	"getPort", "getQuery", "getScheme", "group", "hasValue", "isGlobalUnicast", "isInteger", "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback",
	"isUnspecified", "last", "major", "masked", "minor", "name", "namespace", "optional.none", "optional.of", "optional.unwrap", "or", "orValue", "patch",
	"path", "prefixLength", "reason", "resource", "serviceAccount", "sign", "subresource", "type", "unwrapOpt", "value",
}

// linear are the functions that read their arguments a few times at most.
var linear = []string{
	"_!=_", "_==_", "_<_", "_<=_", "_>_", "_>=_", "bool", "bytes", "cel.@mapInsert", "charAt", "cidr", "compareTo", "contains", "containsCIDR", "containsIP", "double",
	"duration", "endsWith", "fieldSelector", "flatten", "format.named", "includes", "int", "ip", "ip.isCanonical", "isCIDR", "isGreaterThan", "isIP",
	"isLessThan", "isSorted", "isURL", "labelSelector", "lowerAscii", "max", "min", "optional.ofNonZeroValue", "reverse", "size", "slice", "startsWith",
	"string", "strings.quote", "substring", "sum", "timestamp", "trim", "uint", "upperAscii", "url",
}

// special are all others.
var special = map[string]work{
	"_+_": concatenation, "add": sum, "sub": sum,
	"@in": membership, "in": membership, "_in_": membership,
	"indexOf": product, "lastIndexOf": product,
	"distinct": squared, "sort": squared, "@sortByAssociatedKeys": squared,
	"sets.contains": product, "sets.equivalent": product, "sets.intersects": product,
	"lists.range": rangeOf, "replace": replacement, "join": joined, "split": several, "format": formatted, "validate": several,
	"quantity": quantityOf, "isQuantity": quantityOf, "semver": several, "isSemver": several,
	"matches": matching, "find": matching, "findAll": matching,
	"getDate": clock, "getDayOfMonth": clock, "getDayOfWeek": clock, "getDayOfYear": clock, "getFullYear": clock, "getHours": clock,
	"getMilliseconds": clock, "getMinutes": clock, "getMonth": clock, "getSeconds": clock,
}

// elementWork is the work of an element of a list, beyond that for its value.
const elementWork = 16

// weigh returns how much there is to read of a value. A list that has another one many times
// is read as often.
func weigh(value ref.Val, left int) int {
	switch v := value.(type) {
	case types.String:
		return 1 + len(v)
	case types.Bytes:
		return 1 + len(v)
	case *types.Optional:
		if v.HasValue() {
			return 1 + weigh(v.GetValue(), left-1)
		}
	case traits.Lister:
		total := elementWork
		for it := v.Iterator(); it.HasNext() == types.True && total <= left; {
			total += elementWork + weigh(it.Next(), left-total)
		}
		return total
	case traits.Mapper:
		total := elementWork
		for it := v.Iterator(); it.HasNext() == types.True && total <= left; {
			key := it.Next()
			total += elementWork + weigh(key, left-total)
			if element, found := v.Find(key); found {
				total += weigh(element, left-total)
			}
		}
		return total
	case quantityValue:
		return quantityWork(v)
	}
	return 1
}

func sum(_ *call, args []ref.Val, left int) (total int) {
	for _, arg := range args {
		if total <= left {
			total += weigh(arg, left-total)
		}
	}
	return total
}

func product(_ *call, args []ref.Val, left int) int {
	total := 1
	for _, arg := range args {
		total = times(total, weigh(arg, left), left)
	}
	return total
}

// times multiplies without overflow.
func times(a, b, left int) int {
	if a > 0 && b > left/a {
		return left + 1
	}
	return a * b
}

// several is for functions that read and make more than they are given.
func several(_ *call, args []ref.Val, left int) int { return times(16, sum(nil, args, left), left) }

func squared(_ *call, args []ref.Val, left int) int {
	total := sum(nil, args, left)
	return times(total, total, left)
}

// concatenation copies strings. A list refers to its parts.
func concatenation(_ *call, args []ref.Val, left int) int {
	if list, is := args[1].(traits.Lister); is {
		return length(list)
	}
	return sum(nil, args, left)
}

func length(list traits.Sizer) int {
	n, _ := list.Size().(types.Int)
	return int(n)
}

// membership looks into a list, or a key up.
func membership(_ *call, args []ref.Val, left int) int {
	if _, is := args[1].(traits.Mapper); is {
		return weigh(args[0], left)
	}
	return sum(nil, args, left)
}

func rangeOf(_ *call, args []ref.Val, left int) int {
	n, _ := args[0].(types.Int)
	return int(min(max(n, 0), types.Int(left)+1))
}

func replacement(_ *call, args []ref.Val, left int) int {
	text, _ := args[0].(types.String)
	old, _ := args[1].(types.String)
	replaced, _ := args[2].(types.String)
	places := len(text)/max(len(old), 1) + 1
	return len(text) + min(times(places, len(replaced)+1, left), left+1)
}

func joined(_ *call, args []ref.Val, left int) int {
	list, is := args[0].(traits.Lister)
	if !is {
		return sum(nil, args, left)
	}
	separator := 1
	if len(args) > 1 {
		separator = weigh(args[1], left)
	}
	return weigh(list, left) + times(length(list), separator, left)
}

// formatted counts a width or a precision as what it makes.
func formatted(_ *call, args []ref.Val, left int) int {
	text, _ := args[0].(types.String)
	total, number := sum(nil, args, left), 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			number = 0
			continue
		}
		number = min(number*10+int(c-'0'), left+1)
		total = min(total+number, left+1)
	}
	return times(8, total, left)
}

// clock is for the parts of a time: a time zone is read from a file.
func clock(_ *call, args []ref.Val, left int) int {
	if len(args) == 1 {
		return 1
	}
	return 2000 + weigh(args[1], left)
}

// quantityOf is the work of a quantity's parser, which multiplies and divides by powers of
// ten. A number beyond the bounds is not parsed.
func quantityOf(_ *call, args []ref.Val, left int) int {
	text, is := args[0].(types.String)
	switch {
	case !is:
		return 1
	case quantity.Bounded(string(text)) != nil:
		return left + 1
	case strings.ContainsAny(string(text), "eE"):
		return times(4, len(text)+quantity.MaxMagnitude, left)
	}
	return times(4, len(text), left)
}
