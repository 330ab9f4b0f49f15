package cdi

// The reasons for which an id would not be applied.
const (
	InvalidName          = "invalid-name"
	NoSpec               = "no-spec"
	NoDevice             = "no-device"
	SpecIgnored          = "spec-ignored"
	SpecInvalid          = "spec-invalid"
	VersionTooNew        = "version-too-new"
	VersionTooLow        = "version-too-low"
	Conflict             = "conflict"
	DirectoryUnreadable  = "directory-unreadable"
	DeviceNodeMissing    = "device-node-missing"
	DeviceNodeMismatched = "device-node-mismatched"
	MountMissing         = "mount-missing"
	HookMissing          = "hook-missing"
	HookNotExecutable    = "hook-not-executable"
	Disabled             = "disabled"
)

// A Reason is a way in which an id fails. Its ID is in reports and metric labels.
type Reason struct {
	ID string
	// Doc is what is wrong and what helps.
	Doc string
}

// Reasons returns all reasons. Each has testdata/<ID>.txtar.
func Reasons() []Reason {
	return []Reason{
		{InvalidName, "The id is not vendor/class=device. No runtime resolves it; the driver must name its devices otherwise."},
		{NoSpec, "No specification in the directories of the runtime is of this vendor and class. The driver must write it again: it does so when the sandbox of the pod is created again."},
		{NoDevice, "There are specifications of this vendor and class, but none has the device."},
		{SpecIgnored, "The specification is where runtimes do not look: they read *.json and *.yaml directly in a directory, neither *.yml nor what is further below."},
		{SpecInvalid, "The specification that names this vendor and class cannot be loaded: it is cut off, has an unknown field, or a device changes nothing."},
		{VersionTooNew, "The specification has a cdiVersion that the runtime does not know. A newer runtime, or a driver that writes the lowest version it needs, helps."},
		{VersionTooLow, "The specification uses a field that its cdiVersion does not have."},
		{Conflict, "Two specifications of one directory have the device. Runtimes then drop both, even if a directory of higher precedence has it too."},
		{DirectoryUnreadable, "A directory cannot be read. Runtimes read no further directories after it."},
		{DeviceNodeMissing, "A device node of the specification is not on the host. The driver of the device may not be loaded, or has been given another number."},
		{DeviceNodeMismatched, "The path of a device node is something else on the host: no device, or one of another type."},
		{MountMissing, "A mount of the specification has no source on the host. The runtime resolves the device, and the container fails to start."},
		{HookMissing, "A hook of the specification is not on the host. The runtime resolves the device, and the container fails to start."},
		{HookNotExecutable, "A hook of the specification is no executable file. The runtime resolves the device, and the container fails to start."},
		{Disabled, "The container runtime is configured to leave CDI devices out (enable_cdi = false in containerd up to 2.2): containers start without them, and no error says so. It was asked at its CRI socket."},
	}
}
