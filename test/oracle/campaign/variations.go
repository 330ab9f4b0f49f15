package campaign

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dra-steward/dra-steward/test/oracle/objects"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// Varied puts count writes to the oracle, each with one value changed of one of those of
// cases that it accepts.
func (c *Campaign) Varied(ctx context.Context, seed, count uint64, cases []wire.Case) error {
	answers, err := c.Oracle.Judge(cases)
	if err != nil {
		return err
	}
	var accepted []wire.Case
	for i, answer := range answers {
		if answer.Accepted() {
			accepted = append(accepted, cases[i])
		}
	}
	if len(accepted) == 0 {
		return fmt.Errorf("the API server accepts none of %d writes", len(cases))
	}
	for from := uint64(0); from < count && ctx.Err() == nil; from += batchSize {
		var batch []wire.Case
		for i := from; i < min(count, from+batchSize); i++ {
			one, err := objects.Vary(seed, i, accepted)
			if err != nil {
				return err
			}
			batch = append(batch, one)
		}
		if err := c.Judge(batch); err != nil {
			return err
		}
	}
	return ctx.Err()
}

var fuzzedKinds = []string{"ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule"}

// Fuzzed puts to the oracle what upstream's own fuzzer makes of count seeds: new, written
// again as it is, and over another object of the kind.
func (c *Campaign) Fuzzed(ctx context.Context, seed, count uint64) error {
	for from := uint64(0); from < count && ctx.Err() == nil; from += batchSize {
		var batch []wire.Case
		for i := from; i < min(count, from+batchSize); i++ {
			batch = append(batch, wire.Case{
				ID: fmt.Sprintf("fuzzed/%d/%d", seed, i), Op: wire.Fuzz,
				Kind: fuzzedKinds[i%uint64(len(fuzzedKinds))], Seed: int64(seed<<32 + i),
			})
		}
		made, err := c.Oracle.Judge(batch)
		if err != nil {
			return err
		}
		var writes []wire.Case
		fuzzed := make([]json.RawMessage, len(made))
		for i, answer := range made {
			if answer.Misuse != "" {
				return fmt.Errorf("%s: %s", batch[i].ID, answer.Misuse)
			}
			one := wire.Case{ID: batch[i].ID, Op: wire.Create, Gates: map[string]bool{wire.AllDRA: true}, Admin: true}
			if one.Object, err = objects.Known(batch[i].Kind, answer.Object); err != nil {
				return fmt.Errorf("%s: %w", one.ID, err)
			}
			if one.Object, err = objects.Stored(one.Object); err != nil {
				return err
			}
			fuzzed[i] = one.Object
			again, over := one, one
			again.ID, again.Op, again.Old = one.ID+"/again", wire.Update, one.Object
			over.ID, over.Op, over.Old = one.ID+"/over", wire.Update, one.Object
			if before := i - len(fuzzedKinds); before >= 0 {
				over.Old = fuzzed[before]
			}
			writes = append(writes, one, again, over)
			if batch[i].Kind == "ResourceClaim" {
				over.ID, over.Subresource = one.ID+"/status", "status"
				writes = append(writes, over)
			}
		}
		if err := c.Judge(writes); err != nil {
			return err
		}
	}
	return ctx.Err()
}
