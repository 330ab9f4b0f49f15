package load

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// prefixes are where the API server keeps the objects of a world. Namespaces that others made
// are left out.
var prefixes = []string{"/registry/deviceclasses/", "/registry/namespaces/team-", "/registry/minions/scale-", "/registry/resourceslices/scale-",
	"/registry/resourceclaimtemplates/team-", "/registry/poddisruptionbudgets/team-", "/registry/devicetaintrules/rule-",
	"/registry/dra-steward.io/resourceslicepatches/patch-", "/registry/resourceclaims/team-", "/registry/pods/team-"}

const (
	// pageSize is how many keys are read at once.
	pageSize = 1000
	// txnSize is how many keys etcd takes in one transaction.
	txnSize = 128
	// restorers is how many transactions are under way.
	restorers = 8
)

// An entry is a key of etcd with its value, as the API server stored it.
type entry struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// Save writes what etcd has of a world to a file. The address is that of etcd without TLS.
func Save(ctx context.Context, etcd, file string) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".part-")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, part.Close())
		if err == nil {
			err = os.Rename(part.Name(), file)
		} else {
			_ = os.Remove(part.Name())
		}
	}()
	packed, err := gzip.NewWriterLevel(part, gzip.BestSpeed)
	if err != nil {
		return err
	}
	encoder := gob.NewEncoder(packed)
	for _, prefix := range prefixes {
		if err := read(ctx, etcd, []byte(prefix), func(page []entry) error { return encoder.Encode(page) }); err != nil {
			return fmt.Errorf("etcd, %s: %w", prefix, err)
		}
	}
	return packed.Close()
}

// read calls visit for the keys with a prefix, a page at a time.
func read(ctx context.Context, etcd string, prefix []byte, visit func([]entry) error) error {
	end := bytes.Clone(prefix)
	end[len(end)-1]++
	for from := prefix; ; {
		var page struct {
			KVs  []entry `json:"kvs"`
			More bool    `json:"more"`
		}
		request := map[string]any{"key": from, "range_end": end, "limit": pageSize}
		if err := call(ctx, etcd+"/v3/kv/range", request, &page); err != nil {
			return err
		}
		if len(page.KVs) > 0 {
			if err := visit(page.KVs); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		from = append(page.KVs[len(page.KVs)-1].Key, 0)
	}
}

// Restore puts the keys of a file into etcd. The API server that uses it learns of them by its
// watches. It returns how many there are; the error is fs.ErrNotExist where there is no file.
func Restore(ctx context.Context, etcd, file string) (keys int, _ error) {
	stored, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer stored.Close()
	packed, err := gzip.NewReader(bufio.NewReader(stored))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	group, putting := errgroup.WithContext(ctx)
	group.SetLimit(restorers)
	for decoder := gob.NewDecoder(packed); ; {
		var page []entry
		if err = decoder.Decode(&page); err != nil {
			break
		}
		keys += len(page)
		for begin := 0; begin < len(page); begin += txnSize {
			part := page[begin:min(begin+txnSize, len(page))]
			group.Go(func() error { return put(putting, etcd, part) })
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, group.Wait()); err != nil {
		return keys, fmt.Errorf("%s: %w", file, err)
	}
	return keys, nil
}

func put(ctx context.Context, etcd string, entries []entry) error {
	var operations []map[string]any
	for _, one := range entries {
		operations = append(operations, map[string]any{"requestPut": one})
	}
	return call(ctx, etcd+"/v3/kv/txn", map[string]any{"success": operations}, &struct{}{})
}

// call sends a request to the JSON gateway of etcd.
func call(ctx context.Context, url string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(post)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("%s: %s: %s", url, response.Status, text)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
