package windows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	one, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return one
}

func parse(t *testing.T, texts ...string) (all []v1alpha1.Window) {
	t.Helper()
	for _, text := range texts {
		w, err := windows.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

// TestAt: 2026-11-23 is a Monday. Berlin is an hour ahead of UTC, and two in summer.
func TestAt(t *testing.T) {
	for name, tt := range map[string]struct {
		windows []string
		now     string
		open    bool
		until   string
	}{
		"none":                         {nil, "2026-11-23T12:00:00Z", true, ""},
		"before":                       {[]string{"22:00-23:00"}, "2026-11-23T21:59:59Z", false, "2026-11-23T22:00:00Z"},
		"the first instant":            {[]string{"22:00-23:00"}, "2026-11-23T22:00:00Z", true, "2026-11-23T23:00:00Z"},
		"the end":                      {[]string{"22:00-23:00"}, "2026-11-23T23:00:00Z", false, "2026-11-24T22:00:00Z"},
		"over midnight":                {[]string{"22:00-06:00"}, "2026-11-24T05:59:00Z", true, "2026-11-24T06:00:00Z"},
		"the night of a day":           {[]string{"Mon 22:00-06:00"}, "2026-11-24T05:59:00Z", true, "2026-11-24T06:00:00Z"},
		"another night":                {[]string{"Mon 22:00-06:00"}, "2026-11-25T05:59:00Z", false, "2026-11-30T22:00:00Z"},
		"a whole day":                  {[]string{"Sat 00:00-00:00"}, "2026-11-28T13:00:00Z", true, "2026-11-29T00:00:00Z"},
		"adjacent":                     {[]string{"Sat 00:00-00:00", "Sun 00:00-04:00"}, "2026-11-28T13:00:00Z", true, "2026-11-29T04:00:00Z"},
		"overlapping":                  {[]string{"10:00-12:00", "11:00-14:00"}, "2026-11-23T10:30:00Z", true, "2026-11-23T14:00:00Z"},
		"always":                       {[]string{"00:00-00:00"}, "2026-11-23T10:30:00Z", true, ""},
		"a zone":                       {[]string{"Mon 22:00-23:00 Europe/Berlin"}, "2026-11-23T21:30:00Z", true, "2026-11-23T22:00:00Z"},
		"the day of a zone":            {[]string{"Tue 00:00-01:00 Europe/Berlin"}, "2026-11-23T23:30:00Z", true, "2026-11-24T00:00:00Z"},
		"a zone far east":              {[]string{"Tue 09:00-10:00 Pacific/Kiritimati"}, "2026-11-23T19:30:00Z", true, "2026-11-23T20:00:00Z"},
		"the hour that summer skips":   {[]string{"02:30-03:30 Europe/Berlin"}, "2026-03-29T00:00:00Z", false, "2026-03-30T00:30:00Z"},
		"a window around that hour":    {[]string{"01:00-05:00 Europe/Berlin"}, "2026-03-29T00:30:00Z", true, "2026-03-29T03:00:00Z"},
		"the hour that winter repeats": {[]string{"01:00-05:00 Europe/Berlin"}, "2026-10-25T00:30:00Z", true, "2026-10-25T04:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := windows.At(parse(t, tt.windows...), at(t, tt.now))
			if err != nil {
				t.Fatal(err)
			}
			until := ""
			if !got.Until.IsZero() {
				until = got.Until.UTC().Format(time.RFC3339)
			}
			if got.Open != tt.open || until != tt.until {
				t.Errorf("open %v until %q, want %v until %q", got.Open, until, tt.open, tt.until)
			}
		})
	}
}

// TestAtAgrees: at each minute of three weeks, with both changes of the clocks, a window is open
// if the wall clock of its zone says so.
func TestAtAgrees(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	all := parse(t, "Mon-Fri 20:00-23:30 Europe/Berlin", "Sat 18:00-09:00 Europe/Berlin")
	for _, begin := range []string{"2026-03-20T00:00:00Z", "2026-10-20T00:00:00Z"} {
		first := at(t, begin)
		for now := first; now.Before(first.AddDate(0, 0, 10)); now = now.Add(time.Minute) {
			local := now.In(berlin)
			day, minute := local.Weekday(), local.Hour()*60+local.Minute()
			want := day >= time.Monday && day <= time.Friday && minute >= 20*60 && minute < 23*60+30 ||
				day == time.Saturday && minute >= 18*60 || day == time.Sunday && minute < 9*60
			got, err := windows.At(all, now)
			if err != nil || got.Open != want || !got.Until.After(now) {
				t.Fatalf("%v: %+v, %v, want %v", local, got, err, want)
			}
		}
	}
}

// TestOpenings: windows open when they are closed a moment before.
func TestOpenings(t *testing.T) {
	for name, tt := range map[string]struct {
		windows []string
		now     string
		want    string
	}{
		"none":             {nil, "2026-03-23T12:00:00Z", ""},
		"of the week":      {[]string{"Mon,Wed 22:00-05:00"}, "2026-03-23T12:00:00Z", "23 22:00, 25 22:00"},
		"while open":       {[]string{"Mon,Wed 22:00-05:00"}, "2026-03-23T22:00:00Z", "25 22:00, 30 22:00"},
		"one into another": {[]string{"Mon 20:00-22:00", "Mon 22:00-05:00", "Mon 21:00-21:30"}, "2026-03-23T12:00:00Z", "23 20:00"},
		"always":           {[]string{"00:00-00:00"}, "2026-03-23T12:00:00Z", ""},
		"summer time":      {[]string{"Sat,Sun 22:00-23:00 Europe/Berlin"}, "2026-03-23T12:00:00Z", "28 21:00, 29 20:00"},
	} {
		all := parse(t, tt.windows...)
		var got []string
		for _, opens := range windows.Openings(all, at(t, tt.now)) {
			got = append(got, opens.UTC().Format("2 15:04"))
			before, _ := windows.At(all, opens.Add(-time.Second))
			if after, _ := windows.At(all, opens); before.Open || !after.Open {
				t.Errorf("%s: no window opens at %v", name, opens)
			}
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: got %v, want %s", name, got, tt.want)
		}
	}
	if got := windows.Openings([]v1alpha1.Window{{From: "22:00", To: "5"}}, at(t, "2026-03-23T12:00:00Z")); got != nil {
		t.Errorf("what cannot be read opens at %v", got)
	}
}

// written is a window as text.
func written(w v1alpha1.Window) string {
	var days []string
	for _, day := range w.Days {
		days = append(days, string(day[:3]))
	}
	return strings.TrimSpace(strings.Join(days, ",") + " " + w.From + "-" + w.To + " " + w.TimeZone)
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"22:00-06:00":                       "22:00-06:00",
		"mon-wed,Saturday 22:00-06:00":      "Mon,Tue,Wed,Sat 22:00-06:00",
		"Fri-Mon 00:00-00:00 Europe/Berlin": "Fri,Sat,Sun,Mon 00:00-00:00 Europe/Berlin",
		"":                                  "error: must be [DAYS ]HH:MM-HH:MM[ ZONE]",
		"Mon":                               "error: must be [DAYS ]HH:MM-HH:MM[ ZONE]",
		"Someday 22:00-06:00":               "error: must be days such as Mon",
		"22:00":                             `error: to: "": must be a time of day`,
		"9:00-10:00":                        `error: from: "9:00": must be a time of day`,
		"22:00-24:00":                       `error: to: "24:00": must be a time of day`,
		"22:00-23:00 Nowhere/City":          `error: timeZone: "Nowhere/City": must be the name of a time zone`,
		"22:00-23:00 Local":                 `error: timeZone: "Local"`,
		"22:00-23:00 UTC UTC":               "error: must be [DAYS ]HH:MM-HH:MM[ ZONE]",
	} {
		got, err := windows.Parse(text)
		wrong, isError := strings.CutPrefix(want, "error: ")
		switch {
		case isError && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%q: %v, want %q", text, err, wrong)
		case !isError && (err != nil || written(got) != want):
			t.Errorf("%q: %q, %v, want %q", text, written(got), err, want)
		}
	}
}

// FuzzAt: what can be parsed has a state, and what it says of the next change is true.
func FuzzAt(f *testing.F) {
	f.Add("Mon-Fri 22:00-06:00 Europe/Berlin", "02:30-03:30 America/New_York", int64(1774746000))
	f.Add("Sat 00:00-00:00", "Sun 12:00-11:59 Asia/Kathmandu", int64(0))
	f.Fuzz(func(t *testing.T, first, second string, seconds int64) {
		var all []v1alpha1.Window
		for _, text := range []string{first, second} {
			if w, err := windows.Parse(text); err == nil {
				all = append(all, w)
			}
		}
		now := time.Unix(seconds%(1<<33), 0)
		got, err := windows.At(all, now)
		if err != nil {
			t.Fatal(err)
		}
		if got.Until.IsZero() {
			return
		}
		if before, err := windows.At(all, got.Until.Add(-time.Second)); err != nil || got.Until.After(now) && before.Open != got.Open {
			t.Errorf("%v at %v: open %v until %v, but %v a second before", all, now, got.Open, got.Until, before.Open)
		}
		if after, err := windows.At(all, got.Until); err != nil || after.Open == got.Open {
			t.Errorf("%v at %v: open %v until %v, and then", all, now, got.Open, got.Until)
		}
	})
}
