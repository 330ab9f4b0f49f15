package cmdutil

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// Duration is a flag with a duration that may begin with days: 7d, 1d12h, 90m.
type Duration time.Duration

// DurationVar adds such a flag.
func DurationVar(f *pflag.FlagSet, into *time.Duration, name string, value time.Duration, usage string) {
	*into = value
	f.Var((*Duration)(into), name, usage)
}

func (d *Duration) String() string { return time.Duration(*d).String() }

// Type is how help calls the value.
func (d *Duration) Type() string { return "duration" }

// Set reads the value of the flag.
func (d *Duration) Set(text string) error {
	parsed, err := ParseDuration(text)
	if err == nil {
		*d = Duration(parsed)
	}
	return err
}

// ParseDuration reads a duration that may begin with days of 24 hours.
func ParseDuration(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	parts := regexp.MustCompile(`^(\d+)d(.*)$`).FindStringSubmatch(text)
	if parts == nil {
		parsed, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q: must be a duration such as 90m, 12h, 7d or 1d12h", text)
		}
		return parsed, nil
	}
	days, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || days > int64((1<<63-1)/day)-1 {
		return 0, fmt.Errorf("%q: too long", text)
	}
	rest := time.Duration(0)
	if parts[2] != "" {
		if rest, err = time.ParseDuration(parts[2]); err != nil || rest < 0 || rest >= day {
			return 0, fmt.Errorf("%q: must be a duration such as 90m, 12h, 7d or 1d12h", text)
		}
	}
	return time.Duration(days)*day + rest, nil
}
