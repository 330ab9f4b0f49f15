package cdi

// The reasons why an id is not applied. [Reasons] documents them.
const (
	reasonInvalidName          = "invalid-name"
	reasonNoSpec               = "no-spec"
	reasonNoDevice             = "no-device"
	reasonSpecIgnored          = "spec-ignored"
	reasonSpecInvalid          = "spec-invalid"
	reasonVersionTooNew        = "version-too-new"
	reasonVersionTooLow        = "version-too-low"
	reasonConflict             = "conflict"
	reasonDirectoryUnreadable  = "directory-unreadable"
	reasonDeviceNodeMissing    = "device-node-missing"
	reasonDeviceNodeMismatched = "device-node-mismatched"
	reasonMountMissing         = "mount-missing"
	reasonHookMissing          = "hook-missing"
	reasonHookNotExecutable    = "hook-not-executable"
	reasonDisabled             = "disabled"
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
		{reasonInvalidName, "The id is not vendor/class=device. No runtime resolves it; the driver must name its devices otherwise."},
		{reasonNoSpec, "No specification in the directories of the runtime is of this vendor and class. The driver must write it again: it does so when the sandbox of the pod is created again."},
		{reasonNoDevice, "There are specifications of this vendor and class, but none has the device."},
		{reasonSpecIgnored, "The specification is where runtimes do not look: they read *.json and *.yaml directly in a directory, neither *.yml nor what is further below."},
		{reasonSpecInvalid, "The specification that names this vendor and class cannot be loaded: it is cut off, has an unknown field, or a device changes nothing."},
		{reasonVersionTooNew, "The specification has a cdiVersion that the runtime does not know. A newer runtime, or a driver that writes the lowest version it needs, helps."},
		{reasonVersionTooLow, "The specification uses a field that its cdiVersion does not have."},
		{reasonConflict, "Two specifications of one directory have the device. Runtimes then drop both, even if a directory of higher precedence has it too."},
		{reasonDirectoryUnreadable, "A directory cannot be read. Runtimes read no further directories after it."},
		{reasonDeviceNodeMissing, "A device node of the specification is not on the host. The driver of the device may not be loaded, or has been given another number."},
		{reasonDeviceNodeMismatched, "The path of a device node is something else on the host: no device, or one of another type."},
		{reasonMountMissing, "A mount of the specification has no source on the host. The runtime resolves the device, and the container fails to start."},
		{reasonHookMissing, "A hook of the specification is not on the host. The runtime resolves the device, and the container fails to start."},
		{reasonHookNotExecutable, "A hook of the specification is no executable file. The runtime resolves the device, and the container fails to start."},
		{reasonDisabled, "The container runtime is configured to leave CDI devices out (enable_cdi = false in containerd up to 2.2): containers start without them, and no error says so. It was asked at its CRI socket."},
	}
}
