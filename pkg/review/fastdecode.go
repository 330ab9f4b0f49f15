package review

import "github.com/go-json-experiment/json"

// fastDecode reads JSON that leaves no question open, twice as fast as the decoder of API
// servers: no object has a duplicate field, all text is UTF-8. For anything else it
// returns false, and object is of no use.
//
// What it reads is what that decoder reads: FuzzFastDecode. Without it, the admission request
// of a claim takes 15 % more CPU and that of a full slice 25 % more (BenchmarkTLS). Delete it
// when the decoder of API servers is within a tenth of it.
func fastDecode(data []byte, object any) bool {
	return json.Unmarshal(data, object) == nil
}
