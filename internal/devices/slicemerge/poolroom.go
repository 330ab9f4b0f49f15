package slicemerge

import "github.com/dra-steward/dra-steward/pkg/patch/record"

// What is known of pools is bounded, in bytes: in all, and of those of one node. A driver that has the
// right to write slices of its own node only can forge records in them: it takes little room from
// other nodes. The largest slice needs 3 MB, 10,000 pools of 8 devices with 8 patched values 110 MB.
const (
	maxPoolBytes = 128 << 20
	maxNodeBytes = 8 << 20
)

// poolRoom counts the bytes of pools. The zero value is ready for use.
type poolRoom struct {
	all   int
	nodes map[string]int
	pools map[Pool]int
}

// resize reports whether a pool may have so many bytes, and if so counts them. A pool may always
// shrink.
func (r *poolRoom) resize(pool Pool, bytes int) bool {
	more := bytes - r.pools[pool]
	if more > 0 && (r.all+more > maxPoolBytes || pool.Node != "" && r.nodes[pool.Node]+more > maxNodeBytes) {
		return false
	}
	if r.pools == nil {
		r.nodes, r.pools = map[string]int{}, map[Pool]int{}
	}
	r.all += more
	r.nodes[pool.Node] += more
	if r.pools[pool] = bytes; bytes == 0 {
		delete(r.pools, pool)
	}
	if r.nodes[pool.Node] == 0 {
		delete(r.nodes, pool.Node)
	}
	return true
}

// bytesPerPool is about how much memory a pool needs without its devices and names.
const bytesPerPool = 500

// poolBytes is about how much memory what is known of a pool needs.
func poolBytes(pool Pool, originals record.Originals) int {
	if len(originals) == 0 {
		return 0
	}
	return bytesPerPool + len(pool.Driver) + len(pool.Name) + len(pool.Node) + originals.Bytes()
}
