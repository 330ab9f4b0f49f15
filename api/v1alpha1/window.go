package v1alpha1

// WindowsMax is how many windows an object can have.
const WindowsMax = 16

// A Window is a time of the week in which pods are evicted.
//
// +kubebuilder:object:generate=true
type Window struct {
	// Days are the days on which the window opens. Absent is every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=7
	Days []Weekday `json:"days,omitempty"`
	// From is the time of day at which the window opens, as HH:MM.
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	// +kubebuilder:validation:MaxLength=5
	From string `json:"from"`
	// To is the time of day at which the window closes, as HH:MM: on the next day unless it is
	// later than from. A window from 00:00 to 00:00 is a whole day.
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	// +kubebuilder:validation:MaxLength=5
	To string `json:"to"`
	// TimeZone is the name of the time zone of days, from and to in the database of the IANA,
	// such as Europe/Berlin. Absent is UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// Weekday is a day of the week.
//
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// The days of the week.
const (
	Monday    Weekday = "Monday"
	Tuesday   Weekday = "Tuesday"
	Wednesday Weekday = "Wednesday"
	Thursday  Weekday = "Thursday"
	Friday    Weekday = "Friday"
	Saturday  Weekday = "Saturday"
	Sunday    Weekday = "Sunday"
)
